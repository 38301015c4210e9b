"""Rules against people's judgements: `tests/fixtures/answers`. `./run python -m tests.evaluators.test_answers_corpus`
writes the figures into the page."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from tests.support.judging import evaluator_of, make_context

from agentv.types.evaluation import EvaluationScore

ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "tests/fixtures/answers/answers.jsonl"
PAGE = ROOT / "docs/reference/evaluators/rules.md"
ALL = ["case", "punctuation", "markdown", "space"]


class Answer(Struct, forbid_unknown_fields=True):
    id: int
    kind: str
    question: str
    answer: str
    expected: Any
    match: bool
    number: float | None = None


Settings = Mapping[str, Any]
RULES: dict[str, list[tuple[str, str, Settings]]] = {
    "text": [
        ("`equals`", "equals", {}),
        ("`equals` with `ignore: [case, punctuation, markdown, space]`", "equals", {"ignore": ALL}),
        ("the same with `location: start`", "equals", {"ignore": ALL, "location": "start"}),
        ("the same with `location: end`", "equals", {"ignore": ALL, "location": "end"}),
        ("the same with `location: any`", "equals", {"ignore": ALL, "location": "any"}),
        ("`contains` with `ignore: [case, punctuation, markdown, space]`", "contains", {"ignore": ALL}),
    ],
    "number": [
        ("`numeric`, which takes the last number", "numeric", {}),
        ("`numeric` with `pick: first`", "numeric", {"pick": "first"}),
        ("`numeric` with `pick: only`", "numeric", {"pick": "only"}),
    ],
}


def answers() -> list[Answer]:
    return [msgspec.json.decode(line, type=Answer) for line in ANSWERS.read_bytes().splitlines()]


def passes(type_: str, settings: Settings, answer: Answer) -> bool:
    score = evaluator_of(type_, value=answer.expected, **settings).evaluate(make_context(answer.answer))
    assert isinstance(score, EvaluationScore)
    return score.score == 1.0


def table() -> Iterator[str]:
    """Yield the lines of the table: how often each rule judges as a person does."""
    yield "| rule | as people judge | passes wrongly | fails wrongly |"
    yield "| --- | --- | --- | --- |"
    for kind, rules in RULES.items():
        rows = [each for each in answers() if each.kind == kind]
        for label, type_, settings in rules:
            judged = [(passes(type_, settings, each), each.match) for each in rows]
            wrong = (judged.count((True, False)), judged.count((False, True)))
            yield f"| {label} | {len(rows) - sum(wrong)} of {len(rows)} | {wrong[0]} | {wrong[1]} |"


MARKS = re.compile(r"(?<=<!-- answers -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def test_the_page_has_the_figures() -> None:
    page = PAGE.read_text("utf-8")
    assert MARKS.sub(lambda _: "\n".join(table()), page) == page, "run this file as a script"


def test_the_answers_are_numbered_and_varied() -> None:
    rows = answers()
    assert [each.id for each in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 100
    assert len({(each.answer, each.expected) for each in rows}) == len(rows)
    for kind in RULES:
        assert {each.match for each in rows if each.kind == kind} == {True, False}


@pytest.mark.parametrize("answer", [each for each in answers() if each.kind == "text"], ids=lambda each: str(each.id))
def test_a_wider_rule_passes_what_a_narrower_one_passes(answer: Answer) -> None:
    narrow, wide, start, end, anywhere, _ = (passes(type_, given, answer) for _, type_, given in RULES["text"])
    assert narrow <= wide <= min(start, end)
    assert max(start, end) <= anywhere


if __name__ == "__main__":
    PAGE.write_text(MARKS.sub(lambda _: "\n".join(table()), PAGE.read_text("utf-8")), "utf-8")
