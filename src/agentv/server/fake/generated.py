"""How the fake server answers `agentv generate`: sentences of what it was shown, as requirements or as cases.

Such a prompt is known by its system part, which lists the keys of the reply: `rubrics` or `cases`.
"""

import re

from agentv.server.fake.conversation import Question
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_ASKED = re.compile(r'^- "nonce": "([^"]+)", copied exactly\n- "(rubrics|cases)": ', re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?\n]+")
_MOST = 3


def generated_reply(question: Question) -> str | None:
    """Return what is asked for, as JSON; None when nothing is to be made up."""
    # Who has no place for instructions gets them in front of the question.
    asked = _ASKED.search(f"{question.system}\n{question.said}")
    if asked is None:
        return None
    nonce, key = asked.groups()
    name = "expected_outcome" if key == "rubrics" else "record"
    sentences = _sentences(question.said, name, nonce)
    made: list[JsonValue] = [_rubric(text) if key == "rubrics" else _case(text) for text in sentences]
    return compact_json({"nonce": nonce, key: made})


def _sentences(said: str, name: str, nonce: str) -> list[str]:
    fence = re.compile(rf"<<<{name} {re.escape(nonce)}>>>\n(.*?)\n<<<end of {name} {re.escape(nonce)}>>>", re.DOTALL)
    found = fence.search(said)
    texts = (text.strip(' "{}[]#*-') for text in _SENTENCE.findall(found[1] if found else said))
    return [text for text in texts if text][:_MOST]


def _rubric(text: str) -> JsonObject:
    return {"id": "", "description": f"Says: {text}", "weight": 1, "required": False}


def _case(text: str) -> JsonObject:
    return {"id": "", "input": f"Tell me about: {text}", "expected_outcome": text, "rubrics": [_rubric(text)]}
