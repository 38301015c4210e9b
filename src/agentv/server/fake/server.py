"""The fake model server as an object: start it, ask it, look into its log, stop it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Self

from aiohttp import web
from msgspec import Struct

from agentv.server.fake.answers import answer as usual_answer
from agentv.server.fake.conversation import Question, Reply
from agentv.server.fake.endpoints import Endpoints, Manner
from agentv.server.fake.log import Call, CallLog
from agentv.server.fake.quota import Quota, Quotas
from agentv.server.fake.routes import add_routes

HOST = "127.0.0.1"
_MAX_REQUEST_BYTES = 512 * 2**20


class Received(Struct, frozen=True):
    """One request as it came: the path with its query, header names in lower case. It holds the key."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class FakeServer:
    """A server on this machine that speaks the model APIs. Use it with `async with`; `url` is known from then on.

    `port` 0 takes a free one. `quota` limits every key. `retry_after_s` is what refusals ask for, `latency_s` how long
    a reply takes, `batch_polls` how often a batch is looked at before it is done. With `keep_requests` everything
    received is kept in `requests`. `answer` says what the model says in place of answers.answer.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        quota: Quota | None = None,
        retry_after_s: float = 1.0,
        latency_s: float = 0.0,
        batch_polls: int = 2,
        keep_requests: bool = False,
        answer: Callable[[Question], Reply] = usual_answer,
    ) -> None:
        self.port = port
        self.requests: list[Received] = []
        self._batch_polls = batch_polls
        self._keep_requests = keep_requests
        self._numbers = count(1)
        self._log = CallLog()
        self._manner = Manner(answer, latency_s, retry_after_s)
        self._quotas = Quotas(quota)
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is, without a path and a slash at the end."""
        return f"http://{HOST}:{self.port}"

    @property
    def calls(self) -> list[Call]:
        """Every request to a model, and every one that missed the paths, in the order in which they were answered."""
        return list(self._log.calls)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES, middlewares=[self._receive])
        add_routes(app, Endpoints(self._manner, self._quotas, self._log, self._closing), self._batch_polls)
        app.on_response_prepare.append(self._name_request)
        # A client that hangs up ends its request: nothing waits for those who are gone.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self.port).start()
        except OSError:
            await runner.cleanup()
            raise
        self.port = runner.addresses[0][1]
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _name_request(self, _: web.Request, response: web.StreamResponse) -> None:
        """Give a reply the name by which the APIs speak of a request; each has its own header for it."""
        name = f"req_fake_{next(self._numbers)}"
        for header in ("x-request-id", "request-id", "apim-request-id"):
            response.headers[header] = name

    @web.middleware
    async def _receive(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._keep_requests:
            headers = {name.lower(): value for name, value in request.headers.items()}
            self.requests.append(Received(request.method, request.path_qs, headers, await request.read()))
        return await handler(request)
