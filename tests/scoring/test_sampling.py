"""Sampling of lines: uniform, the same everywhere, and nested when the share grows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.sampling import Sample, make_sample
from agentv.types.errors import ConfigError

LINES = [f"line {number}".encode() for number in range(2000)]


def drawn(share: str, *, seed: int = 0) -> set[bytes]:
    sample = make_sample(share, by=None, seed=seed)
    return {line for line in LINES if sample.includes(sample.hash_of(line))}


def test_a_share_is_as_large_as_it_says() -> None:
    assert 160 <= len(drawn("10%")) <= 240
    assert drawn("100%") == set(LINES)
    assert make_sample("100%", by=None, seed=0).is_all


def test_percent_and_fraction_are_the_same_share() -> None:
    assert drawn("12.5%") == drawn("0.125") == drawn(".125")


def test_a_larger_share_of_one_seed_keeps_what_a_smaller_one_keeps() -> None:
    assert drawn("1%") < drawn("5%") < drawn("50%")


def test_another_seed_draws_others() -> None:
    assert drawn("10%", seed=1) != drawn("10%", seed=2)


def test_the_draw_is_the_same_on_every_machine_and_in_every_version() -> None:
    assert make_sample("1%", by=None, seed=7).hash_of(b"line 1") == 8915563438379262389


@pytest.mark.parametrize("value", ["s-1", 7, {"a": "é"}])
@pytest.mark.parametrize("written", [{"userInfo": {"session_id": 0}}, {"user_info": {"sessionId": 0}}])
def test_a_key_is_found_in_either_spelling(value: Any, written: dict[str, dict[str, Any]]) -> None:
    sample = make_sample("1%", by="user_info.session_id", seed=0)
    filled = {outer: dict.fromkeys(inner, value) for outer, inner in written.items()}
    assert sample.key_of(filled) == make_sample("1%", by="id", seed=0).key_of({"id": value})


@pytest.mark.parametrize("line", [None, 3, "x", [], {}, {"a": None}, {"a": {"c": 1}}, {"a": [1]}])
def test_a_line_without_the_key_has_none(line: Any) -> None:
    assert make_sample("1%", by="a.b", seed=0).key_of(line) is None


@given(st.binary(), st.integers())
def test_every_key_has_a_place(key: bytes, seed: int) -> None:
    assert 0 <= Sample(seed=seed).hash_of(key) < 2**64


@pytest.mark.parametrize("text", ["0", "0%", "-1", "1.5", "101%", "half", "", "1e3", "%", "nan", "\uff11"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--sample"):
        make_sample(text, by=None, seed=0)
