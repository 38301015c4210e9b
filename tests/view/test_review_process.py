"""`agentv review` as a process: what it prints, and that no acknowledged label is lost when it is killed."""

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.review_process import ReviewProcess, review_until_killed
from tests.support.reviewed import ScriptedReviewer, store_run

from agentv.cli.main import agentv

REVIEWERS = ("ada", "bob")
OPTIONS = ("--sample", "30", "--reviewer", "ada", "--reviewer", "bob", "--overlap", "20%")


def test_killing_the_server_loses_no_acknowledged_label(tmp_path: Path) -> None:
    run = store_run(tmp_path / ".agentv")
    acknowledged: list[str] = []
    for _ in range(3):
        with ReviewProcess(tmp_path, *OPTIONS) as process:
            acknowledged += review_until_killed(process, "helpful", REVIEWERS, labels=6).ids
        stored = Counter(label.label_id for label in run.all_labels())
        assert set(acknowledged) <= set(stored)
        assert set(stored.values()) == {1}
    with ReviewProcess(tmp_path, *OPTIONS) as process:
        for name in REVIEWERS:
            ScriptedReviewer(process.client(name), "helpful").review()
    names = Counter((label.slot, label.annotator) for label in run.all_labels())
    assert (len(names), set(names.values())) == (36, {1})


def test_the_end_says_how_far_the_review_is(tmp_path: Path) -> None:
    run = store_run(tmp_path / ".agentv")
    with ReviewProcess(tmp_path, *OPTIONS) as process:
        ScriptedReviewer(process.client("ada"), "helpful").review(limit=5)
        code, text = process.interrupt()
    assert code == 0
    assert "ada: 5 labelled, 0 skipped, 13 left" in text
    assert "bob: 0 labelled, 0 skipped, 18 left" in text
    assert f"Corrected pass rate: agentv show {run.run_id}" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--overlap", "120%"), "write a percentage such as 20%"),
        (("--stratum", "fail"), "for example fail=50"),
        (("--criterion", "helpfull"), "did you mean 'helpful'"),
        (("--reviewer", "a", "--reviewer", "a"), "is given twice"),
        (("--reviewer", "a\nb"), "printable characters"),
        (("--golden-every", "3"), "there is no golden answer"),
        (("--stratum", "fial=2"), "did you mean 'fail'"),
        (("--sample", "1"), "do not reach all 2 strata"),
        (("--queue", "../x"), "cannot be the name of a queue"),
    ],
)
def test_an_option_that_does_not_fit_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    store_run(tmp_path / ".agentv")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(agentv, ["review", "--no-open", *options])
    assert done.exit_code != 0
    assert message in " ".join((done.output + str(done.exception)).split())
