"""Logged answers in the shapes of other programs."""

import json
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
QUESTION = "Can I return order 1001 after 30 days?"
ANSWER = "No. Returns are open for 30 days, please write to support."
SHAPES = ("messages", "prompt", "langfuse", "langsmith", "openai", "phoenix")


def logged(name: str) -> list[dict[str, Any]]:
    """Return the lines of a fixture, parsed."""
    return [json.loads(line) for line in (LOGS / f"{name}.jsonl").read_text().splitlines()]


def conversations(shape: str) -> list[dict[str, Any]]:
    """Return the conversations of a shape, without steps of traces."""
    own = logged("own")
    roots = {"messages": own[:1], "prompt": own[1:]}.get(shape)
    if roots is not None:
        return roots
    parents = ("parentObservationId", "parent_observation_id", "parent_run_id", "parent_id")
    return [line for line in logged(shape) if not any(line.get(key) for key in parents)]


def numbered(line: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a line with an id and an answer of its own."""
    text = json.dumps(line).replace("please write", f"please ({number}) write")
    copy: dict[str, Any] = json.loads(text)
    named = copy["trace"] if "trace" in copy else copy["response"] if "request" in copy else copy
    if "context" in copy:
        copy["context"]["span_id"] = f"span-{number}"
    elif "context.span_id" in copy:
        copy["context.span_id"] = f"span-{number}"
    else:
        named["id"] = f"log-{number}"
    return copy
