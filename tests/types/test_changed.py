"""Changed copies of what is copied with every call: the same as those of `dataclasses.replace`."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stored import make_answer

from agentv.types.cases import EvalCase
from agentv.types.changed import changed, numbered
from agentv.types.provider import ProviderRequest, ProviderResponse

TEXTS = st.none() | st.text()


@given(TEXTS, TEXTS, st.integers())
def test_a_changed_copy_is_the_one_that_replace_makes(model: str | None, workspace: str | None, attempt: int) -> None:
    request = ProviderRequest("?", eval_case_id="a", attempt=attempt, workspace=workspace)
    assert changed(request, model=model) == replace(request, model=model)
    assert changed(request, workspace="w", attempt=1) == replace(request, workspace="w", attempt=1)
    assert changed(request) == request


def test_what_a_class_does_to_its_fields_is_done_to_the_copy() -> None:
    case = EvalCase("a", "What?")  # type: ignore[arg-type] # a text becomes a message
    assert changed(case, tags=["smoke"]).tags == ("smoke",)
    assert changed(case, tags=["smoke"]).input_messages is case.input_messages


def test_what_has_no_number_gets_one_and_what_has_one_is_copied() -> None:
    answer = make_answer()
    assert numbered(answer, 3) is answer
    assert numbered(answer, 0) == make_answer(seq=0)
    assert answer == make_answer(seq=3)


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="txet"):
        changed(ProviderResponse("hi"), txet="ho")
