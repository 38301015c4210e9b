"""The checks of schemas that an MCP server declares, and of the results that must match them.

A schema of a few lines can take years to check, so that `checked` calls `problems_in` in a process of its own.
"""

import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import cast

from agentv.execution.backends.workers import WorkerPool
from agentv.scoring.text.json_schema import make_schema_check
from agentv.types.errors import EvaluatorError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.protocols import SharedParts
from agentv.types.provider import ProviderError

MAX_MEMORY_BYTES = 2**30
_MAX_VIOLATIONS = 3


async def checked(payload: JsonObject, shared: SharedParts, *, subject: str, timeout_s: float) -> list[str]:
    """Return what `problems_in` returns. Raises ProviderError if it takes longer than `timeout_s`; it is then ended."""
    pool = await shared.get("mcp schemas", partial(WorkerPool, f"{__name__}:{problems_in.__name__}", "."))
    try:
        found = await pool.call(payload, timeout_s=timeout_s)
    except EvaluatorError as error:
        if error.failure.kind == "deadline":
            message = (
                f"{subject} could not be checked in the {timeout_s:.1f} s that were left of the call's time limit; "
                "the schema may take too long for any limit"
            )
            raise ProviderError(Failure("target_timeout", message)) from None
        raise ProviderError(
            Failure("malformed_reply", f"{subject} cannot be checked: {error.failure.message}")
        ) from None
    return cast(list[str], found)


def problems_in(payload: JsonObject) -> list[str]:
    """Return the problems of the names and schemas of `tools`, else those of a `value` by its `schema`."""
    _limit_memory()
    try:
        tools = payload.get("tools")
        if isinstance(tools, list):
            return list(_tool_problems([tool for tool in tools if isinstance(tool, Mapping)]))
        return _violations(payload.get("schema"), payload.get("value"))
    except MemoryError:
        return [f"the check needs more than {MAX_MEMORY_BYTES / 2**30:g} GiB of memory"]


@cache
def _limit_memory() -> None:
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def _violations(schema: JsonValue, value: JsonValue) -> list[str]:
    if not isinstance(schema, Mapping):
        return [f"the schema is a JSON {json_type(schema)}, not an object"]
    if problem := _draft_problem(schema):
        return [f"the schema {problem}"]
    try:
        return list(islice(make_schema_check(schema, any_draft=True)(value), _MAX_VIOLATIONS))
    except EvaluatorError as error:
        return [error.failure.message]


def _tool_problems(tools: list[JsonObject]) -> Iterator[str]:
    seen: set[str] = set()
    for tool in tools:
        name = str(tool.get("name"))
        if name in seen:
            yield f"tool {name!r} is listed twice"
        seen.add(name)
        for key in ("inputSchema", "outputSchema"):
            schema = tool.get(key)
            problem = None if schema is None and key == "outputSchema" else _schema_problem(schema)
            if problem:
                yield f"tool {name!r}: {key} {problem}"


def _schema_problem(schema: JsonValue) -> str | None:
    """Return why a tool's schema cannot be used; None if it is a valid JSON Schema of an object."""
    if not isinstance(schema, Mapping):
        return "is missing" if schema is None else f"is a JSON {json_type(schema)}, not an object"
    if schema.get("type") != "object":
        return f'has type {compact_json(schema.get("type"))}; arguments and results of a tool have type "object"'
    return _draft_problem(schema)


def _draft_problem(schema: JsonObject) -> str | None:
    import jsonschema  # noqa: PLC0415 - only the process of the checks needs it

    try:
        jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator).check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        at = "/".join(map(str, error.absolute_path))
        return f"is not a valid JSON Schema{f' at {at}' if at else ''}: {error.message}"
    except RecursionError:
        return "is nested too deeply"
    return None


def json_type(value: JsonValue) -> str:
    """Return the type of a JSON value for messages: `list`, `object`, `string`, `boolean`, `number` or `null`."""
    kinds = {list: "list", str: "string", bool: "boolean", dict: "object"}
    return "null" if value is None else kinds.get(type(value), "number")
