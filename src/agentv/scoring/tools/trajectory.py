"""Trajectories: the tools that were called, how often, and in what order, compared with expectations."""

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


class _CallsByTool:
    """The actual calls by tool, for fast matching: an agent has few tools and calls them often."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._by_tool: dict[str, list[int]] = {}
        self._by_pattern: dict[str, list[int]] = {}
        self._bit_masks: dict[str, int] = {}
        for call_index, call in enumerate(calls):
            self._by_tool.setdefault(call.tool, []).append(call_index)

    def indexes(self, expectation: ExpectedCall, *, limit: int | None = None) -> Sequence[int]:
        """Return the indexes of the calls that match an expected call, in order, at most the first `limit`."""
        named = self._named(expectation.tool)
        if expectation.input is None:
            return named
        matching = (index for index in named if expectation.matches_input(self._calls[index]))
        return tuple(islice(matching, limit))

    def bit_mask(self, expectation: ExpectedCall) -> int:
        """Return a number in which the bits at `indexes` are set."""
        if expectation.input is not None:
            return sum(1 << call_index for call_index in self.indexes(expectation))
        if expectation.tool not in self._bit_masks:
            self._bit_masks[expectation.tool] = sum(1 << call_index for call_index in self._named(expectation.tool))
        return self._bit_masks[expectation.tool]

    def _named(self, pattern: str) -> list[int]:
        named = self._by_pattern.get(pattern)
        if named is None:
            matching = (indexes for tool, indexes in self._by_tool.items() if name_matches(pattern, tool))
            named = self._by_pattern[pattern] = sorted(chain.from_iterable(matching))
        return named


def common_share(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> float:
    """Return the length of the longest common subsequence divided by the longer length; 1.0 if both are empty.

    Each row of the table of lengths is one number with a bit for each call (Hyyrö 2004, "Bit-parallel LCS-length
    computation revisited").
    """
    longer = max(len(expected), len(calls))
    if not longer:
        return 1.0
    calls_by_tool, all_bits = _CallsByTool(calls), (1 << len(calls)) - 1
    row = all_bits
    for expectation in expected:
        matching = row & calls_by_tool.bit_mask(expectation)
        row = ((row + matching) | (row - matching)) & all_bits
    return (len(calls) - row.bit_count()) / longer


def best_pairing(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> dict[int, int]:
    """Return as many pairs of matching expected and actual calls as possible, by their indexes.

    With globs and loose inputs one call may match several expectations, so that greedy matching is not enough: pairs
    are rearranged along augmenting paths.
    """
    calls_by_tool = _CallsByTool(calls)
    # Other expectations take at most len(expected) - 1 calls, so one of len(expected) candidates is always free.
    candidates = [calls_by_tool.indexes(expectation, limit=len(expected)) for expectation in expected]
    pairs: dict[int, int] = {}
    owner: dict[int, int] = {}
    for index in range(len(expected)):
        reached, free = _path_to_free_call(index, candidates, owner)
        while free is not None:
            holder = reached[free]
            released = pairs.get(holder)
            pairs[holder], owner[free] = free, holder
            free = released
    return pairs


def _path_to_free_call(
    index: int, candidates: Sequence[Sequence[int]], owner: Mapping[int, int]
) -> tuple[dict[int, int], int | None]:
    """Search for a call that is not in `owner`, from an expectation's candidates on to those of their owners.

    Return, for each call on the way, the expectation that would take it, and the free call; None if there is none.
    """
    for call in candidates[index]:  # the usual case
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

_MAX_INPUT_CHARS = 80


class Trajectory(Struct, frozen=True, dict=True):
    """The expected trajectory. Tool names may be globs.

    `minimums`, `maximums` and `forbidden` may be combined with any mode: the score is then the mean over all
    requirements.
    """

    mode: Mode
    """`any_order` only counts calls; the other modes compare them with `expected`."""
    expected: tuple[ExpectedCall, ...] = ()
    minimums: Mapping[str, int] | None = None
    maximums: Mapping[str, int] | None = None
    forbidden: tuple[str, ...] = ()
    scoring: Scoring = "strict"
    """How the comparison is scored.

    It is `strict`, 1 or 0; `partial`, the number of common calls divided by the longer length; or `matched`, the share
    of expected calls that are matched (with `subset`, of actual calls that are expected).
    """

    @property
    def has_count_limits(self) -> bool:
        """True if the number of calls of any tool is limited."""
        return bool(self.minimums or self.maximums or self.forbidden)

    @cached_property
    def time_limits(self) -> Mapping[int, float]:
        """The expected calls with a time limit, in milliseconds, by their indexes; computed once for all answers."""
        limits = {index: each.max_duration_ms for index, each in enumerate(self.expected)}
        return {index: limit_ms for index, limit_ms in limits.items() if limit_ms is not None}


class TrajectoryScore(Struct, frozen=True):
    """The score of a trajectory, 0..1, with its hits and misses.

    `unknown` has the tools of calls with a time limit but no recorded time; such limits are not part of the score.
    """

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class _Comparison(Struct, frozen=True):
    """A comparison of actual with expected calls, with lines for hits and misses."""

    all_match: bool
    share: Callable[[], float]
    """Returns the score for `partial` or `matched` scoring; called only if it is the score."""
    hits: list[str]
    misses: list[str]
    matched_calls: Callable[[], Mapping[int, Sequence[int]]]
    """Returns the indexes of the matching actual calls, by the index of the expected call.

    It is called only if a call has a time limit.
    """


def score_trajectory(trajectory: Trajectory, calls: Sequence[ToolCall]) -> TrajectoryScore:
    """Compare the actual calls with the expected trajectory."""
    hits: list[str] = []
    misses: list[str] = []
    requirements: list[float] = []
    unknown: list[str] = []
    if trajectory.mode != "any_order":
        comparison = (
            _compare_matched_share(trajectory, calls)
            if trajectory.scoring == "matched"
            else _compare(trajectory, calls)
        )
        limits = trajectory.time_limits
        time_limits = _check_time_limits(limits, calls, comparison) if limits else _NO_TIME_LIMITS
        hits += comparison.hits + time_limits.hits
        misses += comparison.misses + time_limits.misses
        unknown = time_limits.unknown
        if trajectory.scoring == "strict":
            requirements.append(float(comparison.all_match and time_limits.met == time_limits.checked))
        else:
            # A time limit counts as much as an expected call.
            share, weight = comparison.share(), len(trajectory.expected)
            total = weight + time_limits.checked
            requirements.append((share * weight + time_limits.met) / total if time_limits.checked else share)
    counts = Counter([call.tool for call in calls]) if trajectory.has_count_limits else {}
    for met, message in _count_requirements(trajectory, counts):
        requirements.append(float(met))
        (hits if met else misses).append(message)
    score = sum(requirements) / len(requirements) if requirements else 1.0
    return TrajectoryScore(score, _first_lines(hits), _first_lines(misses), tuple(unknown))


class _TimeLimits(Struct):
    """The numbers of time limits that could be checked and that are met, with lines for hits and misses.

    `unknown` has the tools of calls without a recorded time.
    """

    checked: int = 0
    met: int = 0
    hits: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


_NO_TIME_LIMITS = _TimeLimits()


def _check_time_limits(limits: Mapping[int, float], calls: Sequence[ToolCall], comparison: _Comparison) -> _TimeLimits:
    """Compare the time of each matched call with its limit; the limit of a missing call is not met.

    `limits` are in milliseconds, by the index of the expected call.
    """
    time_limits = _TimeLimits()
    matched = comparison.matched_calls()
    for index, limit_ms in limits.items():
        durations = [(calls[each], calls[each].duration_ms) for each in matched.get(index, ())]
        if any(took is None for _, took in durations):
            time_limits.unknown += [call.tool for call, took in durations if took is None]
            continue
        time_limits.checked += 1
        within = [took is not None and took <= limit_ms for _, took in durations]
        time_limits.met += bool(within) and all(within)
        for (call, took), is_within in zip(durations, within, strict=True):
            text = f"{call.tool} took {took:g} ms (maximum: {limit_ms:g} ms)"
            (time_limits.hits if is_within else time_limits.misses).append(text)
    return time_limits


def score_counts(trajectory: Trajectory, counts: Mapping[str, int]) -> TrajectoryScore:
    """Return the score in mode `any_order` if only the number of calls of each tool is known."""
    requirements = list(_count_requirements(trajectory, counts))
    return TrajectoryScore(
        score=sum(met for met, _ in requirements) / len(requirements) if requirements else 1.0,
        hits=_first_lines([message for met, message in requirements if met]),
        misses=_first_lines([message for met, message in requirements if not met]),
    )


def _first_lines(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - MAX_LINES
    return (*lines[:MAX_LINES], f"… and {more} more") if more > 0 else tuple(lines)


def _count_requirements(trajectory: Trajectory, counts: Mapping[str, int]) -> Iterator[tuple[bool, str]]:
    for tool, least in (trajectory.minimums or {}).items():
        count = _count(counts, tool)
        yield count >= least, f"{_count_text(tool, count)} (minimum: {least})"
    for tool, most in (trajectory.maximums or {}).items():
        count = _count(counts, tool)
        yield count <= most, f"{_count_text(tool, count)} (maximum: {most})"
    for tool in trajectory.forbidden:
        count = _count(counts, tool)
        yield count == 0, f"{_count_text(tool, count)} (forbidden)"


def _count(counts: Mapping[str, int], pattern: str) -> int:
    return sum(count for name, count in counts.items() if name_matches(pattern, name))


def _count_text(tool: str, count: int) -> str:
    return f"{tool} called {count} time{'' if count == 1 else 's'}"


def _compare(trajectory: Trajectory, calls: Sequence[ToolCall]) -> _Comparison:
    match trajectory.mode:
        case "exact":
            return _compare_exact(trajectory.expected, calls)
        case "in_order":
            return _compare_in_order(trajectory.expected, calls)
        case _:
            return _compare_unordered(trajectory, calls)


def _compare_exact(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> _Comparison:
    hits: list[str] = []
    misses: list[str] = []
    for position, (expectation, call) in enumerate(zip_longest(expected, calls), start=1):
        if expectation is not None and call is not None and expectation.matches(call):
            hits.append(f"{call.tool} called at position {position}")
        else:
            expected_text, actual_text = _expected_text(expectation), _actual_text(expectation, call)
            misses.append(f"Expected {expected_text} at position {position}, found {actual_text}")
    return _Comparison(
        not misses,
        share=partial(common_share, expected, calls),
        hits=hits,
        misses=misses,
        matched_calls=lambda: {
            index: (index,)
            for index, (each, call) in enumerate(zip(expected, calls, strict=False))
            if each.matches(call)
        },
    )


def _actual_text(expectation: ExpectedCall | None, call: ToolCall | None) -> str:
    if call is None:
        return "nothing"
    if expectation is None or not expectation.matches_name(call):
        return call.tool
    return call.tool if expectation.input is None else f"{call.tool} with {_arguments_text(call.input)}"


def _expected_text(expectation: ExpectedCall | None) -> str:
    """Return an expected call as text, with its arguments if they count."""
    if expectation is None:
        return "nothing"
    if expectation.input is None or expectation.args == "ignore":
        return expectation.tool
    return f"{expectation.tool} with {_arguments_text(expectation.input)}"


def _arguments_text(arguments: JsonValue) -> str:
    try:
        text = compact_json(arguments)
    except RecursionError:
        return "an input nested too deep to show"
    return text if len(text) <= _MAX_INPUT_CHARS else f"{text[:_MAX_INPUT_CHARS]}…"


def _compare_in_order(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> _Comparison:
    hits: list[str] = []
    misses: list[str] = []
    following = 0
    after = ""
    found: list[int | None] = []
    for position, expectation in enumerate(expected, start=1):
        index = next((each for each in range(following, len(calls)) if expectation.matches(calls[each])), None)
        found.append(index)
        if index is None:
            actual = _elsewhere(expectation, calls, after)
            misses.append(f"Expected {_expected_text(expectation)} at position {position}, found {actual}")
            continue
        following, after = index + 1, calls[index].tool
        hits.append(f"{after} called at position {following}")
    return _Comparison(
        not misses,
        share=partial(common_share, expected, calls),
        hits=hits,
        misses=misses,
        matched_calls=partial(_pairs, found),
    )


def _pairs(found: Sequence[int | None]) -> dict[int, Sequence[int]]:
    """Return the matching call of each expected call that has one; `found` has its index, None without a match."""
    return {number: (index,) for number, index in enumerate(found) if index is not None}


def _elsewhere(expectation: ExpectedCall, calls: Sequence[ToolCall], after: str) -> str:
    """Describe where a call was made that is missing at its position."""
    if any(expectation.matches(call) for call in calls):
        return f"it only before {after}"
    return _similar(expectation, calls)


def _similar(expectation: ExpectedCall, calls: Sequence[ToolCall]) -> str:
    """Describe a call of the expected tool with other arguments."""
    similar = next((call for call in calls if expectation.matches_name(call)), None)
    return "no such call" if similar is None else _actual_text(expectation, similar)


def _compare_unordered(trajectory: Trajectory, calls: Sequence[ToolCall]) -> _Comparison:
    """Pair expected calls with actual ones in any order; `subset` allows fewer calls, `superset` more."""
    pairs = best_pairing(trajectory.expected, calls)
    taken = set(pairs.values())
    unpaired = [each for index, each in enumerate(trajectory.expected) if index not in pairs]
    free = [call for index, call in enumerate(calls) if index not in taken]
    absent = [f"Expected {_expected_text(each)}, found {_similar(each, free)}" for each in unpaired]
    extra = [f"Expected no further call, found {call.tool}" for call in free]
    misses = (absent if trajectory.mode != "subset" else []) + (extra if trajectory.mode != "superset" else [])
    longer = max(len(trajectory.expected), len(calls))
    hits = [f"{calls[index].tool} called at position {index + 1}" for index in sorted(taken)]
    return _Comparison(
        not misses,
        share=lambda: len(pairs) / longer if longer else 1.0,
        hits=hits,
        misses=misses,
        matched_calls=lambda: {index: (call_index,) for index, call_index in pairs.items()},
    )


def _compare_matched_share(trajectory: Trajectory, calls: Sequence[ToolCall]) -> _Comparison:
    """Compare by the share of expected calls that are matched; further calls do not count.

    In mode `subset` it is the share of actual calls that an expected call allows; each allows any number of calls.
    """
    match trajectory.mode:
        case "subset":
            return _compare_allowed(trajectory.expected, calls)
        case "exact":
            found: Sequence[int | None] = [
                index if index < len(calls) and each.matches(calls[index]) else None
                for index, each in enumerate(trajectory.expected)
            ]
        case "in_order":
            found = _first_matches(trajectory.expected, calls)
        case _:
            found = _greedy_matches(trajectory.expected, calls)
    hits = [f"{calls[index].tool} called at position {index + 1}" for index in found if index is not None]
    misses = [
        f"Expected {each.tool} at position {position}, found {_actual_instead(trajectory.mode, each, position, calls)}"
        for position, (each, index) in enumerate(zip(trajectory.expected, found, strict=True), start=1)
        if index is None
    ]
    share = len(hits) / len(found) if found else 1.0
    return _Comparison(
        not misses,
        share=lambda: share,
        hits=hits,
        misses=misses,
        matched_calls=partial(_pairs, found),
    )


def _actual_instead(mode: Mode, expectation: ExpectedCall, position: int, calls: Sequence[ToolCall]) -> str:
    if mode == "exact":
        return _actual_text(expectation, calls[position - 1] if position <= len(calls) else None)
    if any(expectation.matches(call) for call in calls):
        return "it only out of order" if mode == "in_order" else "no further call of it"
    return _similar(expectation, calls)


def _first_matches(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> list[int | None]:
    """Return for each expectation, in order, the index of the next call of its tool; None if its input differs."""
    found: list[int | None] = []
    following = 0
    for expectation in expected:
        named = (index for index in range(following, len(calls)) if expectation.matches_name(calls[index]))
        index = next(named, None)
        following = len(calls) if index is None else index + 1
        found.append(index if index is not None and expectation.matches(calls[index]) else None)
    return found


def _greedy_matches(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> list[int | None]:
    """Return for each expectation the index of the first matching call that is not taken yet, in any order."""
    taken: set[int] = set()
    found: list[int | None] = []
    for expectation in expected:
        free = (index for index, call in enumerate(calls) if index not in taken and expectation.matches(call))
        index = next(free, None)
        taken |= set() if index is None else {index}
        found.append(index)
    return found


def _compare_allowed(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> _Comparison:
    allowed = [any(expectation.matches(call) for expectation in expected) for call in calls]
    hits = [f"{call.tool} called at position {index + 1}" for index, call in enumerate(calls) if allowed[index]]
    misses = [f"Expected no further call, found {call.tool}" for index, call in enumerate(calls) if not allowed[index]]
    share = sum(allowed) / len(allowed) if allowed else 1.0

    def matched_calls() -> dict[int, list[int]]:
        return {
            number: [index for index, call in enumerate(calls) if expectation.matches(call)]
            for number, expectation in enumerate(expected)
            if expectation.max_duration_ms is not None
        }

    return _Comparison(not misses, share=lambda: share, hits=hits, misses=misses, matched_calls=matched_calls)
