"""Tokens fetched by the clouds' real libraries from servers on this machine."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.support.asking import PATIENCE_S, ask, failure_of, make_target
from tests.support.fake_server import serving_fake
from tests.support.loopback import reply, serving

from agentv.providers.apis.azure import AzureSettings
from agentv.providers.apis.azure import make_credentials as azure_credentials
from agentv.providers.apis.credentials import RENEW_BEFORE_S, FetchedToken, FixedHeaders, Token, bearer
from agentv.providers.apis.gemini import GeminiSettings
from agentv.providers.apis.gemini import make_credentials as gemini_credentials
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError
from agentv.types.targets import ResolvedTarget

JSON = {"Content-Type": "application/json"}
TOKEN = "token-of-the-cloud"


def fetched(fetch: Callable[[], Token], *, calls: int = 1, now: Callable[[], float] = time.time) -> list[str]:
    """Return the headers of so many concurrent calls."""

    async def run() -> list[Mapping[str, str]]:
        token = FetchedToken(fetch, what="a token", now=now)
        return await asyncio.gather(*(token.headers(timeout_s=PATIENCE_S) for _ in range(calls)))

    return [headers["Authorization"] for headers in asyncio.run(run())]


def why_not(fetch: Callable[[], Token], *, timeout_s: float = PATIENCE_S) -> Failure:
    async def run() -> None:
        await FetchedToken(fetch, what="a token").headers(timeout_s=timeout_s)

    with pytest.raises(ProviderError) as raised:
        asyncio.run(run())
    return raised.value.failure


def test_a_key_is_a_header_and_no_key_is_none() -> None:
    assert bearer("k") == FixedHeaders({"Authorization": "Bearer k"})
    assert bearer(None) == bearer("") == FixedHeaders({})


def test_all_who_wait_get_the_token_that_is_fetched_once() -> None:
    calls: list[int] = []

    def fetch() -> Token:
        calls.append(1)
        return Token(f"t{len(calls)}", time.time() + 3600)

    assert fetched(fetch, calls=50) == ["Bearer t1"] * 50
    assert len(calls) == 1


@pytest.mark.parametrize(("left_s", "tokens"), [(RENEW_BEFORE_S + 1, ["t1", "t1"]), (RENEW_BEFORE_S - 1, ["t1", "t2"])])
def test_a_token_is_fetched_again_before_it_ends(left_s: float, tokens: list[str]) -> None:
    calls: list[int] = []

    def fetch() -> Token:
        calls.append(1)
        return Token(f"t{len(calls)}", 1_000 + left_s)

    assert fetched(fetch, calls=2, now=lambda: 1_000) == [f"Bearer {token}" for token in tokens]


def test_no_token_is_a_failure_of_the_key() -> None:
    def fetch() -> Token:
        raise LookupError("no user\n  is signed in" + "!" * 5_000)

    failure = why_not(fetch)

    assert failure.kind == "auth"
    assert failure.message.startswith("a token cannot be obtained: no user is signed in!")
    assert len(failure.message) < 600


def test_a_token_that_does_not_come_meets_the_deadline() -> None:
    over = threading.Event()

    def fetch() -> Token:
        over.wait(PATIENCE_S)
        return Token("late", 0.0)

    failure = why_not(fetch, timeout_s=0.2)
    over.set()

    assert (failure.kind, failure.message) == ("deadline", "a token was not received within 0.2 s")


@pytest.mark.parametrize("name", ["api-key", "API-Key", "authorization"])
def test_a_header_of_ones_own_makes_a_token_needless(name: str) -> None:
    settings = AzureSettings(deployment="d", endpoint="r", extra_headers={name: "x"})

    assert azure_credentials(settings) == FixedHeaders({})


def test_vertex_with_a_header_of_ones_own_needs_no_token() -> None:
    settings = GeminiSettings(project="p", extra_headers={"authorization": "Bearer x"})

    assert gemini_credentials(settings) == FixedHeaders({})


# --- Microsoft ---------------------------------------------------------------------------------------------------


def azure_target(url: str) -> ResolvedTarget:
    return make_target("azure", AzureSettings(deployment="m", endpoint=url))


def test_azure_without_a_key_uses_an_entra_token(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"access_token": TOKEN, "expires_on": str(int(time.time()) + 3600), "token_type": "Bearer"}
    with serving(reply(json.dumps(answer), headers=JSON)) as machine, serving_fake(keep_requests=True) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{machine.url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "managed")
        ask(azure_target(server.url))

    assert "resource=https://cognitiveservices.azure.com" in machine.requests[0].line
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert "api-key" not in server.requests[0].headers


def test_azure_that_gets_no_token_says_why(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # nor is anybody signed in with a program of Azure's
    with serving(reply('{"message": "no identity"}', status="400 No", headers=JSON)) as machine:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{machine.url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "managed")
        failure = failure_of(azure_target("http://127.0.0.1:1"))

    assert failure.kind == "auth"
    assert failure.message.startswith("an Entra ID token cannot be obtained: DefaultAzureCredential failed")
    assert capfd.readouterr().err == ""


# --- Google ------------------------------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a service account whose tokens come from `url`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def write(url: str) -> Path:
        path = tmp_path / "account.json"
        about = {"type": "service_account", "client_email": "shop@p-1.example", "private_key_id": "1"}
        path.write_text(json.dumps({**about, "private_key": pem, "token_uri": url, "project_id": "p-1"}))
        return path

    return write


def vertex_target(url: str) -> ResolvedTarget:
    return make_target("gemini", GeminiSettings(model="m", base_url=url, project="p-1"))


def test_vertex_uses_googles_default_credentials(
    monkeypatch: pytest.MonkeyPatch, account: Callable[[str], Path]
) -> None:
    answer = {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
    with serving(reply(json.dumps(answer), headers=JSON)) as google, serving_fake(keep_requests=True) as server:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account(f"{google.url}/token")))
        assert ask(vertex_target(server.url)).text == "You said: Where is my order?"

    assert google.requests[0].line == "POST /token HTTP/1.1"
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_vertex_that_gets_no_token_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nothing.json"))

    failure = failure_of(vertex_target("http://127.0.0.1:1"))

    assert failure.kind == "auth"
    assert "nothing.json was not found" in failure.message


# --- not installed -----------------------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None  # as if it were not installed
from tests.providers.test_credentials import azure_target, vertex_target
from tests.support.asking import ask
from agentv.types.errors import MissingExtraError
try:
    ask({"azure.identity": azure_target, "google.auth": vertex_target}[sys.argv[1]]("http://127.0.0.1:1"))
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (
            "azure.identity",
            "azure without api_key needs optional packages; install them with: pip install 'agentv[azure]'",
        ),
        (
            "google.auth",
            "gemini with a project needs optional packages; install them with: pip install 'agentv[vertex]'",
        ),
    ],
)
def test_a_library_that_is_not_installed_is_named(package: str, said: str) -> None:
    argv = [sys.executable, "-c", WITHOUT, package]

    assert subprocess.check_output(argv, text=True, timeout=PATIENCE_S) == f"{said}\n"
