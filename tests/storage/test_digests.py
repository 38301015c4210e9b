"""The set of digests answers as a set does, in a few bytes a key."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.digests import DigestSet


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


def _size(digests: DigestSet) -> int:
    return sum(map(sys.getsizeof, digests._buckets))
