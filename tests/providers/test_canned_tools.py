"""Answers of tools that are not there: as written, or made by a function."""

import asyncio
from pathlib import Path

import pytest

from agentv.providers.apis.model_provider import CannedTools
from agentv.types.json_value import JsonValue
from agentv.types.messages import ToolCall


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("sent", "sent"),
        ({"status": ["sent"]}, {"status": ["sent"]}),
        ("python:tools.py:double", 14),
        ({"python": "tools.py:double"}, 14),
        ({"python": "tools.py:double", "more": 1}, {"python": "tools.py:double", "more": 1}),
    ],
)
def test_a_tool_answers_what_is_written_or_what_the_function_returns(
    tmp_path: Path, written: JsonValue, given: JsonValue
) -> None:
    (tmp_path / "tools.py").write_text("def double(given):\n    return 2 * given['order']\n")
    tools = CannedTools({"lookup": written}, str(tmp_path))
    (answered,) = asyncio.run(tools.answer([ToolCall("lookup", {"order": 7})], timeout_s=5))
    assert answered.output == given
