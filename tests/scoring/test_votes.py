import pytest

from agentv.scoring.results.folding import Vote, combine, spread


@pytest.mark.parametrize(("vote", "value"), [("mean", 0.6), ("median", 0.8), ("min", 0.1), ("majority", 1.0)])
def test_opinions_become_one(vote: Vote, value: float) -> None:
    assert combine([0.9, 0.8, 0.1], vote) == pytest.approx(value)


def test_half_of_the_votes_is_no_majority() -> None:
    assert combine([1.0, 0.0], "majority") == 0.0


def test_the_spread_of_opinions_is_reported() -> None:
    assert spread([1.0, 0.0]) == {"values": [1.0, 0.0], "min": 0.0, "max": 1.0, "stdev": 0.5}
