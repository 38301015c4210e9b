"""Answers of tools that are not really there, so that a model that called them can go on (`tool_responses`)."""

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from agentv.execution.callables import load_callable, raised_at
from agentv.execution.foreign import DeadlineError, call_foreign
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall

_PREFIX = "python:"


class CannedTools:
    """Answers by tool name: any JSON, or `python:path.py:function`, called with the tool's input.

    The function may also be written as a mapping, `{python: path.py:function}`.
    """

    def __init__(self, answers: JsonObject, base_dir: str) -> None:
        self._answers = answers
        self._functions = {
            name: load_callable(reference, base_dir)
            for name, answer in answers.items()
            if (reference := _function_reference(answer)) is not None
        }

    async def answer(self, calls: Sequence[ToolCall], *, timeout_s: float) -> tuple[ToolCall, ...]:
        """Return the calls with their outputs; nothing when one of them has no answer here, so that nobody goes on.

        A function may take `timeout_s`. Raises ProviderError when it takes longer or raises.
        """
        if not all(call.tool in self._answers for call in calls):
            return ()
        return tuple([replace(call, output=await self._output(call, timeout_s)) for call in calls])

    async def _output(self, call: ToolCall, timeout_s: float) -> JsonValue:
        function = self._functions.get(call.tool)
        if function is None:
            return self._answers[call.tool]
        try:
            return cast(JsonValue, await call_foreign(function, call.input, timeout_s=timeout_s))
        except DeadlineError:
            message = f"the answer of tool {call.tool!r} did not come within {round(timeout_s, 2):g} s"
            raise ProviderError(Failure("deadline", message)) from None
        except (Exception, SystemExit) as error:
            message = f"the answer of tool {call.tool!r} raised {type(error).__name__}: {error}{raised_at(error)}"
            raise ProviderError(Failure("plugin_error", message)) from error


def _function_reference(answer: JsonValue) -> str | None:
    if isinstance(answer, str) and answer.startswith(_PREFIX):
        return answer.removeprefix(_PREFIX).strip()
    if isinstance(answer, Mapping) and answer.keys() == {"python"}:
        return str(answer["python"])
    return None
