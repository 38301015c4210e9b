"""The agent under test: it answers as well as its model, its prompt and its release let it, the same in every run."""

import random
import time
from pathlib import Path
from typing import Any

import yaml

from agentv import ProviderRequest

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "answers.yaml").read_text("utf-8"))
RELEASE = int((HERE / "release.txt").read_text("utf-8"))
SKILLS = {"small": 0.62, "large": 0.93}
LOST_IN_RELEASE_6 = "returns"


def small(request: ProviderRequest) -> dict[str, Any]:
    """Answer as a small model."""
    return _answer("small", request)


def large(request: ProviderRequest) -> dict[str, Any]:
    """Answer as a large model."""
    return _answer("large", request)


def _answer(model: str, request: ProviderRequest) -> dict[str, Any]:
    case = CASES[request.eval_case_id]
    is_careful = request.prompt == "careful"
    chance = random.Random(f"{model} {request.prompt} {request.eval_case_id} {request.trial}")
    time.sleep(chance.uniform(0.004, 0.01) * (3 if model == "large" else 1))
    skill = SKILLS[model] + 0.12 * is_careful + 0.02 * (RELEASE - 5)
    if RELEASE == 6 and case["topic"] == LOST_IN_RELEASE_6:
        skill -= 0.55 if model == "small" else 0.25
    # Most of what decides is the case itself, so that its trials are alike.
    is_right = 0.75 * random.Random(request.eval_case_id).random() + 0.25 * chance.random() < skill
    text = case["right" if is_right else "wrong"] + (f" {case['after']}" if is_right and is_careful else "")
    calls = [dict(zip(("tool", "input", "output"), call, strict=True)) for call in case["tools"]]
    calls = calls if is_right else calls[:1] if is_careful else []
    looked_up = [{"role": "assistant", "content": "Let me look that up.", "tool_calls": calls}] if calls else []
    usage = {"input": 420 + 180 * len(calls), "output": len(text) // 4}
    price = 8.0 if model == "large" else 0.6
    return {
        "text": text,
        "output_messages": [*looked_up, {"role": "assistant", "content": text}],
        "usage": usage,
        "cost_usd": price * (usage["input"] + 4 * usage["output"]) / 1_000_000,
    }
