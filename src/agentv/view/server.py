"""The viewer's server: routes to pages, access, and what every response has."""

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from aiohttp import web

from agentv.reports.text.markup import Html, element
from agentv.reports.text.printable import one_line
from agentv.types.errors import AgentvError
from agentv.types.hosts import url_of
from agentv.types.messages_json import compact_json
from agentv.view.access import READER, SECURITY_HEADERS, Access, is_same_origin
from agentv.view.address import BadAddressError, Query, path_to
from agentv.view.assets import asset_at
from agentv.view.library import CopiedRunError, IncomparableRunsError, Library, UnknownRunError
from agentv.view.pages.categories import categories_page, change_categories
from agentv.view.pages.compare import compare_first_look, compare_page, compare_two_page
from agentv.view.pages.grid import grid_page
from agentv.view.pages.judge import judge_page
from agentv.view.pages.page import Page, Request, Saved, error_page, page_html, preparing_page
from agentv.view.pages.queue import queue_page
from agentv.view.pages.review import check_blind, conflicts_page, next_page, save_label, save_resolution
from agentv.view.pages.row import case_page, row_page, text_page
from agentv.view.pages.rows import rows_page
from agentv.view.pages.run import run_page
from agentv.view.pages.runs import runs_page
from agentv.view.pages.trend import trend_page
from agentv.view.reviews import BadLabelError, LabelledAlreadyError, ReviewRefusedError, Reviews, UnknownItemError

_LOG = logging.getLogger(__name__)

MakePage: TypeAlias = Callable[[Request], Page]
Change: TypeAlias = Callable[[Request], Saved]
Made = TypeVar("Made")
T = TypeVar("T")
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PAGES: Mapping[str, MakePage] = {
    "/": runs_page,
    "/r/{run}": run_page,
    "/r/{run}/rows": rows_page,
    "/r/{run}/grid": grid_page,
    "/r/{run}/row/{seq}": row_page,
    "/r/{run}/row/{seq}/text/{text}": text_page,
    "/r/{run}/case/{case}": case_page,
    "/compare": compare_two_page,
    "/compare/{runs}": compare_page,
    "/trend/{suite}": trend_page,
    "/judge/{judge}": judge_page,
    "/q/{queue}": queue_page,
    "/q/{queue}/next": next_page,
    "/q/{queue}/conflicts": conflicts_page,
    "/categories/{run}": categories_page,
}
_FIRST_LOOKS: Mapping[MakePage, Callable[[Request], Page | None]] = {compare_page: compare_first_look}
"""What is shown of a page that takes long to make, while it is made."""
_CHANGES: Mapping[str, Change] = {
    "/q/{queue}/next": save_label,
    "/q/{queue}/conflicts": save_resolution,
    "/categories/{run}": change_categories,
}
_THREADS = 4
_REVIEW_THREADS = 2
"""Of their own, so that pages that take long delay no label."""
_PATIENCE_S = 1.0
"""How long a browser waits for a page before it gets one that says that the page is being prepared."""
_MAX_ADDRESS_BYTES = 64 * 1024
_MAX_REQUEST_BYTES = 1024 * 1024
_JSON = ".json"
_READING = ("GET", "HEAD")
_NOT_FOUND = 404
_STATUS: Mapping[type[Exception], tuple[int, str]] = {
    UnknownRunError: (404, "Not found"),
    BadAddressError: (400, "This address cannot be understood"),
    CopiedRunError: (409, "This run is a copy"),
    IncomparableRunsError: (409, "These runs cannot be compared"),
    ReviewRefusedError: (403, "Refused"),
    UnknownItemError: (404, "Not found"),
    BadLabelError: (400, "This label cannot be saved"),
    LabelledAlreadyError: (409, "This answer is labelled already"),
    OSError: (500, "A file of the run cannot be read"),  # among them StorageError
    sqlite3.Error: (500, "The index of the run cannot be used"),
}


class ViewServer:
    """The viewer of the runs of a library. Use it with `async with`, which starts it and sets `port`.

    `port` 0 selects a free port; OSError is raised if a port or the host cannot be used.
    """

    def __init__(
        self,
        library: Library,
        access: Access,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        reviews: Reviews | None = None,
    ) -> None:
        self.port = port
        self._library = library
        self._reviews = reviews or Reviews()
        self._access = access
        self._host = host
        self._runner: web.AppRunner | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="view")
        self._review_threads = ThreadPoolExecutor(_REVIEW_THREADS, thread_name_prefix="review")
        self._codes: dict[str, str] = {}
        """Reviewers by the codes that open a page once."""
        self._pending: dict[tuple[str, str, str], asyncio.Future[Page]] = {}

    @property
    def url(self) -> str:
        """The address of the viewer, without a path."""
        return url_of(self._access.host or self._host, self.port)

    def link(self, path: str = "/", *, reviewer: str = READER) -> str:
        """Return the address that opens a page with the token of a reviewer."""
        return self._address(path, self._access.tokens[reviewer])

    def link_once(self, path: str = "/", *, reviewer: str = READER) -> str:
        """Return an address that opens a page for the first who asks for it.

        It is given to a browser as an argument, which other users of the machine can read.
        """
        code = secrets.token_urlsafe()
        self._codes[code] = reviewer
        return self._address(path, code)

    def _address(self, path: str, token: str) -> str:
        return self.url + Query((("token", token),)).address(path)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES, middlewares=[self._guard])
        app.router.add_get("/assets/{name}", self._asset)
        for path, make in _PAGES.items():
            if path != "/":
                app.router.add_get(path + _JSON, partial(self._data, make))
            app.router.add_get(path, partial(self._page, make))
        for path, change in _CHANGES.items():
            app.router.add_post(path + _JSON, partial(self._changed, change))
            app.router.add_post(path, partial(self._changed, change))
        app.router.add_get("/.json", partial(self._data, runs_page))
        app.router.add_route("*", "/{rest:.*}", self._unknown)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, max_line_size=_MAX_ADDRESS_BYTES)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port).start()
        except OSError:
            await runner.cleanup()
            raise
        self.port = runner.addresses[0][1]
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._reviews.close()
        for threads in (self._threads, self._review_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._library.close)

    @property
    def _cookie(self) -> str:
        # Browsers send the cookies of one host to all its ports.
        return f"agentv-{self.port}"

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._guarded(request, handler)
        except web.HTTPException as error:
            page = error_page(error.reason, error.text or error.reason, status=error.status)
            response = _page_response(request, page)
        except Exception:  # noqa: BLE001 - the boundary of the server
            # A fault of ours in one page: the others stay available, and the terminal shows where it is.
            _LOG.exception("the viewer cannot show %s", request.path)
            page = error_page("This page cannot be shown", "The terminal of the viewer shows why.", status=500)
            response = _page_response(request, page)
        response.headers.update(SECURITY_HEADERS)
        return response

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host")
        if not self._access.is_expected_host(host):
            return _refused("This host is not the viewer's", "Open the address that the command printed.")
        if request.method not in _READING and not is_same_origin(request.headers.get("Origin"), host):
            return _refused("Refused", "Only the viewer's own pages may change something.")
        if request.path.startswith("/assets/"):
            return await handler(request)
        token = request.query.get("token")
        if token is not None and request.method in _READING:
            return self._signed_in(request, token)
        if self._reviewer(request) is None:
            return _refused("A token is needed", "Open the address that the command printed; it contains the token.")
        return await handler(request)

    def _reviewer(self, request: web.Request) -> str | None:
        return self._access.reviewer_of(request.cookies.get(self._cookie, ""))

    def _signed_in(self, request: web.Request, token: str) -> web.StreamResponse:
        """Turn the token of an address into a cookie, and lead to the same address without it."""
        reviewer = self._codes.pop(token, None)
        if reviewer is None:
            reviewer = self._access.reviewer_of(token)
        if reviewer is None:
            return _refused(
                "This token is not valid", "It is valid until the server ends; open the address that it printed."
            )
        rest = Query.of(request.query.items()).without("token")
        # A path that begins with two slashes, or what browsers take for them, would lead to another host.
        response = web.Response(
            status=303, headers={"Location": rest.address("/" + request.rel_url.raw_path.lstrip("/\\"))}
        )
        own = self._access.tokens[reviewer]
        response.set_cookie(self._cookie, own, httponly=True, samesite="Strict", path="/")
        return response

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = asset_at(request.path)
        if asset is None:
            return web.Response(status=404, text="not found")
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers)

    async def _page(self, make: MakePage, request: web.Request) -> web.StreamResponse:
        look = _FIRST_LOOKS.get(make)
        if look is not None:
            page = await self._in_thread(_looked_at, look, self._asked(request))
            if page is not None:
                self._making(make, request)
                return _page_response(request, page)
        pending = self._making(make, request)
        done, _ = await asyncio.wait({pending}, timeout=_PATIENCE_S)
        # Otherwise it is finished in the background, and what it is made from is known at the next request.
        return _page_response(request, pending.result() if done else preparing_page())

    async def _data(self, make: MakePage, request: web.Request) -> web.StreamResponse:
        page = await self._making(make, request)
        if page.status == _NOT_FOUND:
            # The name of an eval file or a case may end with `.json`, too.
            named = await self._making(make, request, ending=_JSON)
            if named.status != _NOT_FOUND:
                return _page_response(request, named)
        return _response(request, compact_json(page.data).encode(), "application/json", status=page.status)

    def _making(self, make: MakePage, request: web.Request, *, ending: str = "") -> "asyncio.Future[Page]":
        """Return the page that is being made; requests for the same address at the same time share it."""
        asked = self._asked(request, ending=ending)
        key = (request.path_qs, ending, asked.reviewer)
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = asyncio.ensure_future(self._in_thread(_page_or_error, make, asked))
            pending.add_done_callback(lambda _: self._pending.pop(key, None))
        return pending

    async def _changed(self, change: Change, request: web.Request) -> web.StreamResponse:
        """Do what a form asks for; answer with the page to go on with, for programs as JSON."""
        try:
            sent = await request.post()
        except (ValueError, LookupError, RuntimeError) as error:  # the last two: an unknown charset or encoding
            raise web.HTTPBadRequest(text=f"the form cannot be read: {one_line(str(error))}") from error
        form = Query.of((key, value) for key, value in sent.items() if isinstance(value, str))
        done = await self._in_thread(_saved_or_error, change, self._asked(request, form))
        is_json = request.path.endswith(_JSON)
        if isinstance(done, Saved) and not is_json:
            return web.Response(status=303, headers={"Location": done.address})
        if is_json:
            text, status = compact_json(done.data), 200 if isinstance(done, Saved) else done.status
            return web.Response(text=text, status=status, content_type="application/json")
        text = page_html(done, address=request.path_qs) if isinstance(done, Page) else ""
        return web.Response(text=text, status=done.status if isinstance(done, Page) else 200, content_type="text/html")

    def _asked(self, request: web.Request, form: Query = Query(), *, ending: str = "") -> Request:  # noqa: B008 - immutable
        names = dict(request.match_info)
        if names and ending:
            names[list(names)[-1]] += ending
        return Request(
            library=self._library,
            path=request.path,
            names=names,
            query=Query.of(request.query.items()),
            reviewer=self._reviewer(request) or READER,
            reviews=self._reviews,
            form=form,
        )

    async def _in_thread(self, act: Callable[[T, Request], Made], what: T, asked: Request) -> Made:
        threads = self._review_threads if asked.path.startswith("/q/") else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, act, what, asked)

    async def _unknown(self, request: web.Request) -> web.StreamResponse:
        page = error_page("Not found", "The viewer has no page at this address.", status=404)
        return _response(request, page_html(page, address="/").encode(), "text/html", status=404)


def _page_or_error(make: MakePage, request: Request) -> Page:
    try:
        check_blind(request)
        return make(request)
    except (AgentvError, OSError, sqlite3.Error) as error:
        return _error_page(error, request)


def _looked_at(look: Callable[[Request], Page | None], request: Request) -> Page | None:
    try:
        return look(request)
    except (AgentvError, OSError, sqlite3.Error):
        return None  # the page itself says what is wrong


def _saved_or_error(change: Change, request: Request) -> Saved | Page:
    try:
        check_blind(request)
        return change(request)
    except (AgentvError, OSError, sqlite3.Error) as error:
        return _error_page(error, request)


def _error_page(error: Exception, request: Request) -> Page:
    status, title = next(
        (found for kind, found in _STATUS.items() if isinstance(error, kind)), (500, "This page cannot be shown")
    )
    return error_page(title, one_line(str(error)), status=status, hint=_hint(error, request))


def _hint(error: Exception, request: Request) -> Html | None:
    """Return where a reviewer goes on, None for others."""
    own = request.reviews.reviewed(request.reviewer)
    if not own:
        return None
    path = path_to("q", own[0].queue.name, "next")
    if isinstance(error, LabelledAlreadyError):
        return element("a", "Correct the stored label", href=f"{path}?item={error.number}")
    return element("a", "Go on with your review", href=path)


def _refused(title: str, message: str) -> web.Response:
    page = error_page(title, message, status=403)
    return web.Response(text=page_html(page, address="/"), status=403, content_type="text/html")


def _page_response(request: web.Request, page: Page) -> web.Response:
    if page.location is not None:
        return web.Response(status=303, headers={"Location": page.location})
    text = page_html(page, address=request.path_qs)
    return _response(request, text.encode(), "text/html", status=page.status)


def _response(request: web.Request, body: bytes, content_type: str, *, status: int) -> web.Response:
    """Return a response with a tag of its content, or only that nothing has changed."""
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, status=status, content_type=content_type, charset="utf-8", headers=headers)
