"""Services that keep scores beside traces, on loopback: Langfuse and Phoenix, strict about what they are sent.

Their requests and answers are those of the real ones: the ingestion API of Langfuse 2 to 4, and the REST API of Phoenix
20, whose sources were read for this. tests/telemetry/test_real_services.py compares them with the real packages.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct, field
from tests.support.collectors import handling

PUBLIC_KEY, SECRET_KEY, API_KEY = "pk-lf-fake", "sk-lf-s3same-0pen", "s3same-phoenix-0pen"

Refuse = Callable[[web.Request], web.Response | None]
"""Returns a response instead of taking a request, or None to take it."""


class Scored(Struct):
    """A score that a service keeps."""

    trace_id: str
    span_id: str
    name: str
    value: float
    reasons: str | None
    metadata: Mapping[str, Any]
    kind: str = ""


class Service(Struct):
    """A service, what it keeps by its identity, and what it was sent."""

    url: str = ""
    scores: dict[tuple[str, ...], Scored] = field(default_factory=dict)
    requests: int = 0
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)


class _Strict(Struct, forbid_unknown_fields=True):
    pass


class _LangfuseScore(_Strict, rename="camel"):
    id: Annotated[str, Meta(min_length=1, max_length=800)]
    name: Annotated[str, Meta(min_length=1)]
    trace_id: str
    value: float
    data_type: Literal["NUMERIC"]
    metadata: dict[str, Any] = {}
    observation_id: str | None = None
    comment: str | None = None
    environment: Annotated[str, Meta(pattern="^(?!langfuse)[a-z0-9-_]+$", max_length=40)] = "default"


class _LangfuseEvent(_Strict):
    id: Annotated[str, Meta(min_length=1, max_length=800)]
    type: Literal["score-create"]
    timestamp: Annotated[datetime, Meta(tz=True)]
    body: _LangfuseScore


class _LangfuseBatch(_Strict):
    batch: list[dict[str, Any]]
    metadata: Any = None


class _Result(_Strict):
    score: float
    label: str | None = None
    explanation: str | None = None


class _Annotation(_Strict):
    name: str
    annotator_kind: Literal["LLM", "CODE", "HUMAN"]
    result: _Result
    metadata: dict[str, Any]
    identifier: str
    span_id: str = ""
    trace_id: str = ""


class _Annotations(_Strict):
    data: list[_Annotation]


def take_batch(service: Service, request: web.Request, body: bytes) -> web.Response:
    """Answer as Langfuse does: always 207, with an error for each event that it does not take."""
    given = b64encode(f"{PUBLIC_KEY}:{SECRET_KEY}".encode()).decode()
    if request.path != "/api/public/ingestion":
        return web.json_response({"message": "not found"}, status=404)
    if request.headers.get("Authorization") != f"Basic {given}":
        return web.json_response({"message": "Invalid credentials."}, status=401)
    successes, errors = [], []
    for raw in msgspec.json.decode(body, type=_LangfuseBatch).batch:
        try:
            event = msgspec.convert(raw, _LangfuseEvent)
        except msgspec.ValidationError as error:
            errors.append({"id": raw["id"], "status": 400, "message": "Invalid request data", "error": str(error)})
            continue
        successes.append({"id": event.id, "status": 201})
        score = event.body
        # The sorting key of its table of scores.
        key = (score.id, score.name, event.timestamp.date().isoformat())
        service.scores[key] = Scored(
            score.trace_id, score.observation_id or "", score.name, score.value, score.comment, score.metadata
        )
    return web.json_response({"successes": successes, "errors": errors}, status=207)


def take_annotations(
    service: Service, request: web.Request, body: bytes, *, knows: Callable[[str], bool] = lambda _id: True
) -> web.Response:
    """Answer as Phoenix does with `sync=true`: all annotations, or 404 with the ids that it does not know."""
    kind = request.path.removeprefix("/v1/").removesuffix("_annotations")
    if request.path not in ("/v1/span_annotations", "/v1/trace_annotations"):
        return web.Response(status=405, text="Method Not Allowed")
    if request.headers.get("Authorization") != f"Bearer {API_KEY}":
        return web.Response(status=401, text="Invalid token")
    assert request.query == {"sync": "true"}
    annotations = msgspec.json.decode(body, type=_Annotations).data
    if any(each.name == "note" for each in annotations):
        return web.Response(status=400, text="The name 'note' is reserved for trace and span notes.")
    ids = [each.span_id if kind == "span" else each.trace_id for each in annotations]
    missing = [each for each in dict.fromkeys(ids) if not knows(each)]
    if missing:
        return web.Response(status=404, text=f"{kind.title()}s with IDs {', '.join(missing)} do not exist.")
    for judged, each in zip(ids, annotations, strict=True):
        service.scores[each.name, judged, each.identifier] = Scored(
            each.trace_id,
            each.span_id,
            each.name,
            each.result.score,
            each.result.explanation,
            each.metadata,
            each.annotator_kind,
        )
    return web.json_response({"data": [{"id": f"U3Bhbg{number}"} for number in range(len(annotations))]})


Take = Callable[[Service, web.Request, bytes], web.Response]


@contextmanager
def keeping_scores(take: Take, refuse: Refuse = lambda _request: None) -> Iterator[Service]:
    """Serve one of the services in a thread."""
    service = Service()

    async def handle(request: web.Request) -> web.Response:
        body = await request.content.read()
        service.requests += 1
        service.headers.append(dict(request.headers))
        response = refuse(request)
        if response is not None:
            return response
        service.bodies.append(body)
        return take(service, request, body)

    with handling(handle) as service.url:
        yield service


def traced_lines(count: int) -> str:
    """Return a log whose answers name the spans that they come from."""
    ids = [(f"{number + 1:032x}", f"{number + 1:016x}") for number in range(count)]
    lines = [
        {"id": f"l{number}", "prompt": "Hi", "response": "Hello", "metadata": {"trace_id": trace, "span_id": span}}
        for number, (trace, span) in enumerate(ids)
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines)
