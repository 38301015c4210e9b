"""The contract of every registered provider. A new provider joins by a line in `CASES`."""

import asyncio
import dataclasses
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.support.agents import recorded, stand_in
from tests.support.asking import PATIENCE_S, ask, make_request, make_target, with_provider
from tests.support.loopback import Server, hang_up, never_answer, reply_with_id, serving

from agentv.providers import PROVIDERS
from agentv.providers.agents.claude import ClaudeSettings
from agentv.providers.agents.codex import CodexSettings
from agentv.providers.agents.copilot import CopilotSettings
from agentv.providers.agents.pi import PiSettings
from agentv.providers.apis.anthropic import AnthropicSettings
from agentv.providers.apis.azure import AzureSettings
from agentv.providers.apis.gemini import GeminiSettings
from agentv.providers.apis.openai import OpenAISettings
from agentv.providers.editors.vscode import VscodeSettings
from agentv.providers.local.cli_settings import CliSettings
from agentv.providers.local.http_provider import HttpSettings
from agentv.providers.local.mock import MockSettings
from agentv.providers.local.python import PythonSettings
from agentv.providers.local.replay import ReplaySettings
from agentv.providers.protocols.a2a_settings import A2aSettings
from agentv.providers.protocols.mcp_settings import McpSettings
from agentv.registry import Spec
from agentv.types.failures import FAILURE_KINDS
from agentv.types.provider import (
    BatchProvider,
    CheckedProvider,
    Provider,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
)
from agentv.types.structs import has_fields, struct_fields

EDITOR = Path(__file__).parent.parent / "fixtures" / "editor.py"
ANSWER = "On its way."
REPLY = json.dumps(  # each API reads its own part
    {
        "choices": [{"message": {"content": ANSWER}, "finish_reason": "stop"}],
        "content": [{"type": "text", "text": ANSWER}],
        "supportedInterfaces": [{"url": "http://h/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "id": "ID",
        "result": {"message": {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": ANSWER}]}},
        "candidates": [{"content": {"parts": [{"text": ANSWER}]}, "finishReason": "STOP"}],
    }
)


@dataclasses.dataclass(frozen=True)
class Place:
    """The server and the files that a provider uses."""

    folder: Path
    server: Server
    quiet: Server
    broken: Server


async def hang(_: ProviderRequest) -> str:
    return await asyncio.Future()


def fail(_: ProviderRequest) -> str:
    raise LookupError("no order service")


TEXT = {"Content-Type": "text/plain"}


def model_api(settings: Callable[[str], object]) -> "Case":
    return Case(
        lambda place: settings(place.server.url),
        lambda place: settings(place.broken.url),
        lambda place: settings(place.quiet.url),
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """Settings with which a provider answers, fails, and (if possible) hangs."""

    answers: Callable[[Place], object]
    fails: Callable[[Place], object]
    hangs: Callable[[Place], object] | None


def agent(settings: Callable[..., object], name: str) -> "Case":
    """A coding agent, played by a program that prints what the real one printed."""

    def ends(then: str, prints: str = "") -> Callable[[Place], object]:
        return lambda place: settings(executable=stand_in(place.folder / "agent", prints, then).program)

    answer = recorded(name).replace("The amount is in notes.txt, and new.txt is written.", ANSWER)
    return Case(ends("exit 0", answer), ends("exit 3"), ends("sleep 10000"))


def editor(kind: str) -> "Case":
    """An editor, played by a program that follows a script; several are provisioned."""

    def at(mode: str) -> Callable[[Place], object]:
        def settings(place: Place) -> VscodeSettings:
            for number in range(1, 6):
                (place.folder / kind / f"subagent-{number}").mkdir(parents=True, exist_ok=True)
            command = shlex.join([sys.executable, "-S", "-E", str(EDITOR), mode])
            return VscodeSettings(command, subagent_root=str(place.folder / kind))

        return settings

    return Case(at(f"say {ANSWER}"), at("crash-open"), at("silent"))


AGENTS = {
    "codex": agent(CodexSettings, "codex"),
    "claude": agent(ClaudeSettings, "claude"),
    "copilot": agent(CopilotSettings, "copilot"),
    "pi": agent(PiSettings, "pi"),
}
EDITORS = {kind: editor(kind) for kind in ("vscode", "vscode-insiders")}
ODD_SERVER = str(Path(__file__).parent.parent / "fixtures" / "odd_mcp_server.py")


def mcp(tool: str) -> Callable[[Place], object]:
    return lambda _: McpSettings(command=sys.executable, args=(ODD_SERVER,), tool=tool, arguments={})


CASES = {
    **AGENTS,
    **EDITORS,
    "mock": Case(
        lambda _: MockSettings(ANSWER), lambda _: MockSettings(error="boom"), lambda _: MockSettings(delay_ms=10**7)
    ),
    "cli": Case(
        lambda _: CliSettings(f"echo {ANSWER}"), lambda _: CliSettings("exit 3;"), lambda _: CliSettings("sleep 10000")
    ),
    "python": Case(
        lambda _: PythonSettings(lambda _: ANSWER), lambda _: PythonSettings(fail), lambda _: PythonSettings(hang)
    ),
    "replay": Case(
        lambda place: ReplaySettings(file=str(place.folder / "one.jsonl")),
        lambda place: ReplaySettings(file=str(place.folder / "other.jsonl")),
        None,
    ),
    "a2a": model_api(lambda url: A2aSettings(url=url, endpoint=url)),
    "mcp": Case(mcp("say"), mcp("refuse"), mcp("hang")),
    "azure": model_api(lambda url: AzureSettings(deployment="m", endpoint=url, api_key="k")),
    "openai": model_api(lambda url: OpenAISettings(model="m", base_url=url)),
    "anthropic": model_api(lambda url: AnthropicSettings(model="m", base_url=url)),
    "gemini": model_api(lambda url: GeminiSettings(base_url=url)),
    "http": model_api(lambda url: HttpSettings(url, body="{{ question }}", headers=TEXT, response="$.content[0].text")),
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "one.jsonl").write_text(json.dumps({"id": "case-1", "text": ANSWER}) + "\n")
    (tmp_path / "other.jsonl").write_text(json.dumps({"id": "case-9", "text": ANSWER}) + "\n")
    servers: list[Server] = []
    with serving(reply_with_id(servers, REPLY)) as server, serving(never_answer) as quiet, serving(hang_up) as broken:
        servers.append(server)
        yield Place(tmp_path, server, quiet, broken)


NEEDS = {"a2a": "a2a", "mcp": "mcp"}
"""The packages of the dependency group `protocols` that a provider needs."""


def named(name: str) -> Any:
    package = NEEDS.get(name, "json")
    reason = f"{package} is not installed: uv sync --group protocols"
    return pytest.param(name, marks=pytest.mark.skipif(find_spec(package) is None, reason=reason))


names = pytest.mark.parametrize("name", [named(name) for name in CASES])
ANSWERING = [spec for spec in PROVIDERS if spec.answers]
specs = pytest.mark.parametrize("spec", ANSWERING, ids=lambda spec: spec.name)


def test_every_registered_provider_is_held_to_this() -> None:
    assert set(CASES) == {spec.name for spec in ANSWERING}


@names
def test_it_answers_a_request_with_a_response(place: Place, name: str) -> None:
    assert ask(make_target(name, CASES[name].answers(place)), home=place.folder).text == ANSWER


@names
def test_it_keeps_the_protocol_and_names_itself(place: Place, name: str) -> None:
    async def use(provider: Provider) -> Provider:
        return provider

    provider = with_provider(make_target(name, CASES[name].answers(place)), use, home=place.folder)

    assert isinstance(provider, Provider)
    assert provider.kind == name
    if isinstance(provider, BatchProvider):
        assert isinstance(provider.supports_batch, bool)


@names
def test_it_answers_many_requests_at_once(place: Place, name: str) -> None:
    async def use(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(make_request()) for _ in range(10)))

    answers = with_provider(make_target(name, CASES[name].answers(place)), use, home=place.folder)

    assert [answer.text for answer in answers] == [ANSWER] * 10


@names
def test_a_failure_is_a_provider_error_of_a_known_kind_with_a_sentence(place: Place, name: str) -> None:
    with pytest.raises(ProviderError) as raised:
        ask(make_target(name, CASES[name].fails(place)), home=place.folder)

    failure = raised.value.failure
    assert failure.kind in FAILURE_KINDS
    assert failure.message
    assert "Traceback" not in failure.message


can_hang = pytest.mark.parametrize("name", [named(name) for name, case in CASES.items() if case.hangs is not None])


def hanging(place: Place, name: str, use: Callable[[Provider], Awaitable[None]]) -> None:
    settings = CASES[name].hangs
    assert settings is not None
    with_provider(make_target(name, settings(place)), use, home=place.folder)


KEEPS_DEADLINES = (*AGENTS, *EDITORS, "a2a", "cli", "http", "mcp", "python", "azure", "openai", "anthropic", "gemini")


@pytest.mark.parametrize("name", [named(name) for name in KEEPS_DEADLINES])
def test_it_keeps_the_deadline_of_a_request(place: Place, name: str) -> None:
    async def use(provider: Provider) -> None:
        with pytest.raises(ProviderError) as raised:
            await provider.invoke(make_request(timeout_s=0.2))
        assert raised.value.failure.kind in ("deadline", "target_timeout")
        assert "0.2 s" in raised.value.failure.message

    hanging(place, name, use)


@can_hang
def test_it_can_be_cancelled(place: Place, name: str) -> None:
    async def use(provider: Provider) -> None:
        task = asyncio.create_task(provider.invoke(make_request(timeout_s=PATIENCE_S)))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    hanging(place, name, use)


@names
def test_a_healthcheck_of_a_healthy_target_passes(place: Place, name: str) -> None:
    async def use(provider: Provider) -> None:
        if isinstance(provider, CheckedProvider):
            await provider.healthcheck()

    with_provider(make_target(name, CASES[name].answers(place)), use, home=place.folder)


@specs
def test_settings_are_a_frozen_struct_that_explains_every_field(spec: Spec) -> None:
    settings = spec.load_settings()

    assert has_fields(settings)
    assert issubclass(settings, Struct)
    assert settings.__struct_config__.frozen
    assert [field.name for field in struct_fields(settings) if not field.description] == []
    assert not spec.summary.endswith(".")


def test_naming_the_providers_imports_none_of_them() -> None:
    program = (
        "import sys, agentv.providers; print([name for name in sys.modules if name.startswith('agentv.providers.')])"
    )

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


MODULES = [
    *(f"agents.{name}" for name in AGENTS),
    *(f"local.{name}" for name in ("cli", "cli_settings", "mock", "python", "replay")),
    *("editors.vscode", "apis.openai_chat", "protocols.a2a_provider", "protocols.mcp_settings"),
]
HEAVY = ("aiohttp", "pydantic", "yaml", "rich", "numpy", "tenacity")


@pytest.mark.parametrize("module", MODULES)
def test_only_who_goes_to_the_network_imports_its_client(module: str) -> None:
    program = f"import sys, agentv.providers.{module}; print(sorted(set(sys.modules) & set({HEAVY!r})))"

    assert subprocess.check_output([sys.executable, "-c", program], text=True, env=dict(os.environ)) == "[]\n"
