"""The inputs of a run, and the problems of all its files together."""

from pathlib import Path

import pytest

from agentv.engine.planning.inputs import load_inputs
from agentv.types.errors import EvalFileError, TargetError
from agentv.types.run_options import RunOptions

GOOD_SUITE = """\
evalcases:
  - id: a
    input_messages: [{role: user, content: q}]
    evaluators: [{name: x, type: contains, value: x}]
"""
BAD_SUITE = "bogus: 1\n" + GOOD_SUITE
BAD_TARGETS = "nonsense: 1\ntargets: [{name: default, provider: mock}]\n"


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(EvalFileError) as caught:
        load_inputs(sorted(folder.glob("*.eval.yaml")), RunOptions(), cwd=folder, env={})
    return [problem.message for problem in caught.value.problems]


def test_problems_of_suites_and_targets_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "a.eval.yaml").write_text(BAD_SUITE)
    (tmp_path / "targets.yaml").write_text(BAD_TARGETS)
    assert problems_of(tmp_path) == ["unknown key 'bogus'", "unknown key 'nonsense'"]


def test_problems_of_a_suite_are_reported_before_a_missing_targets_file(tmp_path: Path) -> None:
    (tmp_path / "a.eval.yaml").write_text(BAD_SUITE)
    (tmp_path / "b.eval.yaml").write_text(GOOD_SUITE)
    assert problems_of(tmp_path) == ["unknown key 'bogus'"]


def test_problems_of_a_suite_are_reported_without_a_targets_file(tmp_path: Path) -> None:
    (tmp_path / "a.eval.yaml").write_text(BAD_SUITE)
    assert problems_of(tmp_path) == ["unknown key 'bogus'"]
    (tmp_path / "a.eval.yaml").write_text(GOOD_SUITE)
    with pytest.raises(TargetError, match="there is no targets file"):
        load_inputs([tmp_path / "a.eval.yaml"], RunOptions(), cwd=tmp_path, env={})
