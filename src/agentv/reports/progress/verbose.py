"""The lines added by `-v`: one for every answer, every retry and every step of an agent."""

from collections.abc import Callable
from typing import TextIO

from agentv.reports.text.amounts import count_text, seconds_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import signs_for
from agentv.reports.text.width import clip
from agentv.reports.text.workflow_commands import harmless
from agentv.types.events import AnswerArrived, LogLine, RetryNoted, RunEvent
from agentv.types.records.answer import ResultKey

_LONGEST_LINE = 300  # the log itself has more
_SHORTEST_TEXT = 40


class VerboseLines:
    """An observer that writes a line per answer, retry and step to the stream that `stream` returns at that moment.

    Steps are cut to `width` cells, the width of the terminal if there is one.
    """

    event_types = (AnswerArrived, RetryNoted, LogLine)

    def __init__(self, stream: Callable[[], TextIO], *, width: int | None = None) -> None:
        self._stream = stream
        self._width = width or _LONGEST_LINE

    def notify(self, event: RunEvent) -> None:
        """Process one event."""
        match event:
            case AnswerArrived(answer):
                outcome = f"error {answer.error.kind}" if answer.error else count_text(len(answer.text), "character")
                took = seconds_text(None if answer.duration_ms is None else answer.duration_ms / 1000)
                self._line(f"answer: {_name(answer.slot)} {answer.slot.target}: {outcome} in {took}")
            case RetryNoted(target, eval_id, kind, wait_s):
                self._line(f"retry: {eval_id} {target}: {kind}; retrying in {seconds_text(wait_s)}")
            case LogLine(slot, target, text):
                name = f"log: {_name(slot)} {target}: "
                self._line(name + text, most=max(self._width, len(name) + _SHORTEST_TEXT))
            case _:
                pass

    def close(self) -> None:
        """Flush the stream."""
        self._stream().flush()

    def _line(self, text: str, *, most: int | None = None) -> None:
        stream = self._stream()
        encoding = stream.encoding or "utf-8"
        line = harmless(one_line(text)).encode(encoding, "backslashreplace").decode(encoding)
        if most is not None:
            line = clip(line, most, mark=signs_for(encoding).ellipsis)
        stream.write(line + "\n")
        stream.flush()


def _name(slot: ResultKey) -> str:
    """Return the case of a row, with its prompt and its trial if it has several."""
    prompt = "" if slot.prompt is None else f" · {slot.prompt}"
    trial = f" trial {slot.trial + 1}" if slot.trial else ""
    return f"{slot.eval_id}{prompt}{trial}"
