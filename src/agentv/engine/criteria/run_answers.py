"""The given answers that a run records: which case, target and trial each is, and what a resumed run has of them."""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.inputs import answer_of_input, case_of_input, eval_id_of, target_of_file
from agentv.engine.logs.live_traces import OTLP
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.execution.processes.line_stream import STDIN
from agentv.scoring.keys.identity import DigestMap, DigestSet, answer_key, digest, keys_of
from agentv.storage.run.first_answers import slot_name
from agentv.storage.run.stored import StoredRun
from agentv.types.cases import Location
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.records.answer import Answer, Origin, ResultKey, source_of
from agentv.types.records.result import CaseResult

_STREAMS = (STDIN, OTLP)
"""Inputs that cannot be read again: what they have had is recognised by case and trial, not by its place."""


class Trials:
    """The next trial of each case and target, from 0. An entry takes 12 bytes."""

    def __init__(self) -> None:
        self._next = DigestMap("I")
        self.has_repeats = False
        """True if a case has more than one answer of the same target."""

    def take(self, slot: ResultKey) -> ResultKey:
        """Return the key of one more answer of a case and target."""
        name = slot_name(replace(slot, trial=0))
        trial = self._next.get(name) or 0
        self._next.put(name, trial + 1)
        self.has_repeats = self.has_repeats or trial > 0
        return replace(slot, trial=trial)

    def add(self, slot: ResultKey) -> None:
        """Count an answer that is stored already."""
        name = slot_name(replace(slot, trial=0))
        self._next.put(name, max(self._next.get(name) or 0, slot.trial + 1))
        self.has_repeats = self.has_repeats or slot.trial > 0


class StoredLines(Struct):
    """The lines of standard input, or of traces that were received, that a run has stored. The same are skipped.

    The n-th line of a case and target is its n-th trial, so that the same stream finds the same result keys.
    """

    slots: DigestSet = field(default_factory=DigestSet)
    answers: DigestSet = field(default_factory=DigestSet)
    are_piped: bool = True
    """False for traces that are received."""
    changed: int = 0
    """The number of lines that have a stored key, but another answer."""

    def add(self, row: CaseResult) -> None:
        """Add a stored row."""
        name = slot_name(row.slot)
        self.slots.add(name)
        self.answers.add(f"{name}\0{row.candidate_answer}")

    def find_or_add(self, slot: ResultKey, answer: str) -> bool:
        """Return True if a line with this key is stored, and count it if its answer differs; else add the key."""
        name = slot_name(slot)
        if self.slots.add(name):
            return False
        self.changed += self.answers.add(f"{name}\0{answer}")
        return True


class RunAnswers(Struct):
    """The answers of one suite that a run records."""

    tasks: AnswerTasks
    trials: Trials = field(default_factory=Trials)
    targets: dict[str, None] = field(default_factory=dict)
    cases: DigestSet = field(default_factory=DigestSet)
    """The cases that are stored, by suite and id."""
    unjudged: dict[str, Answer] = field(default_factory=dict)
    """Stored answers without a row, because the run was killed: by source, those of a stream by result key."""
    sources: DigestSet | None = None
    """The lines of files that a resume skips, by source; None for a new run."""
    piped: StoredLines | None = None
    """The lines of a stream that a resume skips."""
    are_recorded: bool = True
    """False if no run records them: then they need no keys, and memory does not grow with them."""

    @property
    def repeats_cases(self) -> bool:
        """True if a case has several rows: repeats, or answers of several targets."""
        return self.trials.has_repeats or len(self.targets) > 1

    def take_slot(self, given: EvaluationInput, target: str, source: str) -> ResultKey:
        """Return the result key of an answer of `target`: that of its unjudged stored answer, else the next trial.

        `source` is the place of its line, such as `log.jsonl:2`.
        """
        if not self.are_recorded:
            return ResultKey(self.tasks.suite.path, source, target)
        if source in self.unjudged:
            return self.unjudged[source].slot
        self.targets[target] = None
        return self.trials.take(self.case_slot(given, target, source))

    def case_slot(self, given: EvaluationInput, target: str, source: str) -> ResultKey:
        """Return the result key of an answer, for its first trial."""
        return ResultKey(self.tasks.suite.path, eval_id_of(given, source), target)

    def unread_slot(self, origin: Origin, target: str | None = None) -> ResultKey:
        """Return the result key of a line that could not be read.

        Its case is named by file and line, that of a failed answer in traces by its span, as if it had succeeded.
        """
        name = origin.span_id or source_of(origin.file, origin.line, origin.part)
        return ResultKey(self.tasks.suite.path, name, target or target_of_file(origin.file))

    def task(
        self, given: EvaluationInput, slot: ResultKey, origin: Origin, *, now: datetime, repaired: bool = False
    ) -> CaseTask:
        """Return the task to judge an answer, with its stored answer if it has one. Raises EvalFileError."""
        fitted = self.tasks.fitted(given.criteria)
        case = case_of_input(given, slot.eval_id, Location(origin.file, origin.line))
        if not self.are_recorded:
            unrecorded = answer_of_input(given, slot, "", origin, now=now, is_first=True)
            return self.tasks.task(AnswerWithInput(unrecorded, input=given, fitted=fitted), case)
        keys = keys_of(case, fitted.criteria)
        is_first = self.cases.add(f"{slot.suite}\0{slot.eval_id}")
        answer = self._take_unjudged(slot, origin)
        if answer is None:
            key = answer_key(keys.question, _target_key(slot.target), slot.trial)
            new = answer_of_input(given, slot, key, origin, now=now, is_first=is_first)
            answer = replace(new, repaired=True) if repaired else new
        return self.tasks.task(AnswerWithInput(answer, input=given, fitted=fitted, keys=keys), case)

    def _take_unjudged(self, slot: ResultKey, origin: Origin) -> Answer | None:
        """Return the stored answer without a row, and forget it."""
        for name in (source_of(origin.file, origin.line, origin.part), slot_name(slot)) if self.unjudged else ():
            if name in self.unjudged:
                return self.unjudged.pop(name)
        return None

    def is_finished(self, origin: Origin) -> bool:
        """Return True if a line of a file is stored; remember a new one."""
        return self.sources is not None and not self.sources.add(source_of(origin.file, origin.line, origin.part))

    def is_piped_again(self, origin: Origin, slot: ResultKey, answer: str = "") -> bool:
        """Return True for a line of a stream that the run has stored; remember a new one."""
        return self.piped is not None and origin.file in _STREAMS and self.piped.find_or_add(slot, answer)

    def restore(
        self, stored: StoredRun, *, files: Collection[str] | None, on_row: Callable[[CaseResult], None]
    ) -> None:
        """Take over the answers of a stored run, and pass each of its rows to `on_row`.

        With `files`, those that a resume reads again, lines that are stored are skipped: a line of a file is recognised
        by file and number, a line of a stream by case and trial. Answers without a row are judged.
        """
        judged, sources = set[int](), DigestSet()
        is_stream = files is not None and not set(_STREAMS).isdisjoint(files)
        piped = StoredLines(are_piped=OTLP not in (files or ())) if is_stream else None
        for row in stored.results():
            self.targets[row.slot.target] = None
            if piped is not None and row.file in _STREAMS:
                piped.add(row)
                self.trials.has_repeats = self.trials.has_repeats or row.slot.trial > 0
            else:
                self.trials.add(row.slot)
                sources.add(source_of(row.file, row.line, row.part))
            if row.answer_seq is not None:
                judged.add(row.answer_seq)
            on_row(row)
        for case in stored.cases():
            self.cases.add(f"{case.suite}\0{case.eval_id}")
        if files is None:
            return
        self.sources, self.piped = sources, piped
        for answer in stored.all_answers():
            origin = answer.origin
            if answer.seq in judged or origin is None or answer.generation:
                continue
            if piped is not None and origin.file in _STREAMS:
                self.unjudged[slot_name(answer.slot)] = answer
            else:
                self.unjudged[source_of(origin.file, origin.line, origin.part)] = answer
                self.trials.add(answer.slot)


@lru_cache(maxsize=256)
def _target_key(name: str) -> str:
    """Return the key of the target of a given answer; it has no settings."""
    return digest([name, GIVEN_ANSWER])
