"""The three questions that every recorded agent is asked, and its tool; lines with @ tell the fake model what to do.

The variable QUESTION replaces them by a single one.
"""

import os

SYSTEM = "Answer customers."
_ALL = (
    'Where is order 7?\n@call find_order {"order": "7"}\n@say Order 7 is on its way.',
    "Thanks!\n@say You are welcome.",
    "How long may I return it?\n@say 30 days.",
)
QUESTIONS: tuple[str, ...] = (os.environ["QUESTION"],) if "QUESTION" in os.environ else _ALL
MODEL = "gpt-5-mini"
TOOL = {
    "type": "function",
    "function": {
        "name": "find_order",
        "description": "Return the state of an order.",
        "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    },
}


def find_order(order: str) -> str:
    """Return the state of an order."""
    return f"Order {order} is on its way."
