"""Costs and token counts that cannot be one are unknown, wherever they come from."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentv.messages.shapes.usages import read_usage
from agentv.types.provider import EmbeddingResponse, ProviderResponse
from agentv.types.stored import known_duration, to_ms
from agentv.types.usage import COST_NOTE, MAX_TOKENS, NO_COST, USAGE_NOTE, Usage, known_cost, known_usage, read_cost

NOT_COSTS: list[Any] = [-5, -1e-9, 1.1e9, float("nan"), float("inf"), float("-inf"), 10**400, Decimal(-1)]
NOT_COUNTS: list[Any] = [-1, 10**400, MAX_TOKENS + 1, 1.5, float("nan"), float("inf")]


@pytest.mark.parametrize("cost", NOT_COSTS, ids=lambda cost: str(cost)[:9])
def test_a_number_that_cannot_be_a_cost_is_unknown(cost: Any) -> None:
    assert (known_cost(cost), read_cost(cost)) == (None, NO_COST)
    for response in (ProviderResponse("x", cost_usd=cost), EmbeddingResponse((), cost_usd=cost)):
        assert (response.cost_usd, response.notes) == (None, (COST_NOTE,))
        assert replace(response, usage=None).notes == (COST_NOTE,)


@pytest.mark.parametrize("count", NOT_COUNTS, ids=lambda count: str(count)[:9])
@pytest.mark.parametrize("name", Usage.__struct_fields__)
def test_a_usage_with_a_number_that_cannot_be_a_count_is_unknown(name: str, count: Any) -> None:
    usage = replace(Usage(input=3, output=4, total=7), **{name: count})
    assert known_usage(usage) is None
    response = ProviderResponse("x", usage=usage, cost_usd=0.5)
    assert (response.usage, response.cost_usd, response.notes) == (None, 0.5, (USAGE_NOTE,))


@given(st.floats(0, 1e9), st.integers(0, MAX_TOKENS))
def test_every_other_amount_is_kept(cost: float, count: int) -> None:
    usage = Usage(input=count, total=count)
    response = ProviderResponse("x", usage=usage, cost_usd=cost)
    assert (response.usage, response.cost_usd, response.notes) == (usage, cost, ())


@pytest.mark.parametrize(
    "usage",
    [
        {"input": -5, "output": 9},
        {"prompt_tokens": 10**400, "completion_tokens": 1},
        {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": -4},
        {"input": 10**400},
        [{"input": 5, "output": 5}, {"input": -3, "output": 5}],
    ],
)
def test_a_wrong_count_makes_what_was_read_unknown_and_not_smaller(usage: Any) -> None:
    assert known_usage(read_usage(usage)) is None
    assert ProviderResponse("x", usage=read_usage(usage)).notes == (USAGE_NOTE,)


@pytest.mark.parametrize(("seconds", "stored"), [(-1.0, 0.0), (0.0015, 1.5), (1e300, 1e12)])
def test_a_duration_by_a_clock_that_was_set_back_can_be_read_again(seconds: float, stored: float) -> None:
    assert to_ms(seconds) == stored
    assert known_duration(to_ms(seconds)) == stored
