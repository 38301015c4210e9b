"""`pi`: the coding agent pi on the command line, called as `pi --mode json --print`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, cast

from msgspec import Meta

from agentv.messages.transcripts.pi import read_pi_message
from agentv.messages.transcripts.steps import (
    Called,
    Noted,
    Returned,
    SessionInfo,
    Step,
    parts_text,
    text_of,
    time_of_ms,
)
from agentv.providers.agents.base import Agent, AgentProvider, AgentSettings
from agentv.types.json_value import JsonObject, object_of
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderRequest
from agentv.types.targets import ResolvedTarget

_SKIPPED_TYPES = frozenset(
    {"message_start", "message_update", "tool_execution_update", "turn_start", "turn_end", "agent_start", "agent_end"}
)
"""The types of events that are skipped: other events have all of their content."""

_DEFAULT_PROVIDER = "google"
_KEY_NAMES: Mapping[str, str] = {
    "azure-openai-responses": "AZURE_OPENAI_API_KEY",
    "cloudflare-ai-gateway": "CLOUDFLARE_API_KEY",
    "cloudflare-workers-ai": "CLOUDFLARE_API_KEY",
    "github-copilot": "COPILOT_GITHUB_TOKEN",
    "google": "GEMINI_API_KEY",
    "google-vertex": "GOOGLE_CLOUD_API_KEY",
    "huggingface": "HF_TOKEN",
    "kimi-coding": "KIMI_API_KEY",
    "moonshotai": "MOONSHOT_API_KEY",
    "moonshotai-cn": "MOONSHOT_API_KEY",
    "opencode-go": "OPENCODE_API_KEY",
    "vercel-ai-gateway": "AI_GATEWAY_API_KEY",
}
"""The environment variable with the API key, by pi's provider. For a provider not listed it is PROVIDER_API_KEY."""


class PiSettings(AgentSettings, frozen=True, kw_only=True):
    """The settings of a `pi` target."""

    executable: Annotated[str, Meta(description="Name in PATH or path of the program.")] = "pi"
    pi_provider: Annotated[
        str | None, Meta(description="The provider that pi calls, such as anthropic; default: pi's own.")
    ] = None
    model: Annotated[str | None, Meta(description="Name of the model, also as provider/name.")] = None
    api_key: Annotated[str | None, Meta(description="API key, as ${{ VARIABLE }}; passed in the environment only.")] = (
        None
    )
    tools: Annotated[
        tuple[str, ...] | None,
        Meta(description="Tools that pi may use, such as [read, bash, edit, write]; default: pi's own."),
    ] = None
    thinking: Annotated[
        Literal["off", "minimal", "low", "medium", "high", "xhigh"] | None, Meta(description="Thinking level.")
    ] = None


def make_pi(target: ResolvedTarget, tools: ProviderTools) -> AgentProvider:
    """Make the provider of a `pi` target."""
    settings = cast(PiSettings, target.settings)
    agent = Agent(
        kind="pi",
        executable=settings.executable,
        install="npm install -g @earendil-works/pi-coding-agent",
        settings=settings,
        arguments=lambda request, _: pi_arguments(settings, request),
        env={key_name(settings): settings.api_key} if settings.api_key else {},
        read=read_pi,
        fragment_types=_SKIPPED_TYPES,
    )
    return AgentProvider(target, tools, agent)


def pi_arguments(settings: PiSettings, request: ProviderRequest) -> Sequence[str]:
    """Return the arguments of a call, whose prompt is sent on standard input."""
    named = {
        "--provider": settings.pi_provider,
        "--model": settings.model,
        "--tools": ",".join(settings.tools) if settings.tools else None,
        "--thinking": settings.thinking,
        "--append-system-prompt": request.system_prompt,
    }
    options = [word for name, value in named.items() if value for word in (name, value)]
    no_tools = ["--no-tools"] if settings.tools == () else []
    return ("--mode", "json", "--print", "--no-session", *options, *no_tools, *settings.args)


def key_name(settings: PiSettings) -> str:
    """Return the environment variable from which pi reads the API key of its provider.

    The provider is `pi_provider`, else the part of `model` before a slash, else pi's default.
    """
    prefix, slash, _ = (settings.model or "").partition("/")
    provider = settings.pi_provider or (prefix if slash else _DEFAULT_PROVIDER)
    return _KEY_NAMES.get(provider) or re.sub(r"[^A-Za-z0-9]+", "_", provider).upper() + "_API_KEY"


def read_pi(event: JsonObject, received_at: str) -> Iterator[Step]:
    """Convert one event of `--mode json` into steps; `received_at` replaces a missing timestamp."""
    match event.get("type"):
        case "session":
            yield SessionInfo(session=text_of(event.get("id")))
        case "message_end":
            message = object_of(event.get("message"))
            if message.get("role") == "assistant":
                yield from read_pi_message(message, time_of_ms(message.get("timestamp")) or received_at)
        case "tool_execution_start":
            yield Called(
                str(event.get("toolCallId", "")), str(event.get("toolName", "")), event.get("args"), received_at
            )
        case "tool_execution_end":
            output = parts_text(object_of(event.get("result")).get("content"))
            failed = event.get("isError") is True
            yield Returned(str(event.get("toolCallId", "")), {"error": output} if failed else output, received_at)
        case "auto_retry_start":
            yield Noted(f"retry {event.get('attempt')} of {event.get('maxAttempts')}: {event.get('errorMessage')}")
