import asyncio
import gzip
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.support.fake_server import serving_fake
from tests.support.loopback import Answer, endless, hang_up, never_answer, reply, serving

from agentv.execution.sharing import SharedResources, TurnQueue
from agentv.providers.apis.http import HttpRequest, HttpResponse
from agentv.providers.apis.transport import NETWORK, Network, check_url, open_network, send
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError

PATIENCE_S = 30.0
BOMB = gzip.compress(b"x" * 50 * 2**20)
CUT_OFF = gzip.compress(b"x" * 99, mtime=0)[:-9]
CHUNK = b"100000\r\n" + b"x" * 2**20 + b"\r\n"


def get(url: str, *, timeout_s: float = PATIENCE_S, headers: dict[str, str] | None = None) -> HttpResponse:
    async def run() -> HttpResponse:
        async with SharedResources() as shared:
            return await send(HttpRequest(url, headers or {}, b"{}"), shared, timeout_s=timeout_s)

    return asyncio.run(run())


def failure_of(answer: Answer, *, timeout_s: float = PATIENCE_S) -> Failure:
    with serving(answer) as server, pytest.raises(ProviderError) as raised:
        get(server.url, timeout_s=timeout_s)
    return raised.value.failure


def test_a_reply_comes_back_whole() -> None:
    with serving(reply("héllo", headers={"X-Request-Id": "r-1"})) as server:
        answer = get(server.url + "/v1/chat", headers={"Authorization": "Bearer k"})

    assert (answer.status, answer.body.decode(), answer.request_id) == (200, "héllo", "r-1")
    assert server.requests[0].line == "POST /v1/chat HTTP/1.1"
    assert server.requests[0].headers["authorization"] == "Bearer k"
    assert server.requests[0].body == b"{}"


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [("gzip", gzip.compress(b"hello", mtime=0)), ("deflate", zlib.compress(b"hello")), ("identity", b"hello")],
)
def test_a_packed_reply_is_unpacked(encoding: str, packed: bytes) -> None:
    with serving(reply(packed, headers={"Content-Encoding": encoding})) as server:
        assert get(server.url).body == b"hello"


@pytest.mark.parametrize(
    ("answer", "kind", "retryable", "said"),
    [
        (hang_up, "transport", True, "no connection to 127.0.0.1"),
        (reply('{"a": 1}', length=500), "transport", True, "was lost during the response"),
        (reply("", status="503 Busy", headers={"Retry-After": "7"}), "server_error", False, "HTTP 503"),
        (reply("", status="429 Slow", headers={"Retry-After": "7"}), "rate_limited", False, "HTTP 429"),
        (reply("", status="401 No"), "auth", False, "HTTP 401; check the key"),
        (reply("", status="302 Found", headers={"Location": "/x"}), "transport", False, "redirect to /x"),
        (reply(b"not http at all", status="OK"), "transport", True, "no connection"),
        (reply(b"junk", headers={"Content-Encoding": "gzip"}), "malformed_reply", False, "cannot be decompressed"),
        (
            reply(gzip.compress(b"x" * 99, mtime=0)[:-9], headers={"Content-Encoding": "gzip"}),
            "malformed_reply",
            False,
            "compressed response is truncated",
        ),
        (reply(b"x", headers={"Content-Encoding": "zstd"}), "malformed_reply", False, "has the encoding 'zstd'"),
        (reply(BOMB, headers={"Content-Encoding": "gzip"}), "too_large", False, "larger than 10 MiB"),
        (endless(b"x" * 2**20), "too_large", False, "larger than 10 MiB"),
        (
            endless(b"100000\r\n" + b"x" * 2**20 + b"\r\n", head="Transfer-Encoding: chunked\r\n"),
            "too_large",
            False,
            "",
        ),
    ],
)
def test_whatever_a_server_does_is_one_failure(answer: Answer, kind: str, *, retryable: bool, said: str) -> None:
    failure = failure_of(answer)

    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert said in failure.message


def test_a_refused_connection_is_a_network_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ProviderError) as raised:
            get(f"http://{place}/")

    assert raised.value.failure == Failure(
        "transport", f"no connection to {place} (Connection refused)", retryable=True
    )


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        with pytest.raises(ProviderError) as raised:
            get("http://behind-a-proxy.example/")

    said = f"no connection to behind-a-proxy.example (proxy {proxy}: Connection refused)"
    assert raised.value.failure.message == said


def test_an_unknown_host_is_reported_in_the_words_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ProviderError) as raised:
        get("http://nowhere.invalid/")

    assert raised.value.failure.message == "no connection to nowhere.invalid (Name or service not known)"


def test_a_server_without_tls_is_reported_in_the_words_of_tls() -> None:
    with serving_fake() as server, pytest.raises(ProviderError) as raised:
        get(server.url.replace("http:", "https:"))

    place = server.url.removeprefix("http://")
    assert raised.value.failure.kind == "transport"
    assert raised.value.failure.message.startswith(f"no connection to {place} ([SSL: ")


@pytest.mark.parametrize(
    "answer", [never_answer, endless(b"x", pause_s=0.01), endless(b"HTTP/1.1 100 Continue\r\n\r\n")]
)
def test_a_server_that_never_comes_to_an_end_meets_the_deadline(answer: Answer) -> None:
    failure = failure_of(answer, timeout_s=0.3)

    assert (failure.kind, failure.retryable) == ("deadline", True)
    assert "within 0.3 s" in failure.message


def test_the_naive_time_out_never_ends_a_slow_drip() -> None:
    drip = endless(b"x", head="Content-Length: 100\r\n", times=100, pause_s=0.01)

    with serving(drip) as server, urllib.request.urlopen(server.url, timeout=0.3) as response:
        assert len(response.read()) == 100  # a whole second, though the time-out is 0.3 s


def test_the_naive_client_takes_its_key_along_on_a_redirect() -> None:
    with serving(reply("")) as stranger:
        away = reply("", status="302 Found", headers={"Location": stranger.url})
        with serving(away) as server:
            request = urllib.request.Request(server.url, headers={"Authorization": "Bearer k"})
            urllib.request.urlopen(request, timeout=PATIENCE_S).close()
            assert stranger.requests[0].headers["authorization"] == "Bearer k"

            with pytest.raises(ProviderError):
                get(server.url, headers={"Authorization": "Bearer k"})
            assert len(stranger.requests) == 1


def test_an_address_that_is_none_is_an_error_of_the_settings() -> None:
    with pytest.raises(ProviderError, match="cannot be used in a request") as raised:
        get("http://[bad")

    assert raised.value.failure.kind == "config_error"


def test_a_key_with_a_line_break_cannot_add_a_header() -> None:
    with serving(reply("")) as server, pytest.raises(ProviderError, match="cannot be used in a request") as raised:
        get(server.url, headers={"Authorization": "Bearer a\nX-Evil: 1"})

    assert raised.value.failure.kind == "config_error"
    assert server.requests == []


def test_nothing_of_one_reply_reaches_the_next_request() -> None:
    async def run(url: str) -> None:
        async with SharedResources() as shared:
            for _ in range(2):
                await send(HttpRequest(url, {}), shared, timeout_s=PATIENCE_S)

    with serving(reply("", headers={"Set-Cookie": "session=1; Path=/"})) as server:
        asyncio.run(run(server.url))

    assert ["cookie" in request.headers for request in server.requests] == [False, False]


def test_a_health_url_must_answer_with_success() -> None:
    async def run(url: str) -> None:
        async with SharedResources() as shared:
            await check_url(url, shared, timeout_s=PATIENCE_S)

    with serving(reply("ok")) as server:
        asyncio.run(run(server.url + "/health"))
        assert server.requests[0].line == "GET /health HTTP/1.1"
    with serving(reply("", status="500 No")) as server, pytest.raises(ProviderError, match="HTTP 500"):
        asyncio.run(run(server.url))


FLOOD_CLIENT = """
import asyncio, json, resource, sys, urllib.request
from agentv.execution.sharing import TurnQueue
from agentv.execution.sharing import SharedResources
from agentv.providers.apis.http import HttpRequest
from agentv.providers.apis.transport import send
from agentv.types.provider import ProviderError

how, url = sys.argv[1:]
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 150 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

async def ours():
    async with SharedResources() as shared:
        for _ in range(3):
            try:
                await send(HttpRequest(url, {}), shared, timeout_s=60)
            except ProviderError as error:
                print(error.failure.kind)

if how == "naive":
    urllib.request.urlopen(url, timeout=60).read()
asyncio.run(ours())
"""


@pytest.mark.parametrize(("how", "printed", "said"), [("ours", "too_large\n" * 3, ""), ("naive", "", "MemoryError")])
def test_600_mb_need_little_memory_and_the_naive_version_all_there_is(how: str, printed: str, said: str) -> None:
    flood = endless(b"x" * 2**20, head=f"Content-Length: {600 * 2**20}\r\n", times=600)

    with serving(flood) as server:
        argv = [sys.executable, "-c", FLOOD_CLIENT, how, server.url]
        result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)

    assert result.stdout == printed
    assert said in result.stderr


def test_the_proxy_of_the_environment_is_used_but_never_for_this_machine() -> None:
    program = """
import json, os
os.environ.update({"http_proxy": "http://proxy:3128", "no_proxy": "inside.example"})
from agentv.providers.apis.transport import _proxy_for
hosts = ("a.example", "inside.example", "localhost:8", "127.0.0.1")
print(json.dumps([_proxy_for(f"http://{host}/") for host in hosts]))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert json.loads(result.stdout) == ["http://proxy:3128", None, None, None]


def test_a_reply_is_gone_on_with_in_its_turn() -> None:
    class Counted(TurnQueue):
        taken = 0

        async def turn(self) -> None:
            self.taken += 1
            await super().turn()

    async def run(url: str) -> int:
        turns = Counted()

        @asynccontextmanager
        async def network() -> AsyncIterator[Network]:
            async with open_network() as opened:
                yield replace(opened, queue=turns)

        async with SharedResources() as shared:
            await shared.get(NETWORK, network)
            await send(HttpRequest(url, {}), shared, timeout_s=PATIENCE_S)
        return turns.taken

    with serving(reply("ok")) as server:
        assert asyncio.run(run(server.url)) == 1


def test_a_session_is_closed_with_what_it_belongs_to() -> None:
    async def run() -> bool:
        async with SharedResources() as shared:
            session = (await shared.get(NETWORK, open_network)).session
        return session.closed

    assert asyncio.run(run())
