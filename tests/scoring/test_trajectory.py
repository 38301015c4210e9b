from collections import Counter
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.scoring.tools.tool_calls import ExpectedCall, json_equal
from agentv.scoring.tools.trajectory import (
    MAX_LINES,
    Mode,
    Scoring,
    Trajectory,
    best_pairing,
    common_share,
    score_trajectory,
)
from agentv.types.json_value import JsonValue
from agentv.types.messages import ToolCall

TOOLS = st.lists(st.sampled_from("ABCD"), max_size=6)


def calls(names: str | list[str]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name) for name in names)


def expecting(mode: Mode, names: str | list[str], *, partial: bool = False) -> Trajectory:
    return Trajectory(mode, tuple(ExpectedCall(name) for name in names), scoring="partial" if partial else "strict")


def is_subsequence(wanted: list[str], made: list[str]) -> bool:
    return any(list(each) == wanted for each in combinations(made, len(wanted)))


@given(TOOLS, TOOLS)
def test_in_order_asks_for_a_subsequence(wanted: list[str], made: list[str]) -> None:
    score = score_trajectory(expecting("in_order", wanted), calls(made))
    assert score.score == float(is_subsequence(wanted, made))
    assert bool(score.misses) is not bool(score.score)


@given(TOOLS, TOOLS)
def test_exact_asks_for_the_same_list(wanted: list[str], made: list[str]) -> None:
    score = score_trajectory(expecting("exact", wanted), calls(made))
    assert score.score == float(wanted == made)
    assert bool(score.misses) is not bool(score.score)


@given(TOOLS, TOOLS)
def test_the_other_modes_compare_multisets(wanted: list[str], made: list[str]) -> None:
    ours, theirs = Counter(wanted), Counter(made)
    holds = {"unordered": ours == theirs, "subset": theirs <= ours, "superset": ours <= theirs}
    for mode in ("unordered", "subset", "superset"):
        assert score_trajectory(expecting(mode, wanted), calls(made)).score == float(holds[mode])


@given(TOOLS, TOOLS)
def test_partial_order_is_the_common_subsequence_of_the_longer_list(wanted: list[str], made: list[str]) -> None:
    longest = max(
        length
        for length in range(len(wanted) + 1)
        for each in combinations(wanted, length)
        if is_subsequence(list(each), made)
    )
    longer = max(len(wanted), len(made))
    assert common_share([ExpectedCall(name) for name in wanted], calls(made)) == (longest / longer if longer else 1.0)


EXPECTED = st.builds(
    ExpectedCall, st.sampled_from(["A", "B", "*", "[AB]"]), st.sampled_from([None, {"x": 1}, {"x": 2}, {}])
)
MADE = st.builds(ToolCall, st.sampled_from("ABC"), st.sampled_from([None, {"x": 1}, {"x": 2}]))


@given(st.lists(EXPECTED, max_size=12), st.lists(MADE, max_size=80))
def test_the_longest_common_subsequence_is_that_of_the_usual_table(
    expected: list[ExpectedCall], made: list[ToolCall]
) -> None:
    table = [[0] * (len(made) + 1) for _ in range(len(expected) + 1)]
    for row, each in enumerate(expected):
        for column, call in enumerate(made):
            longest = max(table[row][column + 1], table[row + 1][column])
            table[row + 1][column + 1] = table[row][column] + 1 if each.matches(call) else longest
    longer = max(len(expected), len(made))
    assert common_share(expected, made) == (table[-1][-1] / longer if longer else 1.0)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["A", "B", "*", "[AB]"]), max_size=4), st.lists(st.sampled_from("ABC"), max_size=4))
def test_pairs_are_as_many_as_there_can_be(wanted: list[str], made: list[str]) -> None:
    expected = [ExpectedCall(name) for name in wanted]
    # Padded with calls that match nothing, so that every expectation can be paired with one.
    padded = calls([*made, *["none" for _ in wanted]])
    best = max(
        sum(each.matches(call) for each, call in zip(expected, tried, strict=True) if call.tool != "none")
        for tried in permutations(padded, len(expected))
    )
    assert len(best_pairing(expected, calls(made))) == best


def test_first_come_first_served_would_miss_a_pairing() -> None:
    expected = [ExpectedCall("*"), ExpectedCall("A")]
    made = calls("AB")
    taken: set[int] = set()
    for each in expected:
        taken |= set(next(([i] for i, call in enumerate(made) if i not in taken and each.matches(call)), []))
    assert len(taken) == 1
    assert len(best_pairing(expected, made)) == 2


@pytest.mark.parametrize(
    ("count", "score", "message"),
    [
        (3, 1.0, "semanticSearch called 3 times (minimum: 3)"),
        (1, 0.0, "semanticSearch called 1 time (minimum: 3)"),
        (0, 0.0, "semanticSearch called 0 times (minimum: 3)"),
    ],
)
def test_minimums_say_how_often_a_tool_was_called(count: int, score: float, message: str) -> None:
    scored = score_trajectory(
        Trajectory("any_order", minimums={"semanticSearch": 3}), calls(["semanticSearch"] * count)
    )
    assert scored.score == score
    assert (scored.hits if score else scored.misses) == (message,)


def test_all_demands_on_counts_share_the_score() -> None:
    wanted = Trajectory("any_order", minimums={"A": 1, "B": 2}, maximums={"A": 1}, forbidden=("delete*",))
    scored = score_trajectory(wanted, calls(["A", "A", "B", "delete_all"]))
    assert scored.score == 0.25
    assert scored.hits == ("A called 2 times (minimum: 1)",)
    assert scored.misses == (
        "B called 1 time (minimum: 2)",
        "A called 2 times (maximum: 1)",
        "delete* called 1 time (forbidden)",
    )


def test_counts_of_a_glob_add_up() -> None:
    scored = score_trajectory(Trajectory("any_order", minimums={"search_*": 2}), calls(["search_web", "search_docs"]))
    assert scored.score == 1.0


def test_a_sequence_and_demands_on_counts_share_the_score() -> None:
    wanted = Trajectory("in_order", (ExpectedCall("A"),), forbidden=("B",))
    assert score_trajectory(wanted, calls("AB")).score == 0.5


@pytest.mark.parametrize(
    ("mode", "wanted", "made", "misses"),
    [
        ("exact", "AB", "AC", ("Expected B at position 2, found C",)),
        ("exact", "AB", "ABC", ("Expected nothing at position 3, found C",)),
        ("exact", "ABC", "AB", ("Expected C at position 3, found nothing",)),
        ("in_order", "AB", "BA", ("Expected B at position 2, found it only before A",)),
        ("in_order", "AB", "AA", ("Expected B at position 2, found no such call",)),
        ("unordered", "AB", "AC", ("Expected B, found no such call", "Expected no further call, found C")),
        ("subset", "AB", "AC", ("Expected no further call, found C",)),
        ("superset", "AB", "AC", ("Expected B, found no such call",)),
    ],
)
def test_misses_explain_the_mismatch(mode: Mode, wanted: str, made: str, misses: tuple[str, ...]) -> None:
    assert score_trajectory(expecting(mode, wanted), calls(made)).misses == misses


@pytest.mark.parametrize(
    ("mode", "wanted", "made", "misses"),
    [
        ("in_order", "BA", "AB", ("Expected A at position 2, found it only out of order",)),
        ("superset", "AA", "A", ("Expected A at position 2, found no further call of it",)),
        ("superset", "AB", "A", ("Expected B at position 2, found no such call",)),
    ],
)
def test_misses_explain_an_unmatched_expectation(mode: Mode, wanted: str, made: str, misses: tuple[str, ...]) -> None:
    expected = tuple(map(ExpectedCall, wanted))
    assert score_trajectory(Trajectory(mode, expected, scoring="matched"), calls(made)).misses == misses


def test_extra_calls_between_expected_ones_are_allowed_in_order() -> None:
    scored = score_trajectory(expecting("in_order", "ABC"), calls("AXBYC"))
    assert scored.score == 1.0
    assert scored.hits == ("A called at position 1", "B called at position 3", "C called at position 5")


def test_partial_scores_tell_how_much_is_there() -> None:
    assert score_trajectory(expecting("in_order", "ABC", partial=True), calls("AXBYC")).score == pytest.approx(0.6)
    assert score_trajectory(expecting("exact", "AB", partial=True), calls("BA")).score == 0.5
    assert score_trajectory(expecting("unordered", "AB", partial=True), calls("BA")).score == 1.0


def test_a_long_list_of_misses_is_cut() -> None:
    scored = score_trajectory(expecting("exact", "A"), calls(["B"] * 1000))
    assert len(scored.misses) == MAX_LINES + 1
    assert scored.misses[-1] == "… and 950 more"


@pytest.mark.parametrize(
    ("args", "wanted", "got", "fits"),
    [
        ("exact", {"id": 7}, {"id": 7}, True),
        ("exact", {"id": 7}, {"id": 7.0}, True),
        ("exact", {"id": 1}, {"id": True}, False),
        ("exact", {"id": 7}, {"id": 7, "x": 1}, False),
        ("exact", {}, None, True),
        ("subset", {"id": 7}, {"id": 7, "x": 1}, True),
        ("subset", {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ("subset", {"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, True),
        ("subset", {"a": [1]}, {"a": [1, 2]}, False),
        ("subset", {"id": 7}, {"id": 8}, False),
        ("ignore", {"id": 7}, {"other": 1}, True),
        ({"note": "ignore"}, {"id": 7, "note": "x"}, {"id": 7, "note": "y"}, True),
        ({"note": "ignore"}, {"id": 7}, {"id": 7, "note": "y"}, True),
        ({"note": "ignore"}, {"id": 7}, {"id": 8}, False),
        ({"a": "subset"}, {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"b": "ignore"}}, {"a": {"b": 1, "c": 2}}, {"a": {"b": 9, "c": 2}}, True),
        ("exact", "text", "text", True),
        ("subset", None, {"anything": 1}, True),
        ({"id": 7}, None, {"id": 7, "more": 1}, True),
        ({"id": 7}, None, {"id": 8}, False),
    ],
)
def test_inputs_are_compared_by_their_matcher(args: JsonValue, wanted: JsonValue, got: JsonValue, fits: bool) -> None:
    assert ExpectedCall("t", wanted, args).matches(ToolCall("t", got)) is fits  # type: ignore[arg-type]  # as from YAML


def test_a_call_with_another_input_is_shown() -> None:
    wanted = Trajectory("exact", (ExpectedCall("lookup", {"id": 7}),))
    scored = score_trajectory(wanted, (ToolCall("lookup", {"id": 8}),))
    assert scored.misses == ('Expected lookup with {"id":7} at position 1, found lookup with {"id":8}',)


@pytest.mark.parametrize("args", ["fuzzy", {"a": "fuzzy"}, {"a": {"b": 3}}])
def test_an_unknown_matcher_is_refused(args: JsonValue) -> None:
    with pytest.raises(ValueError, match="unknown matcher"):
        ExpectedCall("t", {}, args)  # type: ignore[arg-type]  # as from YAML


@pytest.mark.parametrize(
    ("left", "right", "same"), [(1, 1.0, True), (1, True, False), ([1], (1,), True), ({}, [], False)]
)
def test_json_equality_knows_types(left: JsonValue, right: JsonValue, same: bool) -> None:
    assert json_equal(left, right) is same


FAST, SLOW, UNKNOWN = ToolCall("a", duration_ms=4.0), ToolCall("a", duration_ms=9.5), ToolCall("a")
LIMITED = ExpectedCall("a", max_duration_ms=5)


@pytest.mark.parametrize("mode", ["exact", "in_order", "unordered", "superset", "subset"])
@pytest.mark.parametrize("scoring", ["strict", "partial", "matched"])
def test_a_limit_on_the_time_of_a_call_is_one_more_check(mode: Mode, scoring: Scoring) -> None:
    wanted = Trajectory(mode, expected=(LIMITED,), scoring=scoring)
    fast, slow, unknown = (score_trajectory(wanted, [call]) for call in (FAST, SLOW, UNKNOWN))
    assert (fast.score, slow.score, unknown.score) == (1.0, 0.0 if scoring == "strict" else 0.5, 1.0)
    assert "a took 4 ms (maximum: 5 ms)" in fast.hits
    assert "a took 9.5 ms (maximum: 5 ms)" in slow.misses
    assert (fast.unknown, slow.unknown, unknown.unknown) == ((), (), ("a",))


def test_the_limit_of_a_call_that_is_missing_is_not_met() -> None:
    wanted = Trajectory("in_order", expected=(ExpectedCall("b"), LIMITED), scoring="matched")
    assert score_trajectory(wanted, [ToolCall("b")]).score == pytest.approx(1 / 3)
