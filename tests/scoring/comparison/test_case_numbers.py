"""Cases as numbers: what is stored in arrays is read back as it was given."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.rows import make_row

from agentv.scoring.comparison.case_numbers import CaseIndexes, CaseKeys, CaseNumbers
from agentv.scoring.comparison.pairs import Pair, align
from agentv.scoring.comparison.sides import Side, scored_row
from agentv.types.results import CaseName

names = st.tuples(st.sampled_from("st"), st.text(max_size=3), st.none() | st.sampled_from("pq"))


@given(st.lists(names))
def test_a_case_has_one_number_and_a_number_one_case(given_names: list[tuple[str, str, str | None]]) -> None:
    numbers = CaseNumbers()
    found = [numbers.add(*name) for name in given_names]
    assert [numbers.parts(number) for number in found] == given_names
    assert [numbers.find(*name) for name in given_names] == found
    assert sorted(set(found)) == list(range(len(set(given_names))))
    assert numbers.find("another suite", "a", None) is None


@given(st.dictionaries(st.tuples(st.integers(0, 300), st.integers(0, 3)), st.integers(0, 2**32 - 2)))
def test_indexes_are_found_by_case_and_target(indexes: dict[tuple[int, int], int]) -> None:
    table = CaseIndexes()
    for (case, target), index in indexes.items():
        table.set(case, target, index)
    for case in range(301):
        for target in range(4):
            assert table.get(case, target) == indexes.get((case, target))


keys = st.binary(min_size=32, max_size=32).map(lambda digest: f"v1:{digest.hex()}") | st.text(max_size=5)


@given(st.lists(st.tuples(st.integers(0, 20), keys)))
def test_keys_are_as_they_were_given(given_keys: list[tuple[int, str]]) -> None:
    stored = CaseKeys()
    for number, key in given_keys:
        stored.set(number, key)
    known = dict(given_keys)
    no_digest = f"v1:{bytes(32).hex()}"
    for number in range(21):
        expected = known.get(number)
        assert stored.get(number) == (None if expected == no_digest else expected)


def side_of(numbers: CaseNumbers | None, *cases: tuple[str, str]) -> Side:
    side = Side("run", numbers=numbers)
    for eval_id, target in cases:
        side.add(scored_row(make_row(eval_id, target=target)))
    return side


def test_sides_are_paired_alike_with_and_without_common_numbers() -> None:
    numbers = CaseNumbers()
    before = [("a", "t"), ("a", "u"), ("b", "t"), ("c", "t")]
    after = [("c", "t"), ("a", "t"), ("d", "t"), ("b", "u")]
    for first, second in ((None, None), (numbers, numbers)):
        found = align(side_of(first, *before), side_of(second, *after))
        suite = found.pairs[0].before.suite
        assert list(found.pairs) == [Pair(CaseName(suite, name, "t"), CaseName(suite, name, "t")) for name in "ac"]
        assert [(each.eval_id, each.target) for each in found.only_before] == [("a", "u"), ("b", "t")]
        assert [(each.eval_id, each.target) for each in found.only_after] == [("d", "t"), ("b", "u")]
        assert list(found.pairs.select([1])) == list(found.pairs[1:])


def test_targets_of_a_case_share_its_number() -> None:
    before = side_of(None, ("a", "t"), ("b", "t"), ("a", "u"))
    assert list(align(before, before).pairs.case_numbers()) == [0, 1, 0]
    single = side_of(None, ("a", "t"), ("b", "t"))
    assert list(align(single, single).pairs.case_numbers()) == [0, 1]
