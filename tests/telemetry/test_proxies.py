"""Requests to collectors and services through the proxy that the environment names."""

import socket
from base64 import b64encode
from pathlib import Path

import pytest
from tests.support.certificates import Authority, tls_of
from tests.support.loopback import reply, serving
from tests.support.proxy import proxying
from tests.telemetry.test_post import send

from agentv.telemetry.sending.post import Accepted, Refused
from agentv.telemetry.sending.proxies import proxy_for


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_a_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reply("")) as server, proxying(server.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        assert send("http://collector.example:4318", b"body", COMPRESSION="none") == Accepted()
        assert proxy.requests() == ["POST http://collector.example:4318/v1/traces HTTP/1.1 -"]
    (request,) = server.requests
    assert (request.line, request.body) == ("POST /v1/traces HTTP/1.1", b"body")
    assert request.headers["host"] == "collector.example:4318"


def test_a_request_with_tls_goes_through_a_tunnel_that_sees_no_header(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    tls = tls_of(authority.certificate("collector.example"))
    with serving(reply(""), tls=tls) as server, proxying(server.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:hush@{proxy.address}")
        sent = send("https://collector.example", CERTIFICATE=str(authority.file), HEADERS="api-key=s3cret")
        assert sent == Accepted()
        credentials = b64encode(b"me:hush").decode()
        (asked,) = proxy.requests()
        assert asked.split()[:2] == ["CONNECT", "collector.example:443"]
        assert asked.split()[-1] == credentials
    (request,) = server.requests
    assert (request.headers["api-key"], "proxy-authorization" in request.headers) == ("s3cret", False)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_cannot_be_reached_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:hush@{place}")
        outcome = send(f"{scheme}://collector.example")
    assert outcome == Refused(f"proxy {place}: connection refused")


def test_a_proxy_that_refuses_a_tunnel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxying(9, refuses="407 Proxy Authentication Required") as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        outcome = send("https://collector.example")
    said = "tunnel connection failed: 407 proxy authentication required"
    assert outcome == Refused(f"proxy {proxy.address}: {said}")


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://proxy.example:1080")
    said = "proxy proxy.example:1080: it has the scheme 'socks5'; only http:// is supported"
    assert send("http://collector.example") == Refused(said)


def test_this_machine_and_hosts_of_no_proxy_need_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    hosts = ("a.example", "inside.example", "localhost:8", "127.0.0.1", "[::1]:4318")
    assert [proxy_for(f"http://{host}/") for host in hosts] == ["http://proxy:3128", None, None, None, None]
    assert proxy_for("https://a.example") is None
