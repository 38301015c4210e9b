"""Print what my_agent.py in this folder returns to each question of a JSON list, as JSON; runs beside its framework."""

import asyncio
import inspect
import json
import sys
from collections.abc import Mapping
from typing import Any, cast

from agentv.execution.user_code import load_object
from agentv.messages.shapes.objects import plain_json
from agentv.providers.local.python import function_of
from agentv.types.provider import ProviderRequest

METHODS = ("all_messages", "to_input_list")
ATTRIBUTES = ("output", "usage", "final_output", "raw", "tasks_output", "token_usage")


def dumped(returned: Any) -> Mapping[str, Any]:
    """Return a value as `value`, an object by the attributes and methods that agentv reads."""
    if isinstance(returned, list | dict):
        return {"value": plain_json(cast(object, returned))}
    methods: dict[str, Any] = {
        name: plain_json(getattr(returned, name)()) for name in METHODS if hasattr(returned, name)
    }
    attributes: dict[str, Any] = {
        name: plain_json(getattr(returned, name)) for name in ATTRIBUTES if hasattr(returned, name)
    }
    if hasattr(returned, "context_wrapper"):
        attributes["context_wrapper"] = {"usage": plain_json(returned.context_wrapper.usage)}
    return {"attributes": attributes, "methods": methods}


def main(reference: str, questions: list[str]) -> None:
    """Ask the questions one after another."""
    ask = function_of(load_object(reference, "."), reference)

    async def asked(question: str) -> Any:
        request = ProviderRequest(question)
        return await ask(request) if inspect.iscoroutinefunction(ask) else await asyncio.to_thread(ask, request)

    async def all_of_them() -> list[Any]:
        return [dumped(await asked(question)) for question in questions]

    json.dump(asyncio.run(all_of_them()), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
