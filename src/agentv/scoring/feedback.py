"""Files of what people said → Feedback, one per line: JSON Lines, or CSV as spreadsheets write it."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import NoReturn

from msgspec import Struct, field

from agentv.scoring.feedback_fields import NAMES, Entry, FeedbackFields
from agentv.types.cases import Location
from agentv.types.errors import nearest
from agentv.types.feedback import Feedback
from agentv.types.problems import Problem

REQUIRED = ("eval_id", "criterion", "score")
_DELIMITERS = (",", ";", "\t")
_JSON_SUFFIXES, _CSV_SUFFIXES = (".jsonl", ".ndjson"), (".csv", ".tsv")


class FeedbackFile(Struct):
    """What a file says: the feedback that can be read, in the order of lines, and what is wrong with the rest."""

    source: str
    feedback: list[Feedback] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, line: int, message: str, *, allowed: str | None = None) -> None:
        """Note what is wrong with a line."""
        self.problems.append(Problem(self.source, message, line, 1, allowed=allowed))


def parse_feedback(data: bytes, *, source: str) -> FeedbackFile:
    """Return what the bytes of a file say; `source` is its name, whose suffix tells JSON Lines from CSV.

    Without a suffix that tells, a file that begins with `{` is JSON Lines. A line without a score says nothing.
    """
    found = FeedbackFile(source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        found.refuse(line, f"byte 0x{data[error.start]:02x} is not UTF-8", allowed="save the file as UTF-8")
        return found
    entries = _json_lines(text, found) if _is_json(text, source) else _csv_rows(text, found)
    for line, entry in entries:
        _read_entry(entry, line, found)
    return found


def _is_json(text: str, source: str) -> bool:
    suffix = PurePath(source).suffix.lower()
    return suffix in _JSON_SUFFIXES or (suffix not in _CSV_SUFFIXES and text.lstrip().startswith("{"))


def _json_lines(text: str, found: FeedbackFile) -> Iterator[tuple[int, Entry]]:
    for line, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        try:
            value = json.loads(written, object_pairs_hook=_unique, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            found.refuse(line, f"this line is no valid JSON: {error.msg} (column {error.colno})")
        except (ValueError, RecursionError) as error:
            found.refuse(line, f"this line cannot be read: {error}")
        else:
            if isinstance(value, dict):
                yield line, value
            else:
                found.refuse(line, "a line must be a JSON object", allowed="with eval_id, criterion and score")


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        raise ValueError("a key stands twice")
    return entry


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number here")


def _csv_rows(text: str, found: FeedbackFile) -> Iterator[tuple[int, Entry]]:
    """Yield the rows below the head; comma, semicolon or tab is told by the head."""
    head = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=head.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 0
    try:
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        line = rows.line_num
        if not _check_head(names, line, found):
            return
        for row in rows:
            # A cell may hold several lines; the row is where it begins.
            start, line = line + 1, rows.line_num
            if None in row:
                found.refuse(start, f"the row has more cells than the head, which has {len(names)}")
            else:
                yield start, row
    except csv.Error as error:
        found.refuse(line + 1, f"this is no valid CSV: {error}")


def _check_head(names: Sequence[str], line: int, found: FeedbackFile) -> bool:
    if not names:
        found.refuse(1, "the file is empty", allowed="a head with eval_id, criterion, score, and a row for each score")
        return False
    missing = [key for key in REQUIRED if not set(NAMES[key]) & set(names)]
    for key in missing:
        message = f"the head has no column {key!r}{_meant_by(key, names)}"
        found.refuse(line, message, allowed=f"it has: {', '.join(names)}")
    twice = sorted({name for name in names if name and names.count(name) > 1})
    for name in twice:
        found.refuse(line, f"the head has the column {name!r} twice")
    return not missing and not twice


def _meant_by(key: str, names: Iterable[str | None]) -> str:
    """Return which of the names that are there may stand for a missing one."""
    near = nearest(key, filter(None, names))
    return f"; is it meant by {near!r}?" if near else ""


def _read_entry(entry: Entry, line: int, found: FeedbackFile) -> None:
    """Read one line, and note all that is wrong with it."""
    fields = FeedbackFields(entry, line, found.refuse)
    if fields.written("score") is None and "score" in entry:
        return  # the annotator left it open
    before = len(found.problems)
    for key in REQUIRED:
        if fields.written(key) is None:
            found.refuse(line, f"{key!r} is missing{_meant_by(key, entry)}")
    feedback = Feedback(
        eval_id=fields.text("eval_id") or "",
        criterion=fields.text("criterion") or "",
        score=fields.score(),
        annotator=fields.text("annotator") or "",
        reasoning=fields.text("reasoning"),
        time=fields.time(),
        suite=fields.text("suite"),
        target=fields.text("target"),
        trial=fields.trial(),
        location=Location(found.source, line),
    )
    if len(found.problems) == before:
        found.feedback.append(feedback)


def latest(said: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """Return what counts: of several scores that one annotator gave to one criterion the last.

    The last is what says most about which answer it means, then what was said later, then what stands further down.
    Scores that nobody signed count each.
    """
    kept: dict[tuple[str, str | int], Feedback] = {}
    for number, each in enumerate(said):
        key = (each.criterion, each.annotator or number)
        earlier = kept.get(key)
        if earlier is None or not _outweighs(earlier, each):
            kept[key] = each
    return tuple(kept.values())


def _outweighs(earlier: Feedback, later: Feedback) -> bool:
    detail, other = (
        sum(part is not None for part in (each.suite, each.target, each.trial)) for each in (earlier, later)
    )
    if detail != other:
        return detail > other
    return earlier.time is not None and later.time is not None and earlier.time > later.time
