"""Small parts of the viewer's pages: badges, search fields, filters as chips, and links between pages of a list."""

from collections.abc import Iterator, Mapping, Sequence

from agentv.reports.text.amounts import count_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Child, Html, element
from agentv.reports.text.signs import UNICODE
from agentv.types.results import RowState
from agentv.view.address import LIST_KEYS, Query

_MARKS: Mapping[str, str] = {str(state): mark for state, mark in UNICODE.marks.items()}
_MAX_FACETS = 12
_MAX_NAME_CHARS = 160
_NO_FILTERS = ("sort", "page", "after", "before", "from", "only", "diff")
"""The keys of an address that have links of their own on the page."""


def state_badge(state: RowState | str, text: str | None = None) -> Html:
    """Return the sign of a state with its word, in its colour."""
    return element("span", f"{_MARKS.get(state, '')} {text or state}".strip(), class_=f"badge {state}")


def shown_name(case: str) -> str:
    """Return the id of a case as lists show it; the middle of a long one is omitted."""
    return shortened(case, max_chars=_MAX_NAME_CHARS)


def search_field(path: str, query: Query, *, label: str) -> Html:
    """Return a form that searches for words within the current filter."""
    kept = [
        element("input", type="hidden", name=key, value=value)
        for key, value in query.without("q", "page", "after", "before", "from").pairs
    ]
    value = query.last("q") or ""
    field = element(
        "input", type="search", name="q", value=value, placeholder=label, aria_label=label, autocomplete="off"
    )
    return element("form", *kept, field, element("button", "Search"), action=path, class_="search", role="search")


def filter_chips(path: str, query: Query) -> Html | None:
    """Return the active filters in plain words, each with a link that removes it; None if there are none."""
    chips = list(_chips(path, query))
    if not chips:
        return None
    reset = element("li", element("a", "remove all", href=path)) if len(chips) > 1 else None
    return element("ul", *chips, reset, class_="chips", aria_label="Filters")


def _chips(path: str, query: Query) -> Iterator[Html]:
    for key, value in query.pairs:
        if key in _NO_FILTERS:
            continue
        words = f"contains “{value}”" if key == "q" else f"{key} {value}"
        remove = element("a", "×", href=query.without_pair(key, value).address(path), aria_label=f"Remove {words}")  # noqa: RUF001 - the usual sign of removal
        yield element("li", element("span", words, dir="auto"), " ", remove, class_="chip")


def facet_list(path: str, query: Query, facets: Mapping[str, Mapping[str, int]]) -> Html:
    """Return the values that results can be filtered by, each with the number of results that are left."""
    groups = [_facet(path, query, key, facets[key]) for key in LIST_KEYS if len(facets.get(key, {})) > 1]
    return element("details", element("summary", "Filters"), element("div", *groups, class_="facets"), id="filters")


def _facet(path: str, query: Query, key: str, counts: Mapping[str, int]) -> Html:
    chosen = query.all(key)
    shown = sorted(counts.items(), key=lambda item: -item[1])[:_MAX_FACETS]
    items = []
    for value, count in shown:
        is_chosen = value in chosen
        target = query.without_pair(key, value) if is_chosen else query.adding(key, value)
        link = element(
            "a", value or "(none)", href=target.address(path), aria_current="true" if is_chosen else None, dir="auto"
        )
        items.append(element("li", link, element("small", f" {count:,}")))
    left_out = len(counts) - len(shown)
    more = element("li", element("small", f"and {left_out:,} more")) if left_out else None
    return element("section", element("h2", key), element("ul", *items, more))


def table(heads: Sequence[Child], rows: Sequence[Html], *, label: str) -> Html:
    """Return a table in a region that scrolls; `heads` are its column heads."""
    head = element("thead", element("tr", *(element("th", each, scope="col") for each in heads)))
    shown = element("table", head, element("tbody", *rows))
    return element("div", shown, class_="scroll list", tabindex="0", role="region", aria_label=label)


def choice_links(path: str, query: Query, key: str, choices: Sequence[tuple[str | None, str]], *, label: str) -> Html:
    """Return links that choose a value of a key, each a value with its text; None is the default."""
    chosen = query.last(key)
    items = [
        element(
            "li",
            element(
                "a",
                text,
                href=query.choosing(key, value).address(path),
                aria_current="true" if value == chosen else None,
            ),
        )
        for value, text in choices
    ]
    name = element("span", f"{label} ", aria_hidden="true")
    return element("div", name, element("ul", *items), class_="choice", role="group", aria_label=label)


def page_links(path: str, query: Query, *, page: int, pages: int) -> Html | None:
    """Return links to the previous and the next page of a list; None if there is only one."""
    links = [
        element("a", text, href=query.with_value("page", str(number)).address(path), rel=relation)
        for text, number, relation in (("previous", page - 1, "prev"), ("next", page + 1, "next"))
        if 1 <= number <= pages
    ]
    return element("nav", *links, class_="pages", aria_label="Pages of the list") if links else None


def beyond_notice(path: str, query: Query) -> Html:
    """Return what a page behind the last one of a list shows."""
    link = element("a", "Go to its first page", href=query.without("page").address(path))
    return element("p", "The list ends before this page. ", link, class_="notice")


def range_text(page: int, size: int, total: int, noun: str) -> str:
    """Return `51-100 of 240 cases`: what a page of a list shows."""
    first = (page - 1) * size + 1
    last = min(total, page * size)
    return f"{first:,}–{last:,} of {count_text(total, noun)}" if first <= last else f"0 of {count_text(total, noun)}"  # noqa: RUF001 - a range
