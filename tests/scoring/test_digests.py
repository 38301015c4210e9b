"""The set and the map of digests behave like a set and a dictionary, in a few bytes a key."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.keys.identity import DigestMap, DigestSet

# Halves of surrogate pairs are characters of a str, too.
keys = st.text(st.sampled_from("ab?\ud800\udfff"), max_size=3)


@given(st.lists(keys))
def test_the_set_answers_as_a_set_does(keys: list[str]) -> None:
    digests, known = DigestSet(), set[str]()
    for key in keys:
        assert digests.add(key) is (key not in known)
        known.add(key)
    assert len(digests) == len(known)


@pytest.mark.nightly
def test_a_key_takes_nine_bytes_plus_its_number_in_a_map() -> None:
    digests, verdicts, places = DigestSet(), DigestMap("B"), DigestMap()
    assert _bytes_a_key(digests.add) < 10
    assert _bytes_a_key(lambda key: verdicts.put(key, 1)) < 12
    assert _bytes_a_key(lambda key: places.put(key, 1)) < 19
    assert _bytes_a_key(set[str]().add) > 80


@given(st.lists(st.tuples(st.sampled_from(["put", "setdefault", "pop", "get"]), keys, st.integers(0, 2**64 - 1))))
def test_the_map_answers_as_a_dictionary_does(steps: list[tuple[str, str, int]]) -> None:
    digests, known = DigestMap(), dict[str, int]()
    for step, key, number in steps:
        if step == "put":
            digests.put(key, number)
            known[key] = number
        elif step == "setdefault":
            assert digests.setdefault(key, number) == known.setdefault(key, number)
        elif step == "pop":
            assert digests.pop(key) == known.pop(key, None)
        else:
            assert digests.get(key) == known.get(key)
    assert sorted(digests.numbers()) == sorted(known.values())
    assert len(digests) == len(known)


def _bytes_a_key(add: Callable[[str], object]) -> float:
    """Return the memory of a hundred thousand stored keys."""
    count = 100_000
    tracemalloc.start()
    try:
        for number in range(count):
            add(f"evals/a.yaml\0case-{number}\0v1:abc")
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return grown / count
