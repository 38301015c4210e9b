"""A code judge: the answer must quote what the search returned."""

from collections.abc import Mapping
from typing import Any


def judge(case: Mapping[str, Any]) -> dict[str, object]:
    """Compare the answer with everything that the agent's tools returned."""
    calls = [call for message in case["output_messages"] or [] for call in message.get("tool_calls", [])]
    found = [call["output"]["text"] for call in calls]
    if any(text and text in case["candidate_answer"] for text in found):
        return {"score": 1.0, "hits": ["the answer quotes what was found"]}
    return {"score": 0.0, "misses": ["the answer quotes nothing that was found"]}
