"""Trajectories: which tools were called, how often, and in what order."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, islice, zip_longest
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.scoring.tools.tool_calls import ExpectedCall, name_matches
from agentv.types.json_value import JsonValue
from agentv.types.messages import ToolCall
from agentv.types.messages_json import compact_json


class _CallIndex:
    """The actual calls, indexed by tool: an agent has few tools and calls them often."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._by_tool: dict[str, list[int]] = {}
        self._by_pattern: dict[str, list[int]] = {}
        self._bits: dict[str, int] = {}
        for place, call in enumerate(calls):
            self._by_tool.setdefault(call.tool, []).append(place)

    def places(self, expectation: ExpectedCall, *, enough: int | None = None) -> Sequence[int]:
        """Return the indexes of the calls that match an expected one, in order; the search stops after `enough`."""
        named = self._named(expectation.tool)
        if expectation.input is None:
            return named
        return tuple(islice((place for place in named if expectation.matches_input(self._calls[place])), enough))

    def bits(self, expectation: ExpectedCall) -> int:
        """Return the indexes of `places` as the bits of a number."""
        if expectation.input is not None:
            return sum(1 << place for place in self.places(expectation))
        if expectation.tool not in self._bits:
            self._bits[expectation.tool] = sum(1 << place for place in self._named(expectation.tool))
        return self._bits[expectation.tool]

    def _named(self, pattern: str) -> list[int]:
        named = self._by_pattern.get(pattern)
        if named is None:
            fitting = (places for tool, places in self._by_tool.items() if name_matches(pattern, tool))
            named = self._by_pattern[pattern] = sorted(chain.from_iterable(fitting))
        return named


def common_share(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> float:
    """Return the longest common subsequence divided by the longer of the two lists; 1.0 when both are empty.

    Each row of the usual table is one number with a bit for each call (Hyyrö 2004, "Bit-parallel LCS-length
    computation revisited").
    """
    longer = max(len(expected), len(calls))
    if not longer:
        return 1.0
    made, every = _CallIndex(calls), (1 << len(calls)) - 1
    unmet = every
    for expectation in expected:
        met = unmet & made.bits(expectation)
        unmet = ((unmet + met) | (unmet - met)) & every
    return (len(calls) - unmet.bit_count()) / longer


def best_pairing(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> dict[int, int]:
    """Return the largest possible number of pairs of expected and actual calls, by their indexes.

    With globs and loose inputs one call may match several expectations, so that greedy matching is not enough: pairs
    are rearranged along augmenting paths.
    """
    made = _CallIndex(calls)
    # More candidates than expected calls are never needed: other expectations can take no more than that.
    candidates = [made.places(expectation, enough=len(expected)) for expectation in expected]
    pairs: dict[int, int] = {}
    owner: dict[int, int] = {}
    for index in range(len(expected)):
        reached, free = _path_to_free_call(index, candidates, owner)
        while free is not None:
            holder = reached[free]
            given_up = pairs.get(holder)
            pairs[holder], owner[free] = free, holder
            free = given_up
    return pairs


def _path_to_free_call(
    index: int, candidates: Sequence[Sequence[int]], owner: Mapping[int, int]
) -> tuple[dict[int, int], int | None]:
    """Return the expectation that reached each call, and the free call that was found, if any."""
    for call in candidates[index]:  # most find one at once
        if call not in owner:
            return {call: index}, call
    reached: dict[int, int] = {}
    waiting = deque([index])
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


Mode: TypeAlias = Literal["any_order", "in_order", "exact", "unordered", "subset", "superset"]
Scoring: TypeAlias = Literal["strict", "partial", "matched"]

NO_TRACE = "No trace available for evaluation"
MAX_LINES = 50
"""The maximum number of hits, and of misses, that are listed."""

_SHOWN_INPUT = 80


class Trajectory(Struct, frozen=True, dict=True):
    """The expected trajectory. Tool names may be globs.

    `any_order` counts calls only; the other modes compare with `expected`. `minimums`, `maximums` and `forbidden` may
    be combined with any mode: the score is then the share of all requirements that are met. `scoring` says how a
    sequence is scored: `strict` all or nothing, `partial` by the longest common part, `matched` by the matched share.
    """

    mode: Mode
    expected: tuple[ExpectedCall, ...] = ()
    minimums: Mapping[str, int] | None = None
    maximums: Mapping[str, int] | None = None
    forbidden: tuple[str, ...] = ()
    scoring: Scoring = "strict"

    @property
    def has_count_limits(self) -> bool:
        """True if the number of calls of any tool is limited."""
        return bool(self.minimums or self.maximums or self.forbidden)

    @cached_property
    def time_limits(self) -> Mapping[int, float]:
        """The expected calls with a time limit, in milliseconds, by their indexes; computed once for all answers."""
        limits = {index: each.max_duration_ms for index, each in enumerate(self.expected)}
        return {index: most for index, most in limits.items() if most is not None}


class TrajectoryScore(Struct, frozen=True):
    """The score of a trajectory, 0..1, with its hits and misses.

    `unknown` are the calls with a time limit but no recorded time: their limits are not part of the score.
    """

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class _Compared(Struct, frozen=True):
    """A comparison of actual with expected calls: whether all match, the matched share, lines for hits and misses.

    `found` returns the indexes of the matching actual calls, by the index of the expected call.
    """

    holds: bool
    share: Callable[[], float]  # computed only if it is the score
    hits: list[str]
    misses: list[str]
    found: Callable[[], Mapping[int, Sequence[int]]]  # computed only if a call has a time limit


def score_trajectory(wanted: Trajectory, calls: Sequence[ToolCall]) -> TrajectoryScore:
    """Compare the actual calls with the expected trajectory."""
    hits: list[str] = []
    misses: list[str] = []
    requirements: list[float] = []
    unknown: list[str] = []
    if wanted.mode != "any_order":
        compared = _match(wanted, calls) if wanted.scoring == "matched" else _compare(wanted, calls)
        timed = _timed(wanted, calls, compared)
        hits += compared.hits + timed.hits
        misses += compared.misses + timed.misses
        unknown = timed.unknown
        if wanted.scoring == "strict":
            requirements.append(float(compared.holds and timed.met == timed.limits))
        else:
            share, weight = compared.share(), len(wanted.expected)
            total = weight + timed.limits
            requirements.append((share * weight + timed.met) / total if timed.limits else share)
    counts = Counter([call.tool for call in calls]) if wanted.has_count_limits else {}
    for met, message in _count_requirements(wanted, counts):
        requirements.append(float(met))
        (hits if met else misses).append(message)
    score = sum(requirements) / len(requirements) if requirements else 1.0
    return TrajectoryScore(score, _limited(hits), _limited(misses), tuple(unknown))


class _Timed(Struct):
    """The time limits of calls: how many can be checked, how many are met, and lines for hits and misses."""

    limits: int = 0
    met: int = 0
    hits: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def _timed(wanted: Trajectory, calls: Sequence[ToolCall], compared: _Compared) -> _Timed:
    """Compare the time of each found call with its limit; the limit of a missing call is not met."""
    timed = _Timed()
    found = compared.found() if wanted.time_limits else {}
    for index, most in wanted.time_limits.items():
        places = found.get(index, ())
        durations = [(calls[place], calls[place].duration_ms) for place in places]
        if any(took is None for _, took in durations):
            timed.unknown += [call.tool for call, took in durations if took is None]
            continue
        timed.limits += 1
        within = [took is not None and took <= most for _, took in durations]
        timed.met += bool(within) and all(within)
        for (call, took), is_within in zip(durations, within, strict=True):
            text = f"{call.tool} took {took:g} ms (maximum: {most:g} ms)"
            (timed.hits if is_within else timed.misses).append(text)
    return timed


def score_counts(wanted: Trajectory, counts: Mapping[str, int]) -> TrajectoryScore:
    """Return the score in mode `any_order` if only the number of calls of each tool is known."""
    requirements = list(_count_requirements(wanted, counts))
    return TrajectoryScore(
        score=sum(met for met, _ in requirements) / len(requirements) if requirements else 1.0,
        hits=_limited([message for met, message in requirements if met]),
        misses=_limited([message for met, message in requirements if not met]),
    )


def _limited(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - MAX_LINES
    return (*lines[:MAX_LINES], f"… and {more} more") if more > 0 else tuple(lines)


def _count_requirements(wanted: Trajectory, counts: Mapping[str, int]) -> Iterator[tuple[bool, str]]:
    for tool, least in (wanted.minimums or {}).items():
        count = _count(counts, tool)
        yield count >= least, f"{_called(tool, count)} (minimum: {least})"
    for tool, most in (wanted.maximums or {}).items():
        count = _count(counts, tool)
        yield count <= most, f"{_called(tool, count)} (maximum: {most})"
    for tool in wanted.forbidden:
        count = _count(counts, tool)
        yield count == 0, f"{_called(tool, count)} (forbidden)"


def _count(counts: Mapping[str, int], pattern: str) -> int:
    return sum(count for name, count in counts.items() if name_matches(pattern, name))


def _called(tool: str, count: int) -> str:
    return f"{tool} called {count} time{'' if count == 1 else 's'}"


def _compare(wanted: Trajectory, calls: Sequence[ToolCall]) -> _Compared:
    match wanted.mode:
        case "exact":
            return _exact(wanted.expected, calls)
        case "in_order":
            return _in_order(wanted.expected, calls)
        case _:
            return _as_multisets(wanted, calls)


def _exact(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> _Compared:
    hits: list[str] = []
    misses: list[str] = []
    for position, (expectation, call) in enumerate(zip_longest(expected, calls), start=1):
        if expectation is not None and call is not None and expectation.matches(call):
            hits.append(f"{call.tool} called at position {position}")
        else:
            misses.append(f"Expected {_wanted(expectation)} at position {position}, found {_found(expectation, call)}")
    return _Compared(
        not misses,
        share=partial(common_share, expected, calls),
        hits=hits,
        misses=misses,
        found=lambda: {
            index: (index,)
            for index, (each, call) in enumerate(zip(expected, calls, strict=False))
            if each.matches(call)
        },
    )


def _found(expectation: ExpectedCall | None, call: ToolCall | None) -> str:
    if call is None:
        return "nothing"
    if expectation is None or not expectation.matches_name(call):
        return call.tool
    return call.tool if expectation.input is None else f"{call.tool} with {_shown(call.input)}"


def _wanted(expectation: ExpectedCall | None) -> str:
    """Return an expected call as text, with its arguments if they count."""
    if expectation is None:
        return "nothing"
    if expectation.input is None or expectation.args == "ignore":
        return expectation.tool
    return f"{expectation.tool} with {_shown(expectation.input)}"


def _shown(arguments: JsonValue) -> str:
    try:
        text = compact_json(arguments)
    except RecursionError:
        return "an input nested too deep to show"
    return text if len(text) <= _SHOWN_INPUT else f"{text[:_SHOWN_INPUT]}…"


def _in_order(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> _Compared:
    hits: list[str] = []
    misses: list[str] = []
    following = 0
    after = ""
    found: dict[int, Sequence[int]] = {}
    for position, expectation in enumerate(expected, start=1):
        index = next((i for i in range(following, len(calls)) if expectation.matches(calls[i])), None)
        if index is None:
            instead = _elsewhere(expectation, calls, after)
            misses.append(f"Expected {_wanted(expectation)} at position {position}, found {instead}")
            continue
        found[position - 1] = (index,)
        hits.append(f"{calls[index].tool} called at position {index + 1}")
        following, after = index + 1, calls[index].tool
    return _Compared(
        not misses, share=partial(common_share, expected, calls), hits=hits, misses=misses, found=lambda: found
    )


def _elsewhere(expectation: ExpectedCall, calls: Sequence[ToolCall], after: str) -> str:
    """Describe where a call that is missing at its position was made instead."""
    if any(expectation.matches(call) for call in calls):
        return f"it only before {after}"
    return _similar(expectation, calls)


def _similar(expectation: ExpectedCall, calls: Sequence[ToolCall]) -> str:
    """Describe a call of the expected tool with other arguments."""
    similar = next((call for call in calls if expectation.matches_name(call)), None)
    return "no such call" if similar is None else _found(expectation, similar)


def _as_multisets(wanted: Trajectory, calls: Sequence[ToolCall]) -> _Compared:
    """Pair expected calls with actual ones in any order; `subset` allows fewer calls, `superset` more."""
    pairs = best_pairing(wanted.expected, calls)
    taken = set(pairs.values())
    unpaired = [each for i, each in enumerate(wanted.expected) if i not in pairs]
    free = [call for i, call in enumerate(calls) if i not in taken]
    absent = [f"Expected {_wanted(each)}, found {_similar(each, free)}" for each in unpaired]
    extra = [f"Expected no further call, found {call.tool}" for i, call in enumerate(calls) if i not in taken]
    misses = (absent if wanted.mode != "subset" else []) + (extra if wanted.mode != "superset" else [])
    longer = max(len(wanted.expected), len(calls))
    hits = [f"{calls[index].tool} called at position {index + 1}" for index in sorted(taken)]
    return _Compared(
        not misses,
        share=lambda: len(pairs) / longer if longer else 1.0,
        hits=hits,
        misses=misses,
        found=lambda: {index: (place,) for index, place in pairs.items()},
    )


def _match(wanted: Trajectory, calls: Sequence[ToolCall]) -> _Compared:
    """Compare by the share of matched calls: of the expected calls; in mode `subset`, of the actual calls.

    Calls beyond the expected ones count only in mode `subset`, in which an expected call allows any number of calls.
    """
    match wanted.mode:
        case "subset":
            return _allowed(wanted.expected, calls)
        case "exact":
            found: Sequence[int | None] = [
                index if index < len(calls) and each.matches(calls[index]) else None
                for index, each in enumerate(wanted.expected)
            ]
        case "in_order":
            found = _first_matches(wanted.expected, calls)
        case _:
            found = _greedy_matches(wanted.expected, calls)
    hits = [f"{calls[index].tool} called at position {index + 1}" for index in found if index is not None]
    misses = [
        f"Expected {each.tool} at position {position}, found {_instead(wanted.mode, each, position, calls)}"
        for position, (each, index) in enumerate(zip(wanted.expected, found, strict=True), start=1)
        if index is None
    ]
    share = len(hits) / len(found) if found else 1.0
    return _Compared(
        not misses,
        share=lambda: share,
        hits=hits,
        misses=misses,
        found=lambda: {number: (index,) for number, index in enumerate(found) if index is not None},
    )


def _instead(mode: Mode, expectation: ExpectedCall, position: int, calls: Sequence[ToolCall]) -> str:
    if mode == "exact":
        return _found(expectation, calls[position - 1] if position <= len(calls) else None)
    return _elsewhere(expectation, calls, "an earlier match")


def _first_matches(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> list[int | None]:
    """Return the call of each expectation, in order; a call of its tool with another input counts as a miss."""
    found: list[int | None] = []
    following = 0
    for expectation in expected:
        named = (index for index in range(following, len(calls)) if expectation.matches_name(calls[index]))
        index = next(named, None)
        following = len(calls) if index is None else index + 1
        found.append(index if index is not None and expectation.matches(calls[index]) else None)
    return found


def _greedy_matches(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> list[int | None]:
    """Return for each expectation the first matching call that is not taken yet, in any order."""
    taken: set[int] = set()
    found: list[int | None] = []
    for expectation in expected:
        free = (index for index, call in enumerate(calls) if index not in taken and expectation.matches(call))
        index = next(free, None)
        taken |= set() if index is None else {index}
        found.append(index)
    return found


def _allowed(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> _Compared:
    allowed = [any(expectation.matches(call) for expectation in expected) for call in calls]
    positions = list(zip(calls, allowed, strict=True))
    hits = [f"{call.tool} called at position {i}" for i, (call, is_allowed) in enumerate(positions, 1) if is_allowed]
    misses = [f"Expected no further call, found {call.tool}" for call, is_allowed in positions if not is_allowed]
    share = sum(allowed) / len(allowed) if allowed else 1.0

    def found() -> dict[int, list[int]]:
        return {
            number: [index for index, call in enumerate(calls) if expectation.matches(call)]
            for number, expectation in enumerate(expected)
            if expectation.max_duration_ms is not None
        }

    return _Compared(not misses, share=lambda: share, hits=hits, misses=misses, found=found)
