"""Which answers of a log are judged: those since a time, and those that no earlier run of the same name has judged."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field

from agentv.scoring.keys.identity import DigestSet
from agentv.storage.run.find import list_run_folders, readable_run
from agentv.storage.run.stored import StoredRun
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.input_notes import InputNote, left_out
from agentv.types.records.answer import Origin, ResultKey
from agentv.types.records.result import CaseResult


class JudgedAnswers(Struct):
    """The answers that runs have judged, and the lines that they could not read."""

    name: str
    keys: DigestSet = field(default_factory=DigestSet)

    def add(self, row: CaseResult) -> None:
        """Add a result. An answer whose evaluators failed is not judged."""
        if row.error is None:
            self.keys.add(_key(row.slot, row.origin, row.candidate_answer))
        elif row.error.stage == "load":
            self.keys.add(_unread_key(row.slot, row.error.message))

    def has(self, slot: ResultKey, origin: Origin, answer: str) -> bool:
        """Return True if a run has judged this answer of a target to a case."""
        return _key(slot, origin, answer) in self.keys

    def has_unread(self, slot: ResultKey, message: str) -> bool:
        """Return True if a run has reported a line with this problem."""
        return _unread_key(slot, message) in self.keys


def _key(slot: ResultKey, origin: Origin | None, text: str) -> str:
    """Return what is equal for an answer in each run; a span is the same whatever file or receiver it came by."""
    target = slot.target if origin is None or not origin.span_id else ""
    return f"{slot.eval_id}\0{target}\0{text}"


def _unread_key(slot: ResultKey, message: str) -> str:
    return f"{slot.eval_id}\0\0{message}"


def load_judged_answers(home: Path, name: str, *, without: str | None = None) -> JudgedAnswers:
    """Return what the stored runs of a name have judged, but for the run `without`."""
    judged = JudgedAnswers(name)
    for run in _runs_named(home, name, without):
        for row in run.results():
            judged.add(row)
    return judged


def _runs_named(home: Path, name: str, without: str | None) -> Iterable[StoredRun]:
    runs = (readable_run(folder) for folder in list_run_folders(home))
    return (run for run in runs if run is not None and run.run.name == name and run.run_id != without)


class AnswerFilter(Struct):
    """Decides which answers are judged, and counts the others."""

    since: datetime | None = None
    judged: JudgedAnswers | None = None
    """What earlier runs have judged; None if that does not matter."""
    older: int = 0
    known: int = 0
    without_time: int = 0

    def wants(self, given: EvaluationInput, slot: ResultKey, origin: Origin) -> bool:
        """Return True for an answer that is to be judged."""
        if self.is_old(given.timestamp):
            return False
        self.without_time += self.since is not None and given.timestamp is None
        if self.judged is not None and self.judged.has(slot, origin, given.text):
            self.known += 1
            return False
        return True

    def is_old(self, ended_at: datetime | None) -> bool:
        """Return True for an answer that ended before the time, and count it."""
        is_old = self.since is not None and ended_at is not None and ended_at < self.since
        self.older += is_old
        return is_old

    def wants_unread(self, slot: ResultKey, message: str) -> bool:
        """Return True for a line with a problem that no earlier run has reported."""
        is_known = self.judged is not None and self.judged.has_unread(slot, message)
        self.known += is_known
        return not is_known

    def why_none(self) -> str | None:
        """Return why no answer was judged; None if it is not because of this filter."""
        if self.known and self.judged is not None:
            answers = "the only answer was" if self.known == 1 else f"all {self.known:,} answers were"
            return f"{answers} judged by earlier runs named {self.judged.name!r}"
        return None if self.since is None else f"there are no answers since {self.since:%Y-%m-%d %H:%M} UTC"

    def notes(self) -> Iterator[InputNote]:
        """Yield what was left out."""
        if self.known and self.judged is not None:
            yield left_out(f"because earlier runs named {self.judged.name!r} judged them: {_answers(self.known)}")
        if self.older:
            yield left_out(f"because they are older than --since: {_answers(self.older)}")
        if self.without_time:
            yield InputNote(f"not left out by --since, because they have no time: {_answers(self.without_time)}")


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count:,} answers"
