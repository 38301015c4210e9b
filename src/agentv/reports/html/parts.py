"""Common parts of HTML pages: the head with a policy that forbids all requests, assets, tables."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from agentv.reports.text.markup import Child, Html, element, verbatim


@cache
def asset(name: str) -> str:
    """Return the text of a file that is embedded in pages: `report.css` or `report.js`."""
    return resources.files("agentv.reports.html").joinpath("assets", name).read_text("utf-8")


def page_head(title: str, *, style: str, script: str | None = None) -> Html:
    """Return the head of a page, whose policy allows this style and script and nothing else."""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        verbatim("style", style),
    )


def _policy(style: str, script: str | None) -> str:
    allowed = "'none'" if script is None else f"'{_digest(script)}'"
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def scrolled_table(heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    """Return a table with row headers in a horizontally scrolling box."""
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    return element(
        "div", element("table", element("thead", head), element("tbody", *body)), class_="scroll", tabindex="0"
    )
