"""The viewer's server for tests, and a client that keeps its cookies."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, field
from tests.support.served import serving_in_thread

from agentv.view.access import READER, Access
from agentv.view.library import Library
from agentv.view.server import ViewServer


class Reply(Struct):
    """A response of the viewer."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Client(Struct):
    """A browser without scripts: it sends its cookies, and follows no redirect by itself."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, *, body: str | None = None, **headers: str) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        name, _, value = response.headers.get("Set-Cookie", "").partition(";")[0].partition("=")
        if name:
            self.cookies[name] = value
        return Reply(response.status, dict(response.headers), text)

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, **headers)


class Viewer(Struct):
    """A running viewer."""

    server: ViewServer
    access: Access
    library: Library

    @property
    def port(self) -> int:
        return self.server.port

    def client(self, reviewer: str = READER) -> Client:
        """Return a client that has opened the link of a reviewer."""
        client = Client(self.port)
        assert client.get(f"/?token={self.access.tokens[reviewer]}").status == 303
        return client


@contextmanager
def serving_view(home: Path, *, reviewers: Sequence[str] = (), **options: Any) -> Iterator[Viewer]:
    """Serve the runs in `home` until the end of the block. `options` are those of ViewServer."""
    access = Access.create(reviewers=reviewers)
    library = Library(home)
    with serving_in_thread(ViewServer(library, access, **options)) as server:
        yield Viewer(server, access, library)


def post(client: Client, path: str, *fields: tuple[str, str]) -> Reply:
    """Send a form from one of the viewer's own pages."""
    host = f"127.0.0.1:{client.port}"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{host}"}
    return client.send("POST", path, body=urlencode(fields), **headers)
