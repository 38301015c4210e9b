"""The main loop of a warm worker: one JSON line in, one call of the user's function, one JSON line out.

Started as `python -m agentv.execution.processes.worker_process REFERENCE BASE_DIR`. The two pipes are moved away from
standard input and output, so that the function cannot disturb the protocol by printing or reading, not even from C.
"""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from agentv.execution.user_code import described, load_callable
from agentv.types.errors import PluginError


def main() -> None:
    """Serve calls until the other side closes its pipe."""
    requests, responses = _take_pipes()
    reference, base_dir = sys.argv[1:]
    try:
        function = load_callable(reference, base_dir)
    except PluginError as error:
        _send(responses, {"kind": "plugin_error", "error": f"cannot be used: {error}"})
        return
    for line in requests:
        _send(responses, _call(function, line))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.dup2(2, 1)
    return requests, responses


def _call(function: Callable[..., Any], line: bytes) -> dict[str, Any]:
    try:
        value = function(json.loads(line))
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function may raise anything
        return {"kind": "evaluator_error", "error": f"raised {described(error)}"}
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        return {"kind": "evaluator_error", "error": f"returned something that is not JSON: {error}"}
    return {"value": value}


async def _await(value: Any) -> Any:
    return await value


def _send(responses: BinaryIO, message: dict[str, Any]) -> None:
    responses.write(json.dumps(message).encode() + b"\n")
    responses.flush()


if __name__ == "__main__":
    main()
