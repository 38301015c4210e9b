"""Expected tool calls and those that were made, paired: in order, and order aside."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, islice

from agentv.scoring.tool_calls import ExpectedCall, name_matches
from agentv.types.messages import ToolCall


class _Made:
    """The calls that were made, by tool: an agent has few tools and calls them often."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._by_tool: dict[str, list[int]] = {}
        self._by_pattern: dict[str, list[int]] = {}
        self._bits: dict[str, int] = {}
        for place, call in enumerate(calls):
            self._by_tool.setdefault(call.tool, []).append(place)

    def places(self, wish: ExpectedCall, *, enough: int | None = None) -> Sequence[int]:
        """Return the indexes of the calls that an expected one may be, in order; inputs are compared until `enough`."""
        named = self._named(wish.tool)
        if wish.input is None:
            return named
        return tuple(islice((place for place in named if wish.matches_input(self._calls[place])), enough))

    def bits(self, wish: ExpectedCall) -> int:
        """Return the indexes of `places` as the bits of a number."""
        if wish.input is not None:
            return sum(1 << place for place in self.places(wish))
        if wish.tool not in self._bits:
            self._bits[wish.tool] = sum(1 << place for place in self._named(wish.tool))
        return self._bits[wish.tool]

    def _named(self, pattern: str) -> list[int]:
        named = self._by_pattern.get(pattern)
        if named is None:
            fitting = (places for tool, places in self._by_tool.items() if name_matches(pattern, tool))
            named = self._by_pattern[pattern] = sorted(chain.from_iterable(fitting))
        return named


def common_share(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> float:
    """Return the longest common subsequence divided by the longer of the two lists; 1.0 when both are empty.

    A whole row of the usual table is one number, a bit for each call (Hyyrö 2004, "Bit-parallel LCS-length
    computation revisited").
    """
    longer = max(len(expected), len(calls))
    if not longer:
        return 1.0
    made, every = _Made(calls), (1 << len(calls)) - 1
    unmet = every
    for wish in expected:
        met = unmet & made.bits(wish)
        unmet = ((unmet + met) | (unmet - met)) & every
    return (len(calls) - unmet.bit_count()) / longer


def best_pairing(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> dict[int, int]:
    """Return as many pairs of expected and made calls as there can be, by their indexes.

    Globs and loose inputs let one call fit several expectations, so that first come, first served is not enough:
    pairs are rearranged along augmenting paths.
    """
    made = _Made(calls)
    # More candidates than expected calls are never needed: the others can take no more than that.
    candidates = [made.places(wish, enough=len(expected)) for wish in expected]
    pairs: dict[int, int] = {}
    owner: dict[int, int] = {}
    for wish in range(len(expected)):
        reached, free = _path_to_free_call(wish, candidates, owner)
        while free is not None:
            holder = reached[free]
            given_up = pairs.get(holder)
            pairs[holder], owner[free] = free, holder
            free = given_up
    return pairs


def _path_to_free_call(
    wish: int, candidates: Sequence[Sequence[int]], owner: Mapping[int, int]
) -> tuple[dict[int, int], int | None]:
    """Return which expectation reached each call, and the free call that was found, if any."""
    for call in candidates[wish]:  # most find one at once
        if call not in owner:
            return {call: wish}, call
    reached: dict[int, int] = {}
    waiting = deque([wish])
    while waiting:
        holder = waiting.popleft()
        for call in candidates[holder]:
            if call in reached:
                continue
            reached[call] = holder
            if call not in owner:
                return reached, call
            waiting.append(owner[call])
    return reached, None
