"""Prompts of a suite that differ in their ids only."""

from collections.abc import Iterator

from msgspec import Struct, field

from agentv.loading.models.reader import Reader
from agentv.loading.suites.suites import ParsedSuite
from agentv.types.cases import EvalCase
from agentv.types.problems import Problem


class EqualPrompts(Struct):
    """Pairs of prompts that send the same messages for every case that has both."""

    equal: dict[tuple[str, str], bool] = field(default_factory=dict)
    """For each pair of prompts: True if their messages were the same for all cases so far."""

    def add(self, case: EvalCase) -> None:
        """Compare the prompts of a case with each other."""
        sent = [prompt for prompt in case.prompts if prompt.skip is None]
        for i, second in enumerate(sent):
            for first in sent[:i]:
                pair = first.id, second.id
                if self.equal.get(pair, True):
                    self.equal[pair] = first.messages == second.messages

    def problems(self, parsed: ParsedSuite) -> Iterator[Problem]:
        """Yield a warning for each prompt that is the same as one before it."""
        if parsed.suite is None or parsed.reader is None:
            return
        reader = Reader(parsed.reader.document)
        reported: set[str] = set()
        for (first, second), is_equal in self.equal.items():
            if is_equal and second not in reported:
                reported.add(second)
                message = f"prompt {second!r} sends the same request as prompt {first!r} for every case"
                at = ("prompts", parsed.suite.prompts.index(second))
                reader.error(at, message, allowed="change one of them, or remove it", severity="warning")
        yield from reader.problems
