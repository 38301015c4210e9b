"""What was understood of the spans that were joined into answers, and what was not, in words."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from agentv.telemetry.joining.hints import content_hint
from agentv.types.input_notes import InputNote, left_out

_MOST_SCOPES = 5


class JoinReport(Struct):
    """What was understood, and what was not."""

    spans: int = 0
    traces: int = 0
    answers: int = 0
    doubled: int = 0
    """Copies of spans that were left out."""
    ambiguous: int = 0
    """Calls that may continue several conversations; each continues the newest."""
    guessed: int = 0
    """Invocations with several conversations, none of which ends with the recorded output."""
    open: int = 0
    """Answers whose last call of a model asks for tools, and nothing continues it."""
    without_content: Counter[str] = field(default_factory=Counter)
    """Invocations without messages, by scope."""
    without_answer: Counter[str] = field(default_factory=Counter)
    """Invocations with a question and no answer, though they did not fail, by scope."""
    empty: Counter[str] = field(default_factory=Counter)
    """Answers without a text, by scope."""
    late: int = 0
    """Invocations that complete an answer which was judged already."""
    unfinished: int = 0
    """Traces at the end whose agents are still running."""
    untraced: int = 0
    """Log records without a trace."""
    cut: int = 0
    """Traces that were joined before their end, because too many spans waited."""
    without_question: Counter[str] = field(default_factory=Counter)
    """Answers to no question, by scope."""
    not_generative: int = 0
    """Traces without an agent or a call of a model."""
    unknown: dict[str, None] = field(default_factory=dict)
    """The scopes of such traces: the first ones."""
    problems: Counter[str] = field(default_factory=Counter)

    def add_unknown(self, scopes: Iterable[str]) -> None:
        """Count a trace without an agent or a call of a model, and remember whose spans it has."""
        self.not_generative += 1
        for scope in scopes:
            if scope and len(self.unknown) < _MOST_SCOPES:
                self.unknown[scope] = None

    def notes(self) -> Iterator[InputNote]:
        """Yield what a user should know."""
        for counts, single, several, lacks in (
            (self.without_content, "answer has", "answers have", "messages"),
            (self.without_answer, "question has", "questions have", "answer"),
            (self.without_question, "answer has", "answers have", "question"),
        ):
            for scope, count in sorted(counts.items()):
                name = scope or "an instrumentation without a name"
                what = _counted(count, single, several)
                yield InputNote(f"{what} no {lacks} in the traces of {name}: {content_hint(scope)}")
        for scope, count in sorted(self.empty.items()):
            what = _counted(count, "answer is", "answers are")
            name = scope or "an instrumentation without a name"
            said = "the model said nothing, or it was not recorded"
            yield InputNote(f"{what} empty in the traces of {name}: {said}")
        if self.not_generative:
            what = _counted(self.not_generative, "trace has", "traces have")
            scopes = f" (spans of {', '.join(self.unknown)})" if self.unknown else ""
            yield InputNote(f"{what} no agent and no call of a model, so that there is no answer{scopes}")
        if self.open:
            what = _counted(self.open, "answer ends", "answers end")
            yield InputNote(f"{what} with a call of a tool that nothing continues; see metadata.incomplete")
        if self.ambiguous:
            what = _counted(self.ambiguous, "call", "calls")
            same = "with the same messages; each continues the newest"
            yield InputNote(f"{what} may continue several conversations {same}")
        if self.guessed:
            what = _counted(self.guessed, "answer has", "answers have")
            yield InputNote(f"{what} several conversations with models; the last one was taken")
        yield from self._notes_of_streams()
        for problem, count in sorted(self.problems.items()):
            yield InputNote(f"not read in {_counted(count, 'span', 'spans')}: {problem}")

    def _notes_of_streams(self) -> Iterator[InputNote]:
        if self.unfinished:
            what = _counted(self.unfinished, "trace", "traces")
            yield left_out(f"because the agent is still running, or its outermost span is not exported: {what}")
        if self.late:
            what = _counted(self.late, "span", "spans")
            yield left_out(f"because they came after the answer was complete: {what} of an agent or a model")
        if self.cut:
            what = _counted(self.cut, "trace was", "traces were")
            yield InputNote(f"{what} joined before its end, because too many spans were waiting")
        if self.untraced:
            what = _counted(self.untraced, "log record names", "log records name")
            yield InputNote(f"{what} no trace, so no answer is read from {'it' if self.untraced == 1 else 'them'}")


def _counted(count: int, single: str, several: str) -> str:
    return f"1 {single}" if count == 1 else f"{count:,} {several}"
