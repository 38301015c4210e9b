"""Only the holder of a token reads the viewer's pages, and no foreign page reads or changes anything."""

from pathlib import Path

import pytest
from tests.support.served import serving_in_thread
from tests.support.viewer import Client, Viewer

from agentv.view.access import READER, Access
from agentv.view.library import Library
from agentv.view.server import ViewServer


def test_a_page_without_a_token_is_refused(viewer: Viewer) -> None:
    reply = Client(viewer.port).get("/")
    assert reply.status == 403
    assert "A token is needed" in reply.text


def test_a_wrong_token_is_refused_and_sets_no_cookie(viewer: Viewer) -> None:
    client = Client(viewer.port)
    assert client.get("/?token=guess").status == 403
    assert client.cookies == {}


def test_a_token_becomes_a_cookie_and_leaves_the_address(viewer: Viewer) -> None:
    client = Client(viewer.port)
    reply = client.get(f"/r/latest?state=fail&token={viewer.access.tokens[READER]}")
    assert (reply.status, reply.headers["Location"]) == (303, "/r/latest?state=fail")
    assert "HttpOnly" in reply.headers["Set-Cookie"]
    assert "SameSite=Strict" in reply.headers["Set-Cookie"]
    assert client.get(reply.headers["Location"]).status == 200


def test_the_cookie_is_named_by_the_port(viewer: Viewer) -> None:
    assert list(viewer.client().cookies) == [f"agentv-{viewer.port}"]


def test_a_token_in_a_path_with_two_slashes_leads_to_no_other_host(viewer: Viewer) -> None:
    reply = Client(viewer.port).get(f"//evil.example/x?token={viewer.access.tokens[READER]}")
    assert reply.headers["Location"] == "/evil.example/x"


def test_a_token_in_a_path_with_a_backslash_leads_to_no_other_host(viewer: Viewer) -> None:
    # Browsers read a backslash as a slash.
    reply = Client(viewer.port).get(f"/\\evil.example/x?token={viewer.access.tokens[READER]}")
    assert reply.headers["Location"] == "/evil.example/x"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1:80.evil.example",
        "127.0.0.1#evil.example",
        "0.0.0.0",
        "[",
        "",
    ],
)
def test_another_host_is_refused(client: Client, host: str) -> None:
    assert client.get("/", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:80"])
def test_loopback_names_are_accepted_on_any_port(client: Client, host: str) -> None:
    assert client.get("/", Host=host).status == 200


def test_a_head_request_is_answered_as_one_that_reads(client: Client) -> None:
    assert client.send("HEAD", "/").status == 200


def test_a_cookie_with_any_bytes_is_refused(viewer: Viewer) -> None:
    assert Client(viewer.port, {f"agentv-{viewer.port}": "\xff\xed\xa0\x80"}).get("/").status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://[", "http://[x]", None]
)
def test_a_change_from_another_origin_is_refused(client: Client, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    assert client.send("POST", "/", body="", **headers).status == 403


def test_every_response_forbids_foreign_content(client: Client) -> None:
    for path in ("/", "/r/latest", "/none", "/assets/none.css"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded; charset=none", "multipart/form-data", "multipart/form-data; boundary=x"],
)
def test_a_form_that_cannot_be_read_is_refused(client: Client, content_type: str) -> None:
    host = f"127.0.0.1:{client.port}"
    reply = client.send("POST", "/categories/latest", body="a=b", Content_Type=content_type, Origin=f"http://{host}")
    assert reply.status == 400
    assert "the form cannot be read" in reply.text


def test_a_host_name_may_have_capitals() -> None:
    access = Access.create(token="secret", host="Build-Server.example")
    assert access.is_expected_host("build-server.example:80")
    assert not access.is_expected_host("other.example:80")


@pytest.mark.parametrize("token", ["a b&c", 'ä;"x', "%20+?#/"])
def test_a_chosen_token_may_have_any_characters(home: Path, token: str) -> None:
    access = Access.create(token=token)
    with serving_in_thread(ViewServer(Library(home), access)) as server:
        client = Client(server.port)
        assert client.get(server.link().removeprefix(server.url)).status == 303
        assert client.get("/").status == 200


def test_the_address_of_an_ipv6_host_has_brackets(home: Path) -> None:
    server = ViewServer(Library(home), Access.create(token="secret", host="::1"), host="::1", port=80)
    assert server.url == "http://[::1]:80"


def test_tokens_differ_by_reviewer() -> None:
    access = Access.create(reviewers=("ada", "bob"))
    assert len(set(access.tokens.values())) == 3
    assert [access.reviewer_of(token) for token in access.tokens.values()] == [READER, "ada", "bob"]
    assert access.reviewer_of("") is None


def test_the_link_for_a_browser_opens_a_page_once(viewer: Viewer) -> None:
    path = viewer.server.link_once("/r/latest", reviewer="ada").removeprefix(viewer.server.url)
    assert not any(token in path for token in viewer.access.tokens.values())
    client = Client(viewer.port)
    assert client.get(path).headers["Location"] == "/r/latest"
    assert list(client.cookies.values()) == [viewer.access.tokens["ada"]]
    assert Client(viewer.port).get(path).status == 403
