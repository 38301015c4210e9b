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
    address: str = ""
    """The one of `links` that leads to this page, which a name such as `latest` may have opened; empty if none does."""
    is_live: bool = False
    """True if the page changes by itself because its run is going on."""
    keys: Literal["list", "review"] = "list"
    """Which single letters are keys, besides those that controls name in `data-key`."""
    status: int = 200
    location: str | None = None
    """The address that the browser goes to in place of this page."""
    is_preparing: bool = False
    """True if the page stands for one that is not ready yet; a browser without scripts then loads it again."""


class Saved(Struct, frozen=True):
    """The outcome of a form: the page to go on with, and the same as JSON for programs."""

    address: str
    data: JsonObject


_TABS = (Link("Runs", "/"),)
_TAB_KEYS = {"Runs": "g r", "Rows": "g w", "Grid": "g g", "Compare": "g c", "Review": "g q"}
_KEY_TITLES = {"everywhere": "Everywhere", "list": "In lists", "review": "In a review"}
_KEYS: Mapping[str, Sequence[tuple[str, str]]] = {
    "everywhere": (
        ("/", "search"),
        ("g r", "list of runs"),
        ("g w", "rows of the run"),
        ("g g", "grid of the run"),
        ("g c", "comparison"),
        ("g q", "review"),
        ("Escape", "back"),
        ("?", "these keys"),
    ),
    "list": (
        ("j", "next row"),
        ("k", "previous row"),
        ("Enter", "open"),
        ("f", "filters"),
        ("o", "order"),
        ("n", "next page"),
        ("b", "previous page"),
        ("c", "mark for comparison"),
        ("d", "show differences"),
    ),
    "review": (
        ("p", "pass"),
        ("f", "fail"),
        ("u", "cannot tell"),
        ("1", "a number on the scale, from 1 to 9"),
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
        element("noscript", element("meta", http_equiv="refresh", content="2")) if page.is_preparing else None,
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
            _live(page),
            element("button", "Keys ", element("kbd", "?"), type="button", id="show-keys", hidden=True),
            class_="bar",
        ),
        element(
            "main",
            *_trail(page),
            *page.parts,
            id="content",
            tabindex="-1",
            data_live=page.is_live,
            data_keys=page.keys,
        ),
        element("p", id="announced", role="status", class_="unseen"),
        _keys_dialog(page),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en').markup}\n"


def _tabs(page: Page, address: str) -> Iterator[Html]:
    path = page.address or address.partition("?")[0]
    for link in (*_TABS, *page.links):
        is_current = link.address == path
        current = "page" if is_current else None
        tab = element("a", link.text, href=link.address, aria_current=current, data_key=_TAB_KEYS.get(link.text))
        yield element("li", tab)


def _live(page: Page) -> Html | None:
    """Return the mark of a run that goes on, or of a page in the making, with the button that keeps it (WCAG 2.2.2)."""
    if not page.is_live:
        return None
    return element(
        "p",
        element("span", "counting" if page.is_preparing else "running", role="status"),
        " ",
        element("button", "Pause", type="button", hidden=True, title="Keep the page as it is"),
        element("noscript", element("small", "reload for newer results")),
        id="live",
    )


def _trail(page: Page) -> Iterator[Html]:
    if page.trail:
        items = [element("li", element("a", link.text, href=link.address)) for link in page.trail]
        yield element("nav", element("ol", *items), class_="trail", aria_label="Above this page")


def _keys_dialog(page: Page) -> Html:
    groups = [
        element("section", element("h3", _KEY_TITLES[name]), element("dl", *(_key(*each) for each in _KEYS[name])))
        for name in ("everywhere", page.keys)
    ]
    switch = element(
        "label", element("input", type="checkbox", id="letters", checked=True), " Use single characters as keys"
    )
    close = element("form", element("button", "Close"), method="dialog")
    title = element("h2", "Keys", id="keys-title")
    return element(
        "dialog", title, switch, element("div", *groups, class_="pair"), close, id="keys", aria_labelledby="keys-title"
    )


def _key(key: str, text: str) -> Html:
    """Return a key with its meaning; the script hides it where the page has nothing for it."""
    shown = element("dt", *(element("kbd", "Esc" if each == "Escape" else each) for each in key.split()))
    return element("div", shown, element("dd", text), data_for=key)


def preparing_page() -> Page:
    """Return the page that is shown while a page takes long to make."""
    shown = element(
        "section",
        element("h1", "Counting"),
        element("p", "The results are being counted. The page appears as soon as it is ready."),
        class_="notice",
    )
    return Page(title="Counting", parts=[shown], data={}, is_live=True, is_preparing=True)


def error_page(title: str, message: str, *, status: int, hint: Child = None) -> Page:
    """Return the page of a request that cannot be answered: what is wrong and where to go on."""
    shown = element(
        "section",
        element("h1", title),
        element("p", message),
        element("p", element("a", "To the list of runs", href="/") if hint is None else hint),
        class_="notice",
    )
    return Page(title=title, parts=[shown], data={"error": message}, status=status)
