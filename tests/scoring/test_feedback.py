"""Feedback files as annotators write them: JSON Lines and CSV, with their mistakes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.judges.feedback import FeedbackFile, effective_feedback, parse_feedback
from agentv.types.records.label import Draw, Feedback

GOOD = {"eval_id": "refund-1", "criterion": "tone", "score": 4}


def lines(*entries: Any) -> FeedbackFile:
    text = "\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
    return parse_feedback(text.encode(), source="said.jsonl")


def problems(found: FeedbackFile) -> list[str]:
    return [problem.render() for problem in found.problems]


def test_a_line_says_who_gave_which_score_to_what() -> None:
    said = {**GOOD, "annotator": "anna", "reasoning": "kind", "time": "2026-01-31T12:00:00+01:00"}
    (read,) = lines({**said, "suite": "evals/a.yaml", "target": "agent", "trial": 2, "colour": "red"}).feedback
    assert (read.eval_id, read.criterion, read.score) == ("refund-1", "tone", 4)
    assert (read.annotator, read.reasoning) == ("anna", "kind")
    assert read.time == datetime(2026, 1, 31, 11, tzinfo=UTC)
    assert (read.suite, read.target, read.trial, read.place) == ("evals/a.yaml", "agent", 2, "said.jsonl:1")


@pytest.mark.parametrize(
    "entry",
    [
        {"evalId": "refund-1", "criterionName": "tone", "score": 4},
        {"session_id": "refund-1", "criterion_name": "tone", "score": 4},
        {"eval_id": "refund-1", "evalId": "other", "criterion": "tone", "score": 4},
        {"id": "refund-1", "session_id": "s-7", "criterion": "tone", "score": 4},
    ],
)
def test_other_spellings_of_the_keys_are_read(entry: dict[str, Any]) -> None:
    (read,) = lines(entry).feedback
    assert (read.eval_id, read.criterion, read.score) == ("refund-1", "tone", 4)


DRAW = {"queue": "q", "seed": 7, "stratum": "fail", "p": 0.25, "n": 5, "N": 20}


def test_a_reviewed_line_has_a_verdict_and_how_it_was_drawn() -> None:
    said = {"eval_id": "refund-1", "criterion": "tone", "verdict": "Fail", "annotator": "anna", "draw": DRAW}
    more = {"note": "too short", "category": "length", "seconds": 4.5, "blind": True, "shown": ["target"]}
    (read,) = lines({**said, **more, "label_id": "x", "answer_key": "v1:aa"}).feedback
    assert (read.score, read.verdict, read.note, read.category) == (False, "fail", "too short", "length")
    assert (read.seconds, read.blind, read.shown, read.label_id, read.answer_key) == (
        4.5,
        True,
        ("target",),
        "x",
        "v1:aa",
    )
    assert read.draw == Draw("q", 7, "fail", 0.25, 5, 20)
    row = "eval_id,criterion,verdict,annotator,seconds,blind,shown,draw\nrefund-1,tone,unsure,anna,3,no,judge;labels,"
    cell = json.dumps(DRAW).replace('"', '""')
    (read,) = parse_feedback(f'{row}"{cell}"\n'.encode(), source="said.csv").feedback
    assert (read.score, read.verdict, read.is_skip) == ("", "unsure", True)
    assert (read.seconds, read.blind, read.shown, read.draw and read.draw.size) == (3, False, ("judge", "labels"), 20)


def test_an_empty_score_of_a_drawn_answer_is_a_skip_which_is_kept() -> None:
    (read,) = lines({**GOOD, "score": None, "draw": DRAW, "annotator": "anna"}).feedback
    assert (read.score, read.verdict, read.is_skip) == ("", None, True)
    assert effective_feedback([read]) == ()


def test_wrong_fields_of_a_review_are_reported_with_their_line() -> None:
    found = lines(
        {**GOOD, "verdict": "good"},
        {**GOOD, "seconds": -1},
        {**GOOD, "blind": "perhaps"},
        {**GOOD, "shown": ["model"]},
        {**GOOD, "draw": {**DRAW, "p": 0}},
        {**GOOD, "draw": {**DRAW, "p": 0.5}},
        {**GOOD, "draw": "{"},
        {**GOOD, "draw": {"queue": "q"}},
    )
    said = problems(found)
    assert [line.partition("  $  ")[0] for line in said] == [f"said.jsonl:{number}:1" for number in range(1, 9)]
    assert said[0].endswith("'verdict' is 'good'; it must be pass, fail or unsure")
    assert said[3].endswith("'shown' is ['model']; it must be a list of: judge, target, labels, expected")
    assert "'draw' has p 0.5, but n / N is 5 / 20; it must have `queue`" in said[5]


def test_a_line_of_labels_jsonl_names_its_answer_in_its_slot() -> None:
    slot = {"suite": "evals/a.yaml", "eval_id": "refund-1", "target": "agent", "trial": 0}
    (read,) = lines({"slot": slot, "criterion": "tone", "score": 4, "annotator": "anna"}).feedback
    assert (read.eval_id, read.suite, read.target, read.trial) == ("refund-1", "evals/a.yaml", "agent", 0)


def test_a_time_without_a_zone_is_utc_and_a_number_is_milliseconds() -> None:
    first, second = lines({**GOOD, "time": "2026-01-31 12:00"}, {**GOOD, "time": 1769860800000}).feedback
    assert first.time == second.time == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_blank_lines_and_scores_left_open_say_nothing() -> None:
    found = lines("", GOOD, "  ", {**GOOD, "score": None}, {**GOOD, "score": " "})
    assert (len(found.feedback), found.problems) == (1, [])


def test_every_bad_line_is_reported_and_the_others_are_read() -> None:
    found = lines(
        GOOD,
        "{oops",
        "[1]",
        {"eval_id": "a", "score": 1},
        {"eval_id": "a", "criteron": "x", "score": 1},
        {**GOOD, "score": [4]},
        {**GOOD, "time": "yesterday"},
        {**GOOD, "trial": -1},
        '{"eval_id": "a", "eval_id": "b"}',
        '{"eval_id": "a", "criterion": "b", "score": NaN}',
        {**GOOD, "annotator": ["anna", "ben"]},
        GOOD,
    )
    assert len(found.feedback) == 2
    assert problems(found) == [
        "said.jsonl:2:1  $  this line is not valid JSON: Expecting property name enclosed in double quotes (column 2)",
        "said.jsonl:3:1  $  a line must be a JSON object; with eval_id, criterion and score",
        "said.jsonl:4:1  $  'criterion' is missing; the line has: eval_id, score",
        "said.jsonl:5:1  $  'criterion' is missing; is 'criteron' a misspelling of it?",
        "said.jsonl:6:1  $  'score' is [4]; it must be a number, true, false, or a string such as 4/5, 85% or a label",
        "said.jsonl:7:1  $  'time' is 'yesterday'; it must be like 2026-01-31T12:00:00Z",
        "said.jsonl:8:1  $  'trial' is -1; it must be a whole number from 0",
        "said.jsonl:9:1  $  this line cannot be read: duplicate key",
        "said.jsonl:10:1  $  this line cannot be read: NaN is not allowed here",
        "said.jsonl:11:1  $  'annotator' is ['anna', 'ben']; it must be a string",
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_spreadsheet_is_read_whatever_it_puts_between_its_cells(delimiter: str) -> None:
    rows = ["eval_id,criterion,score,annotator,trial", "refund-1,tone,4,anna,0", "", ",,,,", "7,tone,,anna,"]
    text = "\ufeff" + "\r\n".join(rows).replace(",", delimiter)
    (read,) = parse_feedback(text.encode(), source="said.csv").feedback
    assert (read.eval_id, read.score, read.annotator, read.trial, read.place) == (
        "refund-1",
        "4",
        "anna",
        0,
        "said.csv:2",
    )


def test_a_trial_of_five_thousand_figures_is_refused() -> None:
    rows = f"eval_id,criterion,score,trial\nrefund-1,tone,4,{'9' * 5000}"
    (problem,) = parse_feedback(rows.encode(), source="said.csv").problems
    assert problem.message.startswith("'trial' is '999")


def test_a_cell_of_several_lines_does_not_shift_the_lines_of_the_others() -> None:
    text = 'eval_id,criterion,score,reasoning\na,x,1,"one\ntwo, three"\nb,x,1,,surplus\nc,x,1,fine\n'
    found = parse_feedback(text.encode(), source="said.csv")
    assert [(read.place, read.reasoning) for read in found.feedback] == [
        ("said.csv:2", "one\ntwo, three"),
        ("said.csv:5", "fine"),
    ]
    assert problems(found) == ["said.csv:4:1  $  the row has more cells than the header, which has 4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "said.csv:1:1  $  the file is empty; a header with eval_id, criterion, score, and one row per score"),
        ("eval_id,score\na,1\n", "said.csv:1:1  $  the header has no column 'criterion'; it has: eval_id, score"),
        ("eval_id,criterion,score,score\na,b,1,2\n", "said.csv:1:1  $  the header has the column 'score' twice"),
        ('eval_id,criterion,score\na,b,"1\n', "said.csv:2:1  $  this is not valid CSV: unexpected end of data"),
    ],
)
def test_a_spreadsheet_that_cannot_be_read_says_why(text: str, message: str) -> None:
    assert problems(parse_feedback(text.encode(), source="said.csv")) == [message]


def test_text_that_is_not_utf_8_is_reported_with_its_line() -> None:
    found = parse_feedback("eval_id,criterion,score\né".encode("latin-1"), source="said.csv")
    assert problems(found) == ["said.csv:2:1  $  byte 0xe9 is not UTF-8; save the file as UTF-8"]


def test_what_has_no_suffix_is_known_by_its_first_character() -> None:
    assert len(parse_feedback(json.dumps(GOOD).encode(), source="-").feedback) == 1
    assert len(parse_feedback(b"eval_id,criterion,score\na,b,1\n", source="-").feedback) == 1


@given(st.binary() | st.text().map(str.encode), st.sampled_from(["x.jsonl", "x.csv", "-"]))
def test_any_bytes_are_read_or_reported(data: bytes, source: str) -> None:
    found = parse_feedback(data, source=source)
    assert all(problem.path == source and problem.line >= 1 for problem in found.problems)


def said(annotator: str, score: int, **more: Any) -> Feedback:
    return Feedback("refund-1", "tone", score, annotator, **more)


def test_an_annotators_later_score_counts_and_unsigned_ones_count_each() -> None:
    scores = effective_feedback([said("anna", 1), said("", 2), said("ben", 3), said("anna", 4), said("", 5)])
    assert sorted((each.annotator, each.score) for each in scores) == [("", 2), ("", 5), ("anna", 4), ("ben", 3)]


def test_later_is_by_the_clock_where_both_tell_the_time() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    assert effective_feedback([said("anna", 1, time=late), said("anna", 2, time=early)])[0].score == 1
    assert effective_feedback([said("anna", 1, time=late), said("anna", 2)])[0].score == 2


def test_a_score_of_exactly_this_answer_outweighs_one_of_the_case() -> None:
    assert effective_feedback([said("anna", 1, target="agent"), said("anna", 2)])[0].score == 1
