"""The lines added by `-v`: one for every answer and every retry."""

from collections.abc import Callable
from typing import TextIO

from agentv.reports.text.amounts import count_text, seconds_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.workflow_commands import harmless
from agentv.types.events import AnswerArrived, RetryNoted, RunEvent


class VerboseLines:
    """An observer that writes a line per answer and retry to the stream that `stream` returns at that moment."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        self._stream = stream

    def notify(self, event: RunEvent) -> None:
        """Process one event."""
        match event:
            case AnswerArrived(answer):
                slot = answer.slot
                prompt = "" if slot.prompt is None else f" · {slot.prompt}"
                trial = f"{prompt} trial {slot.trial + 1}" if slot.trial else prompt
                outcome = f"error {answer.error.kind}" if answer.error else count_text(len(answer.text), "character")
                took = seconds_text(None if answer.duration_ms is None else answer.duration_ms / 1000)
                self._line(f"answer: {slot.eval_id}{trial} {slot.target}: {outcome} in {took}")
            case RetryNoted(target, eval_id, kind, wait_s):
                self._line(f"retry: {eval_id} {target}: {kind}; retrying in {seconds_text(wait_s)}")
            case _:
                pass

    def close(self) -> None:
        """Flush the stream."""
        self._stream().flush()

    def _line(self, text: str) -> None:
        stream = self._stream()
        encoding = stream.encoding or "utf-8"
        line = harmless(one_line(text)).encode(encoding, "backslashreplace").decode(encoding)
        stream.write(line + "\n")
        stream.flush()
