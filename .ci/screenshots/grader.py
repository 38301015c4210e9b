"""The judge: it prefers answers that say what happens next, and sometimes lets a wrong one pass."""

import json
import random
import re
from pathlib import Path
from typing import Any

import yaml

from agentv import ProviderRequest

CASES = yaml.safe_load(Path(__file__).with_name("answers.yaml").read_text("utf-8"))


def grade(request: ProviderRequest) -> dict[str, Any]:
    """Return the verdict on an answer as a model would."""
    found = re.search(r"<<<candidate_answer (\w+)>>>\n(.*?)\n<<<end of", request.question, re.DOTALL)
    nonce, answer = found.groups() if found else ("", "")
    case = next(each for each in CASES.values() if answer.startswith((each["right"], each["wrong"])))
    is_lenient = random.Random(answer).random() < 0.15
    if answer.startswith(case["wrong"]) and not is_lenient:
        verdict = {
            "score": 0.3,
            "hits": ["is polite"],
            "misses": [case["missed"]],
            "reasoning": f"The answer {case['missed']}.",
        }
    elif case["after"] in answer:
        verdict = {
            "score": 1.0,
            "hits": ["answers the question", "says what happens next"],
            "misses": [],
            "reasoning": "The answer is right, and the customer knows what to do.",
        }
    else:
        verdict = {
            "score": 0.8,
            "hits": ["answers the question"],
            "misses": ["does not say what happens next"],
            "reasoning": "The answer is right, but the customer has to ask how to go on.",
        }
    return {"text": json.dumps({"nonce": nonce, **verdict}), "cost_usd": 0.0004}
