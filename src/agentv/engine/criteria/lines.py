"""The lines of logs as tasks: each is read, recognised if the run has it already, and given a result key."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.capture import Cleaner, Redactor
from agentv.engine.criteria.inputs import target_of_file
from agentv.engine.criteria.run_answers import RunAnswers
from agentv.engine.logs.answer_filter import AnswerFilter
from agentv.engine.logs.stream import content_digest
from agentv.engine.planning.plan import CaseTask
from agentv.engine.running.rows import unread_row
from agentv.execution.processes.line_stream import Line, ReadLine
from agentv.loading.suites.recorded import read_log_line
from agentv.messages.logs.mapping import Extra, LogMap
from agentv.messages.logs.reading import TraceStep
from agentv.scoring.counting.groups import METADATA
from agentv.telemetry.joining.joining import JoinOptions
from agentv.types.errors import EvalFileError
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.failures import Failure
from agentv.types.input_notes import InputNote, left_out, word_notes
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem
from agentv.types.protocols import Clock
from agentv.types.records.answer import Origin, source_of
from agentv.types.records.result import CaseResult

_LEFT_OUT = "not scored"


class LogReading(Struct, frozen=True):
    """How lines are read: the paths of `--map`, the treatment of unknown keys, and the unit of traces."""

    paths: LogMap = {}
    extra: Extra = "error"
    joining: JoinOptions = JoinOptions()
    """How the spans of traces become answers."""


class LineSource(Protocol):
    """The sampled lines of a stream, in order."""

    @property
    def read(self) -> int:
        """The number of lines read so far."""

    async def next(self) -> ReadLine | None:
        """Wait for the next line and return it; None at the end."""

    def stop(self) -> None:
        """Let `next` return None from now on."""

    async def close(self) -> None:
        """Close the files."""

    def missing_key(self) -> str | None:
        """Return the sampling key if no line had it; None otherwise, or if there is no sampling key."""

    @property
    def notes(self) -> Callable[[], Iterable[InputNote]]:
        """Returns what the user should know of the stream, such as what in it was not read as an answer."""


class LogAnswers(Struct):
    """The answers in the lines of logs, for a stream to judge."""

    lines: LineSource
    answers: RunAnswers
    clock: Clock
    reading: LogReading = LogReading()
    target_field: str | None = None
    """The field that names the target of a line; without it, the line's `target` is used, else the name of the file."""
    run_id: str = ""
    filter: AnswerFilter = field(default_factory=AnswerFilter)
    is_over: bool = False
    notes_of_lines: dict[str, None] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    """The parts of traces that are no answers, by kind."""
    answers_read: int = 0
    mapped_fields: set[str] = field(default_factory=set)
    """The fields of `--map` that some line has."""
    without_target: int = 0
    """The number of lines without the `target_field`."""
    cleaner: Cleaner = field(default_factory=lambda: Cleaner(Redactor(())))

    @property
    def read(self) -> int:
        """The number of lines read so far."""
        return self.lines.read

    @property
    def repeats_cases(self) -> bool:
        """True if a case has several rows: repeats, or answers of several targets."""
        return self.answers.repeats_cases

    async def next(self) -> CaseTask | CaseResult | None:
        """Wait for the next line and return the task to judge its answer, or the row of a line that cannot be judged.

        None for a line that is stored already or only a step of a trace, and at the end, when `is_over` is set.
        """
        line = await self.lines.next()
        if line is None:
            self.is_over = True
            return None
        origin = _origin_of(line)
        if self.answers.is_finished(origin):
            return None
        if not isinstance(line, Line):
            return None if self.filter.is_old(line.ended_at) else self._unread(origin, line.message, line.target)
        try:
            return self._task(line, origin)
        except EvalFileError as error:
            return self._unread(origin, "; ".join(_render(problem, line) for problem in error.problems))

    def stop(self) -> None:
        """Read no more lines."""
        self.lines.stop()

    async def close(self) -> None:
        """Close the files."""
        await self.lines.close()

    def _task(self, line: Line, origin: Origin) -> CaseTask | None:
        logged = read_log_line(line.data, line.file, line.number, paths=self.reading.paths, extra=self.reading.extra)
        if isinstance(logged, TraceStep):
            self.steps[logged.kind] += 1
            return None
        self.answers_read += 1
        self.mapped_fields.update(logged.mapped)
        self.notes_of_lines.update(dict.fromkeys(logged.notes))
        (given,) = self.cleaner.clean_all(logged.given)
        self.answers.tasks.fitted(given.criteria)  # before a trial is taken: the line may have to be corrected
        source = source_of(origin.file, origin.line, origin.part)
        target = self._target_of(given, line.file)
        if not self.filter.wants(given, self.answers.case_slot(given, target, source), origin):
            return None
        slot = self.answers.take_slot(given, target, source)
        if self.answers.is_piped_again(origin, slot, given.text):
            return None
        return self.answers.task(given, slot, origin, now=self.clock(), repaired=self.cleaner.repaired)

    def _target_of(self, given: EvaluationInput, file: str) -> str:
        if self.target_field is not None:
            name = named_value(given, self.target_field)
            if name is not None:
                return name
            self.without_target += 1
        return given.target or target_of_file(file)

    def _unread(self, origin: Origin, message: str, target: str | None = None) -> CaseResult | None:
        slot = self.answers.unread_slot(origin, target)
        if self.answers.is_piped_again(origin, slot) or not self.filter.wants_unread(slot, message):
            return None
        failure = Failure("config_error", message, stage="load")
        suite = self.answers.tasks.suite
        return unread_row(self.run_id, self.answers.trials.take(slot), suite.dataset, origin, failure, now=self.clock())

    def why_no_rows(self) -> str:
        """Return why no line was judged."""
        if self.steps:
            return (
                f"all {self.steps.total():,} lines are parts of a trace, none its root; --map response=PATH scores them"
            )
        if (reason := self.filter.why_none()) is not None:
            return reason
        if self.read:
            return f"no line is in the sample ({self.read:,} read)"
        return "; ".join(word_notes(self.lines.notes(), left_out=_LEFT_OUT)) or "there are no lines"

    def notes(self) -> Iterator[str]:
        """Yield what the user should know of the lines that were read."""
        yield from self.notes_of_lines
        yield from word_notes((*self.lines.notes(), *self.filter.notes()), left_out=_LEFT_OUT)
        if self.steps:
            yield f"{steps_note(self.steps).worded(_LEFT_OUT)}; --map response=PATH scores them too"
        if self.answers_read:
            for name in (name for name in self.reading.paths if name not in self.mapped_fields):
                yield f"no line has the path of --map {name}={self.reading.paths[name]}"
        if self.without_target:
            lines = "1 line has" if self.without_target == 1 else f"{self.without_target:,} lines have"
            yield f"{lines} no {self.target_field!r}; the line's 'target', or else the file's name, is used instead"
        piped = self.answers.piped
        if piped is not None and piped.are_piped and not self.read:
            yield "standard input was empty; agentv resume needs the stream that agentv score has read"
        if piped is not None and piped.changed:
            lines = "1 skipped line has" if piped.changed == 1 else f"{piped.changed:,} skipped lines have"
            yield f"{lines} the id of a stored line, but another answer; pipe the same stream, from its start"
        if (key := self.lines.missing_key()) is not None:
            yield f"no line has the sampling key {key!r}: each line was sampled independently"


def steps_note(steps: Mapping[str, int]) -> InputNote:
    """Return the note on parts of traces that are no answers, from their number by kind."""
    kinds = ", ".join(f"{count:,} {kind}{'s' if count > 1 else ''}" for kind, count in steps.items())
    return left_out(f"because they are parts of a trace: {kinds}")


def _origin_of(line: ReadLine) -> Origin:
    return Origin(line.file, line.number, line.part, content_digest(line), line.trace_id, line.span_id)


def named_value(given: EvaluationInput, name: str) -> str | None:
    """Return a field of an input or of its metadata as text; None if it is missing or empty, or a list or object."""
    if name in ("target", "model", "agent_id", "session_id", "id"):
        value: JsonValue = getattr(given, name)
    else:
        value = given.metadata.get(name.removeprefix(METADATA))
    return f"{value}" if isinstance(value, str | int | float) and value != "" else None


def _render(problem: Problem, line: Line) -> str:
    """Return a problem as text.

    If it is in the line's file, leave out the file and line, which are reported anyway, and a leading `$`.
    """
    if problem.path != line.file:
        return problem.render()
    column = f"column {problem.column}: " if problem.column > 1 else ""
    return column + replace(problem, path="", line=0).render().strip().removeprefix("$  ")
