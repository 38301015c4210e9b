"""The values of the variables that templates of settings may use: those of one request."""

from collections.abc import Mapping

from agentv.providers.apis.dialogue import build_prompt
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages import ChatMessage
from agentv.types.provider import ProviderRequest


def value_of(request: ProviderRequest, name: str) -> JsonValue:
    """Return the value of a variable. Raises ProviderError if the case does not have it."""
    if name == "chat_prompt":
        prompt = build_prompt(request)
        system = [ChatMessage("system", prompt.system)] if prompt.system else []
        return [{"role": turn.role, "content": turn.content} for turn in (*system, *prompt.turns)]
    root, *keys = name.split(".")
    value: JsonValue = getattr(request, root)
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise ProviderError(Failure("bad_request", f"the request needs {name}, which is missing from this case"))
        value = value[key]
    return value
