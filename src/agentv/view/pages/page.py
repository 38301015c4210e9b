"""What every page of the viewer has: its title, its parts, its data as JSON, and the frame around it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, field

from agentv.reports.text.markup import Child, Html, element
from agentv.types.json_value import JsonObject
from agentv.view.address import Query
from agentv.view.assets import assets
from agentv.view.library import Library
from agentv.view.reviews import Reviews


class Link(NamedTuple):
    """A text with the address it leads to."""

    text: str
    address: str


class Request(Struct, frozen=True):
    """What a browser asks for: the names in the path, the query, and where the stored runs are."""

    library: Library
    path: str
    names: Mapping[str, str]
    query: Query
    reviewer: str = ""
    """Who asks; empty for a person who may only read."""
    reviews: Reviews = field(default_factory=Reviews)
    form: Query = Query()
    """What a form sent."""


class Page(Struct, frozen=True, kw_only=True):
    """The content of a page."""

    title: str
    parts: Sequence[Html | None]
    data: JsonObject
    """What `.json` after the path gives."""
    trail: Sequence[Link] = ()
    """The pages above this one, outermost first."""
    links: Sequence[Link] = ()
    """Other pages on the same thing, such as the rows and the grid of a run."""
    is_live: bool = False
    """True if the page changes by itself because its run is going on."""
    keys: Literal["list", "review"] = "list"
    """Which single letters are keys, besides those that controls name in `data-key`."""
    status: int = 200


class Saved(Struct, frozen=True):
    """The outcome of a form: the page to go on with, and the same as JSON for programs."""

    address: str
    data: JsonObject


_TABS = (Link("Runs", "/"),)
_KEYS: Mapping[str, Sequence[tuple[str, str]]] = {
    "Everywhere": (
        ("/", "search"),
        ("g r", "list of runs"),
        ("g w", "rows of the run"),
        ("g g", "grid of the run"),
        ("g c", "comparison"),
        ("g q", "review"),
        ("Esc", "back"),
        ("?", "these keys"),
    ),
    "Lists": (
        ("j", "next"),
        ("k", "previous"),
        ("Enter", "open"),
        ("f", "filters"),
        ("o", "order"),
        ("n", "next page"),
        ("b", "previous page"),
        ("c", "mark for comparison"),
        ("d", "show differences"),
    ),
    "Review": (
        ("p", "pass"),
        ("f", "fail"),
        ("u", "cannot tell"),
        ("m", "note"),
        ("t", "category"),
        ("e", "expected answer"),
        ("x", "transcript"),
        ("s", "skip"),
        ("z", "undo"),
        ("Enter", "send"),
    ),
}


def page_html(page: Page, *, address: str) -> str:
    """Return the whole HTML of a page at an address."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", f"{page.title} · agentv"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href=assets()["view.css"].address),
        element("script", src=assets()["view.js"].address, type="module"),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element(
            "header",
            element("nav", element("ul", *_tabs(page, address)), aria_label="Pages"),
            element("button", "Keys ", element("kbd", "?"), type="button", id="show-keys", hidden=True),
            class_="bar",
        ),
        element(
            "main", *_trail(page), *page.parts, id="content", tabindex="-1", data_live=page.is_live, data_keys=page.keys
        ),
        element("p", id="announced", role="status", class_="unseen"),
        _keys_dialog(),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en').markup}\n"


def _tabs(page: Page, address: str) -> Iterator[Html]:
    path = address.partition("?")[0]
    for link in (*_TABS, *page.links):
        is_current = link.address.partition("?")[0] == path
        yield element("li", element("a", link.text, href=link.address, aria_current="page" if is_current else None))


def _trail(page: Page) -> Iterator[Html]:
    if page.trail:
        items = [element("li", element("a", link.text, href=link.address)) for link in page.trail]
        yield element("nav", element("ol", *items), class_="trail", aria_label="Above this page")


def _keys_dialog() -> Html:
    groups = [
        element(
            "section",
            element("h3", name),
            element("dl", *(_key(key, text) for key, text in keys)),
        )
        for name, keys in _KEYS.items()
    ]
    switch = element(
        "label", element("input", type="checkbox", id="letters", checked=True), " Use single letters as keys"
    )
    close = element("form", element("button", "Close"), method="dialog")
    return element(
        "dialog",
        element("h2", "Keys"),
        switch,
        element("div", *groups, class_="pair"),
        close,
        id="keys",
        aria_label="Keys",
    )


def _key(key: str, text: str) -> Html:
    return element("div", element("dt", *(element("kbd", each) for each in key.split())), element("dd", text))


def error_page(title: str, message: str, *, status: int, hint: Child = None) -> Page:
    """Return the page of a request that cannot be answered: what is wrong and where to go on."""
    shown = element(
        "section",
        element("h1", title),
        element("p", message),
        element("p", hint) if hint is not None else None,
        element("p", element("a", "To the list of runs", href="/")),
        class_="notice",
    )
    return Page(title=title, parts=[shown], data={"error": message}, status=status)
