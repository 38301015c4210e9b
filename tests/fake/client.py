"""A plain HTTP client that follows no redirects, decompresses nothing and returns the raw reply."""

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentv.fake import FakeServer

PATIENCE_S = 20.0
MESSAGES = [{"role": "user", "content": "Where is my order?"}]
SAID = "You said: Where is my order?"
CONTENTS = [{"role": "user", "parts": [{"text": "Where is my order?"}]}]


@dataclass(frozen=True)
class Answer:
    """A reply. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of server-sent events, without [DONE]."""
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def connect(server: FakeServer, *, timeout_s: float = PATIENCE_S) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=timeout_s)


def open_chat(server: FakeServer, model: str, *, timeout_s: float = PATIENCE_S) -> http.client.HTTPConnection:
    """Send a request without waiting for the reply."""
    connection = connect(server, timeout_s=timeout_s)
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": model, "messages": MESSAGES}))
    return connection


def until(holds: Callable[[], bool]) -> None:
    """Poll until a condition holds that the server reaches asynchronously."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end


def send(
    server: FakeServer,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    connection = connect(server)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, named, response.read())
    finally:
        connection.close()


def post(server: FakeServer, path: str, body: object, **headers: str) -> Answer:
    """Post JSON; `x_api_key="k"` is a header."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return send(server, "POST", path, content, {"Content-Type": "application/json", **named})


def get(server: FakeServer, path: str) -> Answer:
    return send(server, "GET", path)


def chat(server: FakeServer, model: str = "fake", **more: object) -> Answer:
    return post(server, "/v1/chat/completions", {"model": model, "messages": MESSAGES, **more})


def responses(server: FakeServer, model: str = "fake", **more: object) -> Answer:
    return post(server, "/v1/responses", {"model": model, "input": MESSAGES, **more})


def messages(server: FakeServer, model: str = "fake", **more: object) -> Answer:
    body = {"model": model, "max_tokens": 1000, "messages": MESSAGES, **more}
    return post(server, "/v1/messages", body, anthropic_version="2023-06-01")


def azure(server: FakeServer, model: str = "fake", **more: object) -> Answer:
    path = f"/openai/deployments/{model}/chat/completions?api-version=2024-10-01-preview"
    return post(server, path, {"messages": MESSAGES, **more})


def gemini(server: FakeServer, model: str = "fake", **more: object) -> Answer:
    method = "streamGenerateContent?alt=sse" if more.pop("stream", False) else "generateContent"
    return post(server, f"/v1beta/models/{model}:{method}", {"contents": CONTENTS, **more})


def chat_text(said: Any) -> str:
    return str(said["choices"][0]["message"]["content"])


def responses_text(said: Any) -> str:
    return "".join(part["text"] for item in said["output"] for part in item["content"])


def messages_text(said: Any) -> str:
    return "".join(block["text"] for block in said["content"] if block["type"] == "text")


def gemini_text(said: Any) -> str:
    return "".join(part.get("text", "") for part in said["candidates"][0]["content"]["parts"])


ASK: Mapping[str, Callable[..., Answer]] = {
    "chat": chat,
    "azure": azure,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
}
TEXT_OF: Mapping[str, Callable[[Any], str]] = {
    "chat": chat_text,
    "azure": chat_text,
    "responses": responses_text,
    "messages": messages_text,
    "gemini": gemini_text,
}
