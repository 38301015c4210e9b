"""Only the holder of a token reads the viewer's pages, and no foreign page reads or changes anything."""

import pytest
from tests.support.viewer import Client, Viewer

from agentv.view.access import READER, Access


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


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[", ""])
def test_another_host_is_refused(client: Client, host: str) -> None:
    assert client.get("/", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:80"])
def test_loopback_names_are_accepted_on_any_port(client: Client, host: str) -> None:
    assert client.get("/", Host=host).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", None])
def test_a_change_from_another_origin_is_refused(client: Client, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    assert client.send("POST", "/", body="", **headers).status == 403


def test_every_response_forbids_foreign_content(client: Client) -> None:
    for path in ("/", "/r/latest", "/none", "/assets/none.css"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_tokens_differ_by_reviewer() -> None:
    access = Access.create(reviewers=("ada", "bob"))
    assert len(set(access.tokens.values())) == 3
    assert [access.reviewer_of(token) for token in access.tokens.values()] == [READER, "ada", "bob"]
    assert access.reviewer_of("") is None
