"""Google's client (google-genai) and our adapter send the same, to Gemini and to Vertex."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from google.oauth2.credentials import Credentials
from tests.providers.oracle.google_client import genai, types
from tests.providers.oracle.side_by_side import (
    OPTIONS,
    PARAMETERS,
    PICTURE,
    QUESTION,
    SCHEMA,
    SYSTEM,
    TURNS,
    Option,
    ours,
    settings_without_a_case,
    theirs,
)
from tests.support.asking import make_target
from tests.support.fake_server import serving_fake

from agentv.fake import FakeServer
from agentv.providers.apis.gemini import GeminiSettings

KEY = "sk-0123456789"
TOKEN = "token-0123456789"
ROLES = {"user": "user", "assistant": "model"}
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name="lookup", description="Find an order", parameters_json_schema=PARAMETERS)
    ]
)
SCRIPT = 'Look it up.\n@call lookup {"order": 7}\n@say It is on its way.'
EXTRA = {"generationConfig": {"topK": 5}, "safetySettings": [{"category": "HARM", "threshold": "NONE"}]}


def said(role: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=list(parts))


def with_options(**options: Any) -> Mapping[str, Any]:
    return {"config": {"http_options": types.HttpOptions(**options)}}


CONTENT: Mapping[str, Mapping[str, Any]] = {
    "a question": {},
    "a system prompt and guidelines": {"config": {"system_instruction": SYSTEM}},
    "a conversation": {
        "config": {"system_instruction": TURNS[0].content},
        "contents": [said(ROLES[turn.role], types.Part(text=turn.content)) for turn in TURNS[1:]],
    },
    "temperature": {"config": {"temperature": 0.2}},
    "the request's temperature": {"config": {"temperature": 0.0}},
    "max_output_tokens": {"config": {"max_output_tokens": 50}},
    "the request's max_output_tokens": {"config": {"max_output_tokens": 9}},
    "the request's model": {"model": "m-2"},
    "a schema": {"config": {"response_mime_type": "application/json", "response_json_schema": SCHEMA}},
    "a schema that is not sent": {},
    "tools": {"config": {"tools": [TOOL]}},
    "extra_headers": with_options(headers={"X-Team": "orders"}),
    "a stream": {"stream": True},
    "a picture": {
        "contents": [
            said(
                "user",
                types.Part(text=QUESTION),
                types.Part.from_bytes(data=PICTURE.read_bytes(), mime_type="image/png"),
            )
        ]
    },
    "extra_body": {"config": {"temperature": 0.2, "http_options": types.HttpOptions(extra_body=EXTRA)}},
    "a model by its whole path": {"model": "tunedModels/shop 1"},
}
OF_GEMINI: Mapping[str, Option] = {
    **OPTIONS,
    "extra_body": Option({"temperature": 0.2, "extra_body": EXTRA}),
    "a model by its whole path": Option(request={"model": "tunedModels/shop 1"}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


def content(client: genai.Client, *, stream: bool = False, **given: Any) -> Callable[[], Any]:
    options = {"model": "m", "contents": QUESTION, **given}
    if stream:
        return lambda: list(client.models.generate_content_stream(**options))
    return lambda: client.models.generate_content(**options)


def without_nothing(sent: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return requests without the empty generationConfig that Google's client sends beside some options."""
    bodies = [{key: value for key, value in one["body"].items() if value != {}} for one in sent]
    return [{**one, "body": body} for one, body in zip(sent, bodies, strict=True)]


def google_credentials() -> Credentials:
    return Credentials(TOKEN)  # type: ignore[no-untyped-call] # google-auth types its classes only in part


def gemini_client(server: FakeServer) -> genai.Client:
    return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=server.url))


def test_every_setting_has_its_case() -> None:
    assert CONTENT.keys() == OF_GEMINI.keys()
    is_total = {"model", "base_url", "api_key"}
    assert settings_without_a_case(GeminiSettings, OF_GEMINI) == is_total | {"project", "location"}


@pytest.mark.parametrize("name", OF_GEMINI)
def test_gemini_is_sent_the_same(server: FakeServer, name: str) -> None:
    option = OF_GEMINI[name]
    settings = GeminiSettings(model="m", base_url=f"{server.url}/", api_key=KEY, **option.settings)
    with gemini_client(server) as client:
        expected = without_nothing(theirs(server, content(client, **CONTENT[name])))

    assert ours(server, make_target("gemini", settings), **option.request) == expected


@pytest.mark.parametrize("location", [None, "global", "europe-west4"])
@pytest.mark.parametrize("name", ["a question", "a system prompt and guidelines", "temperature", "tools"])
def test_vertex_is_sent_the_same(server: FakeServer, name: str, location: str | None) -> None:
    option = OF_GEMINI[name]
    settings = GeminiSettings(
        model="m",
        base_url=server.url,
        project="p-1",
        location=location,
        extra_headers={"Authorization": f"Bearer {TOKEN}"},
        **option.settings,
    )
    place = types.HttpOptions(base_url=server.url)
    with genai.Client(
        vertexai=True,
        project="p-1",
        location=location or "global",
        credentials=google_credentials(),
        http_options=place,
    ) as client:
        expected = without_nothing(theirs(server, content(client, **CONTENT[name])))

    assert ours(server, make_target("gemini", settings), **option.request) == expected


@pytest.mark.parametrize("location", ["global", "europe-west4", None])
def test_vertex_has_the_same_address_by_default(location: str | None) -> None:
    settings = GeminiSettings(project="p-1", location=location)
    with genai.Client(vertexai=True, project="p-1", location=location, credentials=google_credentials()) as client:
        expected = client._api_client._http_options

    assert settings.root_url == f"{str(expected.base_url).rstrip('/')}/{expected.api_version}"


def test_gemini_has_the_same_address_by_default() -> None:
    with genai.Client(api_key=KEY) as client:
        expected = client._api_client._http_options

    assert GeminiSettings(api_key=KEY).root_url == f"{str(expected.base_url).rstrip('/')}/{expected.api_version}"


def test_it_goes_on_after_a_tool_in_the_same_way(server: FakeServer) -> None:
    settings = GeminiSettings(
        model="m",
        base_url=server.url,
        api_key=KEY,
        tools=({"name": "lookup", "description": "Find an order", "parameters": PARAMETERS},),
        tool_responses={"lookup": {"status": "sent"}},
    )
    first = said("user", types.Part(text=SCRIPT))
    config = {"tools": [TOOL]}

    def converse(client: genai.Client) -> None:
        reply = content(client, contents=[first], config=config)()
        turn = reply.candidates[0].content
        answer = types.Part(
            function_response=types.FunctionResponse(
                id=turn.parts[-1].function_call.id, name="lookup", response={"status": "sent"}
            )
        )
        content(client, contents=[first, turn, said("user", answer)], config=config)()

    sent = ours(server, make_target("gemini", settings), question=SCRIPT)

    assert len(sent) == 2
    with gemini_client(server) as client:
        assert sent == without_nothing(theirs(server, lambda: converse(client)))
