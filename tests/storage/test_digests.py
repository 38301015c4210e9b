"""The set and the map of digests answer as a set and a dictionary do, in a few bytes a key."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.digests import DigestMap, DigestSet


@given(st.lists(st.text(max_size=3)))
def test_it_answers_as_a_set_does(keys: list[str]) -> None:
    digests, known = DigestSet(), set[str]()
    for key in keys:
        assert digests.add(key) is (key not in known)
        known.add(key)
    assert len(digests) == len(known)


def test_it_takes_less_than_sixteen_bytes_a_key() -> None:
    digests = DigestSet()
    empty = _size(digests)
    for number in range(50_000):
        digests.add(f"evals/a.yaml\0case-{number}\0v1:abc")
    assert (_size(digests) - empty) / 50_000 < 16


@given(st.lists(st.tuples(st.sampled_from(["put", "pop", "get"]), st.text(max_size=2), st.integers(0, 2**64 - 1))))
def test_the_map_answers_as_a_dictionary_does(steps: list[tuple[str, str, int]]) -> None:
    digests, known = DigestMap(), dict[str, int]()
    for step, key, number in steps:
        if step == "put":
            digests.put(key, number)
            known[key] = number
        elif step == "pop":
            assert digests.pop(key) == known.pop(key, None)
        else:
            assert digests.get(key) == known.get(key)
    assert sorted(digests.numbers()) == sorted(known.values())
    assert len(digests) == len(known)


def _size(digests: DigestSet) -> int:
    return sum(map(sys.getsizeof, digests._buckets))
