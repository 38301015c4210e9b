"""Parsing of files with human feedback: JSON Lines, or CSV as spreadsheets write it."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePath
from typing import NoReturn, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct, field

from agentv.types.cases import Location
from agentv.types.errors import nearest
from agentv.types.moments import read_moment
from agentv.types.problems import Problem
from agentv.types.records.label import NO_SCORE, Draw, Feedback, HumanScore, HumanVerdict, ShownPart

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "eval_id": ("eval_id", "evalId", "id", "session_id", "sessionId"),
    "criterion": ("criterion", "criterion_name", "criterionName"),
    "score": ("score",),
    "annotator": ("annotator",),
    "reasoning": ("reasoning",),
    "time": ("time",),
    "suite": ("suite",),
    "target": ("target",),
    "trial": ("trial",),
    "prompt": ("prompt",),
    "run_id": ("run_id", "runId"),
    "answer_key": ("answer_key", "answerKey"),
    "label_id": ("label_id", "labelId"),
    **{name: (name,) for name in ("verdict", "note", "category", "seconds", "blind", "shown", "draw", "golden")},
}
"""The fields of a line, each with its spellings; the first spelling found is used. Other keys are ignored."""

_MAX_TRIAL_DIGITS = 18
"""The maximum number of digits of a trial number; Python refuses to parse thousands of digits."""

Entry: TypeAlias = Mapping[str, object]
ReportProblem: TypeAlias = Callable[..., None]
"""Records a problem of a line: `add_problem(line, message, allowed=…)`."""


class FeedbackFields(Struct, frozen=True):
    """The fields of one line. A value of the wrong type is reported as a problem and counts as absent."""

    entry: Entry
    line: int
    add_problem: ReportProblem

    def raw_value(self, key: str) -> object:
        """Return the value of a field in any of its spellings; None when it is absent."""
        value = next((self.entry[name] for name in FIELD_NAMES[key] if name in self.entry), None)
        return None if isinstance(value, str) and not value.strip() else value

    def text(self, key: str) -> str | None:
        """Return a string; integers are accepted, because ids are often numbers."""
        value = self.raw_value(key)
        if value is None or isinstance(value, str):
            return value.strip() if value is not None else None
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._report_type(key, value, "a string")
        return None

    def score(self) -> HumanScore:
        """Return the score unchanged; the caller checks its scale."""
        value = self.raw_value("score")
        if isinstance(value, str):
            return value.strip()
        if value is None or isinstance(value, bool):
            return bool(value)
        if isinstance(value, int | float) and _is_finite(value):
            return value
        self._report_type("score", value, "a number, true, false, or a string such as 4/5, 85% or a label")
        return False

    def time(self) -> datetime | None:
        """Return a time: ISO 8601, in UTC unless it names a zone, or milliseconds since 1970."""
        value = self.raw_value("time")
        try:
            if isinstance(value, str):
                return read_moment(value.strip())
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            pass
        if value is not None:
            self._report_type("time", value, "like 2026-01-31T12:00:00Z")
        return None

    def trial(self) -> int | None:
        """Return the number of a trial, from 0."""
        value = self.raw_value("trial")
        if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) <= _MAX_TRIAL_DIGITS:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if value is not None:
            self._report_type("trial", value, "a whole number from 0")
        return None

    def verdict(self) -> HumanVerdict | None:
        """Return a verdict: pass, fail or unsure, in any case."""
        value = self.raw_value("verdict")
        word = value.strip().casefold() if isinstance(value, str) else value
        if word in get_args(HumanVerdict):
            return cast(HumanVerdict, word)
        if value is not None:
            self._report_type("verdict", value, "pass, fail or unsure")
        return None

    def seconds(self) -> float | None:
        """Return the time that the annotator took, in seconds."""
        value = self.raw_value("seconds")
        if isinstance(value, str):
            with suppress(ValueError):
                value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value) and value >= 0:
            return float(value)
        if value is not None:
            self._report_type("seconds", value, "a number from 0")
        return None

    def flag(self, key: str) -> bool | None:
        """Return true or false, also as a word."""
        value = self.raw_value(key)
        word = value.strip().casefold() if isinstance(value, str) else value
        if word is not None and word not in _FLAGS:
            self._report_type(key, value, "true or false")
            return None
        return None if word is None else _FLAGS[word]

    def shown(self) -> tuple[ShownPart, ...]:
        """Return what the annotator saw: a list, or words with commas or semicolons between them."""
        value = self.raw_value("shown")
        words = re.split(r"[,;\s]+", value.strip()) if isinstance(value, str) else value
        if isinstance(words, list) and all(word in get_args(ShownPart) for word in words):
            return tuple(dict.fromkeys(words))
        if value is not None:
            self._report_type("shown", value, f"a list of: {', '.join(get_args(ShownPart))}")
        return ()

    def draw(self) -> Draw | None:
        """Return how the answer was drawn: an object, in CSV as JSON."""
        value = self.raw_value("draw")
        if value is None:
            return None
        try:
            draw = msgspec.convert(json.loads(value) if isinstance(value, str) else value, Draw)
        except (ValueError, RecursionError) as error:
            self.add_problem(self.line, f"'draw' cannot be read: {error}", allowed=_DRAW_FORM)
            return None
        if draw.n > draw.size or abs(draw.p - draw.n / draw.size) > _P_ROUNDING:
            message = f"'draw' has p {draw.p:g}, but n / N is {draw.n:,} / {draw.size:,}"
            self.add_problem(self.line, message, allowed=_DRAW_FORM)
            return None
        return draw

    def _report_type(self, key: str, value: object, allowed: str) -> None:
        self.add_problem(self.line, f"{key!r} is {repr(value)[:60]}", allowed=f"it must be {allowed}")


_FLAGS: Mapping[object, bool] = {True: True, False: False, "true": True, "false": False, "yes": True, "no": False}
_DRAW_FORM = (
    "it must have `queue`, `seed`, `stratum`, `p` (the probability of being drawn), `n` (the number of answers drawn "
    "from the stratum) and `N` (the number of answers in it), with p = n / N"
)
_P_ROUNDING = 1e-3
"""The tolerance of `p`, which people may have rounded."""


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer too large for a float
        return False


REQUIRED = ("eval_id", "criterion", "score")
_DELIMITERS = (",", ";", "\t")
_JSON_SUFFIXES, _CSV_SUFFIXES = (".jsonl", ".ndjson"), (".csv", ".tsv")


class FeedbackFile(Struct):
    """The feedback in a file, in the order of lines, and the problems of unreadable lines."""

    source: str
    feedback: list[Feedback] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add_problem(self, line: int, message: str, *, allowed: str | None = None) -> None:
        """Record a problem of a line."""
        self.problems.append(Problem(self.source, message, line, 1, allowed=allowed))


def parse_feedback(data: bytes, *, source: str) -> FeedbackFile:
    """Parse the content of a file; `source` is its name, whose suffix distinguishes JSON Lines from CSV.

    Without a known suffix, a file that begins with `{` is JSON Lines. A line without a score is skipped.
    """
    file = FeedbackFile(source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        file.add_problem(line, f"byte 0x{data[error.start]:02x} is not UTF-8", allowed="save the file as UTF-8")
        return file
    entries = _json_lines(text, file) if _is_json(text, source) else _csv_rows(text, file)
    for line, entry in entries:
        _read_entry(entry, line, file)
    return file


def _is_json(text: str, source: str) -> bool:
    suffix = PurePath(source).suffix.lower()
    return suffix in _JSON_SUFFIXES or (suffix not in _CSV_SUFFIXES and text.lstrip().startswith("{"))


def _json_lines(text: str, file: FeedbackFile) -> Iterator[tuple[int, Entry]]:
    for line, text_line in enumerate(text.split("\n"), 1):
        if not text_line.strip():
            continue
        try:
            value = json.loads(text_line, object_pairs_hook=_without_duplicates, parse_constant=_reject_constant)
        except json.JSONDecodeError as error:
            file.add_problem(line, f"this line is not valid JSON: {error.msg} (column {error.colno})")
        except (ValueError, RecursionError) as error:
            file.add_problem(line, f"this line cannot be read: {error}")
        else:
            if isinstance(value, dict):
                yield line, value
            else:
                file.add_problem(line, "a line must be a JSON object", allowed="with eval_id, criterion and score")


def _without_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        raise ValueError("duplicate key")
    return entry


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed here")


def _csv_rows(text: str, file: FeedbackFile) -> Iterator[tuple[int, Entry]]:
    """Yield each row below the header with its line. The delimiter is the one most frequent in the header."""
    head = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=head.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 0
    try:
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        line = rows.line_num
        if not _check_head(names, line, file):
            return
        for row in rows:
            # A cell may span several lines; the row's line is its first.
            start, line = line + 1, rows.line_num
            if None in row:
                file.add_problem(start, f"the row has more cells than the header, which has {len(names)}")
            else:
                yield start, row
    except csv.Error as error:
        file.add_problem(line + 1, f"this is not valid CSV: {error}")


def _check_head(names: Sequence[str], line: int, file: FeedbackFile) -> bool:
    if not names:
        file.add_problem(
            1, "the file is empty", allowed="a header with eval_id, criterion, score, and one row per score"
        )
        return False
    required = [key for key in REQUIRED if not (key == "score" and "verdict" in names)]
    missing = [key for key in required if not set(FIELD_NAMES[key]) & set(names)]
    for key in missing:
        message = f"the header has no column {key!r}{_meant_by(key, names)}"
        file.add_problem(line, message, allowed=f"it has: {', '.join(names)}")
    duplicates = sorted({name for name in names if name and names.count(name) > 1})
    for name in duplicates:
        file.add_problem(line, f"the header has the column {name!r} twice")
    return not missing and not duplicates


def _meant_by(key: str, names: Iterable[str | None]) -> str:
    """Return a hint on an existing name that may be a misspelling of a missing one; empty without one."""
    near = nearest(key, filter(None, names))
    return f"; is {near!r} a misspelling of it?" if near else ""


def _read_entry(entry: Entry, line: int, file: FeedbackFile) -> None:
    """Read one line and record all of its problems. In a line of labels.jsonl the answer is named in `slot`."""
    slot = entry.get("slot")
    fields = FeedbackFields({**slot, **entry} if isinstance(slot, Mapping) else entry, line, file.add_problem)
    is_empty = fields.raw_value("score") is None and fields.raw_value("verdict") is None
    if is_empty and "score" in entry and fields.raw_value("draw") is None:
        return  # the annotator left the score empty
    before = len(file.problems)
    required = REQUIRED if is_empty and "score" not in entry else REQUIRED[:2]
    for key in required:
        if fields.raw_value(key) is None:
            hint = _meant_by(key, entry)
            has = f"the line has: {', '.join(entry) or 'nothing'}" if len(file.problems) == before else None
            file.add_problem(line, f"{key!r} is missing{hint}", allowed=None if hint else has)
    feedback = Feedback(
        eval_id=fields.text("eval_id") or "",
        criterion=fields.text("criterion") or "",
        score=_score_with_verdict(fields),
        annotator=fields.text("annotator") or "",
        reasoning=fields.text("reasoning"),
        time=fields.time(),
        suite=fields.text("suite"),
        target=fields.text("target"),
        trial=fields.trial(),
        prompt=fields.text("prompt"),
        run_id=fields.text("run_id"),
        answer_key=fields.text("answer_key"),
        label_id=fields.text("label_id"),
        verdict=fields.verdict(),
        note=fields.text("note"),
        category=fields.text("category"),
        seconds=fields.seconds(),
        blind=fields.flag("blind"),
        shown=fields.shown(),
        draw=fields.draw(),
        golden=fields.flag("golden") is True,
        location=Location(file.source, line),
    )
    if len(file.problems) == before:
        file.feedback.append(feedback)


def _score_with_verdict(fields: FeedbackFields) -> HumanScore:
    """Return the score of a line: its own, else that of its verdict; `NO_SCORE` without one and for `unsure`."""
    verdict = fields.raw_value("verdict")
    if fields.raw_value("score") is not None:
        return fields.score()
    return score_of_verdict(verdict.strip().casefold() if isinstance(verdict, str) else None)


def score_of_verdict(verdict: str | None) -> HumanScore:
    """Return the score of a label that has a verdict only."""
    return {"pass": True, "fail": False}.get(verdict or "", NO_SCORE)


def effective_feedback(feedback: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """Return the feedback that counts for an answer.

    One score counts per annotator and criterion: the one that identifies the answer most precisely; of equally precise
    ones the latest in time, then the last in the file. Scores without an annotator all count, skipped answers never.
    """
    counted: dict[tuple[str, str | int], Feedback] = {}
    for number, each in enumerate(feedback):
        if each.is_skip:
            continue
        key = (each.criterion, each.annotator or number)
        earlier = counted.get(key)
        if earlier is None or not _outweighs(earlier, each):
            counted[key] = each
    return tuple(counted.values())


def _outweighs(earlier: Feedback, later: Feedback) -> bool:
    earlier_precision, later_precision = (
        sum(part is not None for part in (each.suite, each.target, each.trial, each.prompt))
        for each in (earlier, later)
    )
    if earlier_precision != later_precision:
        return earlier_precision > later_precision
    return earlier.time is not None and later.time is not None and earlier.time > later.time
