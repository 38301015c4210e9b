"""The messages for invalid files: each is recorded in the file itself."""

from pathlib import Path

import pytest
from tests.loading.specs import SPECS
from tests.loading.wrong_files import WrongFile, said, wrong_files

from agentv.loading.suites.suites import load_suite
from agentv.loading.targets.targets import read_targets
from agentv.types.errors import EvalFileError


@pytest.mark.parametrize("wrong", wrong_files("wrong_suites"), ids=lambda wrong: wrong.name)
def test_every_problem_of_a_wrong_suite_is_reported_with_its_position(
    wrong: WrongFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("suite.yaml")
    path.write_text(wrong.content)
    with pytest.raises(EvalFileError) as caught:
        load_suite(path, specs=SPECS)
    found = tuple(line.replace(str(tmp_path), "HERE") for line in said(caught.value.problems, str(path)))
    assert found == wrong.messages


@pytest.mark.parametrize("wrong", wrong_files("wrong_targets"), ids=lambda wrong: wrong.name)
def test_every_problem_of_wrong_targets_is_reported_with_its_position(
    wrong: WrongFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("targets.yaml")
    path.write_text(wrong.content)
    assert said(read_targets(path, SPECS).problems, str(path)) == wrong.messages


def test_there_are_more_than_sixty_wrong_suites() -> None:
    assert len(wrong_files("wrong_suites")) > 60
