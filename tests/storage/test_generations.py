"""Of each result key the highest generation counts, and a million repeated results fit into memory."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.run.stored import Generations
from agentv.types.records.answer import ResultKey

slots = st.builds(ResultKey, st.just("s"), st.sampled_from(["a", "b"]), st.just("t"), st.integers(0, 1))


@given(st.lists(st.tuples(slots, st.integers(0, 3))))
def test_the_highest_generation_of_each_slot_is_known(rows: list[tuple[ResultKey, int]]) -> None:
    generations, highest = Generations(), dict[ResultKey, int]()
    for slot, generation in rows:
        assert generations.of(slot) == highest.get(slot, 0)
        assert generations.add(slot, generation) is (generation >= highest.get(slot, 0))
        highest[slot] = max(generation, highest.get(slot, 0))
    assert generations.are_all_first is not any(highest.values())


def test_a_slot_that_was_done_again_costs_sixteen_bytes_at_most() -> None:
    generations = Generations()
    tracemalloc.start()
    try:
        for number in range(100_000):
            generations.add(ResultKey("suite", f"case-{number}", "target"), 1)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown / 100_000 < 16
