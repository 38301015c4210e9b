"""Keys are the SHA-256 of canonical JSON, however they are computed: they must never change by accident."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.keys.identity import (
    CaseKeys,
    answer_key,
    case_key,
    expectation_key,
    keys_of,
    question_key,
    score_key,
)
from agentv.types.cases import EvalCase
from agentv.types.messages import Message, ToolCall
from agentv.types.scales import EvaluationCriteria

ANY_TEXT = st.text(st.characters(blacklist_categories=()))


def sha256(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_the_key_of_a_case_of_texts_is_that_of_its_canonical_json(case_id: str, text: str, expected: str) -> None:
    case = EvalCase(case_id, (Message("user", text),), expected_outcome=expected)
    messages = [{"role": "user", "content": text}]
    assert question_key(case) == sha256({"id": case_id, "messages": messages, "files": []})
    assert expectation_key(case, ()) == sha256([expected, [], []])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_written_as_python_writes_them(number: float) -> None:
    call = ToolCall("pay", {"amount": number})
    case = EvalCase(
        "a", (Message("user", "hi", metadata={"at": number}), Message("assistant", "ok", tool_calls=(call,)))
    )
    said = [
        {"role": "user", "content": "hi", "metadata": {"at": number}},
        {"role": "assistant", "content": "ok", "tool_calls": [{"tool": "pay", "input": {"amount": number}}]},
    ]
    assert question_key(case) == sha256({"id": "a", "messages": said, "files": []})
    criterion = EvaluationCriteria("tone", weight=number)
    described = {"name": "tone", "description": "", "scale": "binary", "weight": number}
    assert expectation_key(case, (criterion,)) == sha256(["", [], [described]])


@given(st.integers(0, 99))
def test_keys_made_of_keys_are_those_of_their_canonical_json(trial: int) -> None:
    keys = keys_of(EvalCase("a", (Message("user", "hi"),)), ())
    assert answer_key(keys.question, "t", trial) == f"v1:{sha256([keys.question, 't', trial])}"
    key = score_key(answer="v1:aa", expectation="bb", setup_digest="cc")
    assert key == f"v1:{sha256(['v1:aa', 'bb', 'cc'])}"
    assert case_key(CaseKeys("aa", "bb"), '["x"]') == f"v1:{sha256(['aa', 'bb', ['x']])}"
