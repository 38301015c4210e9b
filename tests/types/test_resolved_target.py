"""A resolved target: its judge, also under the former name."""

from typing import Any

import pytest

from agentv import ResolvedTarget
from agentv.scoring.keys.request_key import answer_settings


def test_the_judge_is_also_known_by_its_former_name() -> None:
    former: dict[str, Any] = {"judge_target": "strict"}
    with pytest.warns(DeprecationWarning, match="use judge"):
        target = ResolvedTarget("t", "mock", None, **former)
    assert target == ResolvedTarget("t", "mock", None, judge="strict")
    with pytest.warns(DeprecationWarning, match="use judge"):
        assert target.judge_target == "strict"


@pytest.mark.parametrize("word", ["judge", "judge_target", "judgeTarget"])
def test_answers_do_not_depend_on_the_judge(word: str) -> None:
    assert answer_settings({word: "strict", "model": "m"}) == {"model": "m"}
