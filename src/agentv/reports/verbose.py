"""What `-v` adds: a line for every answer as it arrives and every call that is repeated."""

from typing import TextIO

from agentv.reports.amounts import seconds_text
from agentv.reports.printable import one_line
from agentv.types.events import AnswerArrived, RetryNoted, RunEvent


class VerboseLines:
    """An observer that writes answers and repeats, one line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def notify(self, event: RunEvent) -> None:
        """Take note of one event."""
        match event:
            case AnswerArrived(answer):
                outcome = f"error {answer.error.kind}" if answer.error else f"{len(answer.text):,} characters"
                took = seconds_text(answer.duration_ms / 1000)
                self._line(f"answer: {answer.slot.eval_id} {answer.slot.target}: {outcome} in {took}")
            case RetryNoted(target, eval_id, kind, wait_s):
                self._line(f"retry: {eval_id} {target}: {kind}; again in {seconds_text(wait_s)}")
            case _:
                pass

    def close(self) -> None:
        """Hand over what is written."""
        self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(one_line(text) + "\n")
