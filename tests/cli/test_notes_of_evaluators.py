"""A note in the settings of an evaluator is stored with the case, and a change of it costs no judgement."""

from pathlib import Path

import pytest
from tests.support.carrying import Project

PLUGIN = """
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agentv import evaluator


class Item(Struct, frozen=True):
    word: str
    note: Annotated[str | None, Meta(extra={"in_key": False})] = None


@evaluator("words", cost="paid")
def words(context, *, items: tuple[Item, ...], note: Annotated[str | None, Meta(extra={"in_key": False})] = None):
    with (Path(__file__).parent / "judged").open("a") as judged:
        judged.write("x")
    return all(item.word in context.candidate for item in items)
"""


@pytest.fixture
def noted(project: Project) -> Project:
    (project.folder / "mine.py").write_text(PLUGIN)
    (project.folder / ".agentv.yaml").write_text("plugins: [mine.py]\n")
    return project


def set_evaluator(project: Project, *, word: str, note: str) -> None:
    item = f"{{word: {word}, note: {note} of the item}}"
    project.evaluators = f"{{name: words, type: words, note: {note}, items: [{item}]}}"


def judged(folder: Path) -> int:
    path = folder / "judged"
    found = len(path.read_text()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return found


def test_a_changed_note_repeats_no_judgement(noted: Project) -> None:
    set_evaluator(noted, word="answer", note="first")
    assert noted.call("run", "suite.yaml")[0] == 0
    assert (judged(noted.folder), len(noted.calls())) == (3, 3)
    (evaluators, *_others) = (case["evaluators"] for case in noted.stored("cases.jsonl"))
    assert evaluators == [
        {
            "name": "words",
            "type": "words",
            "note": "first",
            "items": [{"word": "answer", "note": "first of the item"}],
        }
    ]
    set_evaluator(noted, word="answer", note="second")
    assert noted.call("rescore", "latest")[0] == 0
    assert noted.call("resume", "latest")[0] == 0
    assert (judged(noted.folder), noted.calls()) == (0, [])
    set_evaluator(noted, word="question", note="second")
    assert noted.call("rescore", "latest")[0] == 0
    assert (judged(noted.folder), noted.calls()) == (3, [])


def test_a_changed_note_does_not_make_another_case(noted: Project) -> None:
    keys = set()
    for note in ("first", "second"):
        set_evaluator(noted, word="answer", note=note)
        assert noted.call("run", "suite.yaml", "--name", note)[0] == 0
    for run in (noted.folder / ".agentv" / "runs").iterdir():
        keys.add(tuple(line.split('"case_key":"')[1][:20] for line in (run / "cases.jsonl").read_text().splitlines()))
    assert len(keys) == 1
