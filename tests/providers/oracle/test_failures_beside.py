"""The same faults with the vendors' own clients: the reason for calling the APIs directly.

A control, not a rule for them: when a newer client does better, its cell is corrected here.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from time import monotonic
from typing import Any

import anthropic
import openai
import pytest
from tests.contracts.test_model_faults import KINDS
from tests.providers.oracle.google_client import genai, types
from tests.support.fake_server import serving_fake

from agentv.fake import FakeServer

TIMEOUT_S = 2.0
QUESTION = "Where is my order?"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
CLIENTS = ("openai-chat", "openai-responses", "anthropic", "gemini")

# The results of the four in that order: the exception, or the value that the client returns as the answer.
OUTCOMES: Mapping[str, tuple[str, str, str, str]] = {
    "empty": ("JSONDecodeError", "JSONDecodeError", "JSONDecodeError", "returns None"),
    "null": ("AttributeError", "AttributeError", "AttributeError", "returns None"),
    "truncated": ("JSONDecodeError", "JSONDecodeError", "JSONDecodeError", "JSONDecodeError"),
    "wrong-types": ("KeyError", "returns ''", "KeyError", "ValidationError"),
    "wrong-leaves": ("returns 7", "returns ''", "returns 7", "AttributeError"),
    "not-utf8": ("UnicodeDecodeError", "UnicodeDecodeError", "UnicodeDecodeError", "returns '\ufffd\ufffd\ufffd'"),
    "nested": ("RecursionError", "RecursionError", "RecursionError", "RecursionError"),
    "html": ("AttributeError", "AttributeError", "AttributeError", "JSONDecodeError"),
    "error-in-200": ("TypeError", "TypeError", "TypeError", "returns None"),
    "content-filter": ("returns None", "returns ''", "returns ''", "returns None"),
    "bad-gzip": ("APIConnectionError", "APIConnectionError", "APIConnectionError", "DecodingError"),
    "redirect": ("NotFoundError", "NotFoundError", "NotFoundError", "ClientError"),  # of where it led: all went there
    "reset": ("APIConnectionError", "APIConnectionError", "APIConnectionError", "ReadError"),
    "hang-up": ("APIConnectionError", "APIConnectionError", "APIConnectionError", "RemoteProtocolError"),
    "cut": ("APIConnectionError", "APIConnectionError", "APIConnectionError", "RemoteProtocolError"),
    "401": ("AuthenticationError", "AuthenticationError", "AuthenticationError", "ClientError"),
    "429": ("RateLimitError", "RateLimitError", "RateLimitError", "ClientError"),
    "529": ("InternalServerError", "InternalServerError", "OverloadedError", "ServerError"),
    "hang": ("APITimeoutError", "APITimeoutError", "APITimeoutError", "ReadTimeout"),
    "drip": ("still waits", "still waits", "still waits", "still waits"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake() as server:
        yield server


def ask_chat(url: str, model: str) -> object:
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=TIMEOUT_S) as client:
        return client.chat.completions.create(model=model, messages=MESSAGES).choices[0].message.content


def ask_responses(url: str, model: str) -> object:
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=TIMEOUT_S) as client:
        return client.responses.create(model=model, input=MESSAGES).output_text


def ask_anthropic(url: str, model: str) -> object:
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0, timeout=TIMEOUT_S) as client:
        return getattr(client.messages.create(model=model, max_tokens=99, messages=MESSAGES).content[0], "text", None)


def ask_gemini(url: str, model: str) -> object:
    once = types.HttpRetryOptions(attempts=1)
    options = types.HttpOptions(base_url=url, timeout=int(TIMEOUT_S * 1000), retry_options=once)
    with genai.Client(api_key="k", http_options=options) as client:
        return client.models.generate_content(model=model, contents=QUESTION).text


ASK: Mapping[str, Callable[[str, str], object]] = dict(
    zip(CLIENTS, (ask_chat, ask_responses, ask_anthropic, ask_gemini), strict=True)
)


def outcomes(url: str, fault: str) -> tuple[str, ...]:
    """Call all four concurrently and return their results within three times their timeout."""
    said = dict.fromkeys(CLIENTS, "still waits")

    def ask(name: str) -> None:
        try:
            said[name] = f"returns {ASK[name](url, f'm@{fault}')!r}"
        except Exception as error:  # noqa: BLE001 - which one it is, is the question
            said[name] = type(error).__name__

    threads = [Thread(target=ask, args=(name,), daemon=True) for name in CLIENTS]
    for thread in threads:
        thread.start()
    ends_at = monotonic() + 3 * TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, ends_at - monotonic()))
    return tuple(said.values())


@pytest.mark.filterwarnings("ignore")  # of their own about what they read
@pytest.mark.parametrize("fault", OUTCOMES)
def test_the_vendors_clients_leave_a_fault_to_the_caller(server: FakeServer, fault: str) -> None:
    assert outcomes(server.url, fault) == OUTCOMES[fault]


def test_every_fault_in_the_table_has_one_kind_with_us() -> None:
    assert OUTCOMES.keys() <= KINDS.keys()


FLOODED = """
import resource, sys
from tests.providers.oracle import test_failures_beside as beside

name, url = sys.argv[1:]
beside.outcomes(url, "404")  # all is imported now
limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
beside.TIMEOUT_S = 60
try:
    beside.ASK[name](url, "m@huge")
except BaseException as error:
    print(type(error).__name__, type(error.__cause__).__name__)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_the_vendors_clients_take_all_memory_for_a_reply_without_end(server: FakeServer, name: str) -> None:
    argv = [sys.executable, "-W", "ignore", "-c", FLOODED, name, server.url]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)

    assert "MemoryError" in result.stdout + result.stderr
