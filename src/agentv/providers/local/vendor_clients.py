"""Models called through a vendor's own client: objects of the packages `openai` and `anthropic`."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from agentv.execution.user_code import DeadlineError, call_user_code, described
from agentv.providers.apis.anthropic import AnthropicSettings, MessagesDialogue
from agentv.providers.apis.dialogue import Dialogue, open_conversation
from agentv.providers.apis.http import HttpResponse, status_failure
from agentv.providers.apis.model_provider import to_message, to_response
from agentv.providers.apis.openai import OpenAISettings, make_dialogue
from agentv.providers.apis.structured_output import SchemaTrial
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import DEFAULT_TRY_TIMEOUT_S

_HELD_BY_CLIENT = "held by the client"
"""Placeholder for the key in settings that need one: the client sends its own key."""


class ClientProvider:
    """Calls a model through a client, sync or async, with the client's own connection, key and retries."""

    is_code = False
    keeps_deadlines = True

    def __init__(self, kind: str, create: Callable[..., object], dialogue: Dialogue) -> None:
        self.kind = kind
        self._create = create
        self._dialogue = dialogue
        self._schema_trial = SchemaTrial()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the model's answer. Raises ProviderError."""
        return await self._schema_trial.invoke(request, self._send)

    async def _send(self, request: ProviderRequest) -> ProviderResponse:
        timeout_s = request.timeout_s or DEFAULT_TRY_TIMEOUT_S
        body = self._dialogue.build_body(open_conversation(self._dialogue, request))
        try:
            response = await self._request(partial(self._create, **body), timeout_s)
        except DeadlineError:
            raise ProviderError(Failure("deadline", f"no response within {timeout_s:g} s")) from None
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise ProviderError(_failure_of(error)) from error
        turn = self._dialogue.parse(_json_of(response))
        return to_response(turn, [to_message(turn)], turn.usage)

    async def _request(self, create: Callable[[], object], timeout_s: float) -> object:
        """Return the client's response. `create` is called in a thread, because even an async client may block.

        An async client keeps connections of earlier event loops, such as that of the last `run_evaluation_sync`. A
        request on such a connection fails before it is sent, and drops the connection.
        """
        for _ in range(MAX_STALE_CONNECTIONS):
            try:
                return await call_user_code(create, timeout_s=timeout_s)
            except RuntimeError as error:
                if "Event loop is closed" not in str(error):
                    raise
        return await call_user_code(create, timeout_s=timeout_s)


MAX_STALE_CONNECTIONS = 100


def client_provider(client: object, model: str | None, default_models: Callable[[str], str]) -> ClientProvider | None:
    """Return a provider that calls a vendor's client; None for any other object.

    `default_models` returns the model of a provider if `model` is None.
    """
    vendor = type(client).__module__.partition(".")[0]
    url = str(getattr(client, "base_url", "")).rstrip("/")
    untyped = cast(Any, client)
    if vendor == "openai" and hasattr(client, "chat"):
        openai_settings = OpenAISettings(model=model or default_models("openai"), base_url=url, api_key=_HELD_BY_CLIENT)
        return ClientProvider("openai", untyped.chat.completions.create, make_dialogue(openai_settings))
    if vendor == "anthropic" and hasattr(client, "messages"):
        anthropic_settings = AnthropicSettings(
            model=model or default_models("anthropic"),
            base_url=url,
            api_key=_HELD_BY_CLIENT,
            structured_output=False,  # older clients do not take `output_config`
        )
        return ClientProvider("anthropic", untyped.messages.create, MessagesDialogue(anthropic_settings))
    return None


def _json_of(response: object) -> JsonObject:
    dump = getattr(response, "model_dump", None)
    if not callable(dump):
        raise ProviderError(Failure("unexpected_shape", f"the client returned a {type(response).__name__}"))
    return cast(JsonObject, dump(mode="json"))


def _failure_of(error: Exception) -> Failure:
    """Return the failure that an exception of a client means, by the HTTP status of its response if it has one."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        headers = {str(key).lower(): str(value) for key, value in cast(Any, response).headers.items()}
        http_response = HttpResponse(status, headers, bytes(getattr(response, "content", b"")))
        failure = status_failure(http_response, now=datetime.now(UTC))
        if failure is not None:
            return failure
    names = {base.__name__ for base in type(error).__mro__}
    if "APIConnectionError" in names:
        return Failure("transport", f"the client raised {described(error)}", retryable=True)
    return Failure("plugin_error", f"the client raised {described(error)}")
