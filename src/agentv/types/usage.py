"""Usage and price of model calls."""

from collections.abc import Iterable, Mapping
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace


class Usage(Struct, frozen=True, gc=False):
    """Tokens of one or more calls. `cached_input` is part of `input`, `reasoning` part of `output`."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    reasoning: int = 0
    total: int = 0
    requests: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Add field by field."""
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached_input=self.cached_input + other.cached_input,
            reasoning=self.reasoning + other.reasoning,
            total=self.total + other.total,
            requests=self.requests + other.requests,
        )


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the sum of the known usages; None when none is known."""
    known = [usage for usage in usages if usage is not None]
    return sum(known[1:], start=known[0]) if known else None


class Price(Struct, frozen=True):
    """Dollars per million tokens."""

    input_per_million: float
    output_per_million: float

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of `usage`, in dollars."""
        return (usage.input * self.input_per_million + usage.output * self.output_per_million) / 1_000_000


_COUNTS: Mapping[str, tuple[str, ...]] = {
    "input": ("input", "input_tokens", "prompt_tokens", "inputTokens", "promptTokens"),
    "output": ("output", "output_tokens", "completion_tokens", "outputTokens", "completionTokens"),
    "cached_input": ("cached_input", "cached_input_tokens", "cachedInputTokens", "cached"),
    "reasoning": ("reasoning", "reasoning_tokens", "reasoningTokens"),
    "total": ("total", "total_tokens", "totalTokens"),
    "requests": ("requests",),
}
"""The names of token counts: ours, OpenAI's, Anthropic's, the AI SDK's and AgentV's."""


def parse_usage(value: object) -> Usage | None:
    """Return the token counts in `usage`, by the names of any API; None if it has none that is a whole number."""
    if isinstance(value, Usage) or not isinstance(value, Mapping):
        return value if isinstance(value, Usage) else None
    counts = {name: next(filter(_is_count, map(value.get, names)), None) for name, names in _COUNTS.items()}
    known = {name: int(count) for name, count in counts.items() if count is not None}
    if not known:
        return None
    usage = Usage(**known)
    return usage if "total" in known else replace(usage, total=usage.input + usage.output)


def _is_count(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value % 1 == 0
