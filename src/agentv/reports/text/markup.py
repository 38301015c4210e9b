"""Build HTML and Markdown from untrusted text: texts are shortened, cleaned and escaped when they are added.

No template library is used: jinja2 and markupsafe would be two more dependencies of the core, and it is not visible in
a template whether values are escaped.
"""

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from msgspec import Struct

from agentv.reports.text.long_texts import shortened
from agentv.reports.text.printable import one_line, printable

_MAX_ATTRIBUTE_CHARS = 1_000
_WHOLE_ATTRIBUTES = frozenset({"href", "action", "value"})
"""Attributes that browsers send back: a part of an address or of a form's value is another one."""
_VOID = frozenset({"meta", "link", "br", "input"})


class Html(Struct, frozen=True):
    """Markup that is inserted into a page without escaping. Create it with `element`, which escapes texts."""

    markup: str


Attribute: TypeAlias = str | bool | None
Child: TypeAlias = Html | str | None
"""Markup, or text to escape; None is skipped."""


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. Attribute names are written as `class_` or `data_state`; None and False omit an attribute."""
    named = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{named}>")
    return Html(f"<{tag}{named}>{join(children).markup}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Return the concatenation of markup and escaped texts."""
    return Html("".join(_markup(child) for child in children))


def verbatim(tag: str, text: str, **attributes: str) -> Html:
    """Return a `style` or `script` element with trusted text, in which browsers do not decode entities.

    Raises ValueError for text that would end the element.
    """
    if "</" in text or "<!--" in text:
        raise ValueError(f"text inside {tag} must not contain '</' or '<!--'")
    return Html(f"<{tag}{''.join(_attribute(*each) for each in attributes.items())}>{text}</{tag}>")


def _markup(child: Child) -> str:
    if child is None:
        return ""
    return child.markup if isinstance(child, Html) else escape(printable(shortened(child)), quote=False)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {shown}"
    text = value if shown in _WHOLE_ATTRIBUTES else value[:_MAX_ATTRIBUTE_CHARS]
    return f' {shown}="{escape(printable(text))}"'


MAX_TEXT_CHARS = 2_000
"""The default maximum number of characters of a text; the middle of a longer one is omitted."""

_TICKS = re.compile("`+")


def inline_code(text: str, *, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return text on one line as a Markdown code span, which the text cannot end early. In a table use `cell_code`.

    The fence is longer than any run of backticks in the text. Links, images, mentions and emphasis in it have no
    effect; outside of code GitHub would find `@name`, `#1` and URLs even in escaped text.
    """
    shown = _shown_line(text, max_chars)
    fence = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell_code(text: str, *, max_chars: int = MAX_TEXT_CHARS) -> str:
    r"""Return a code span for a table cell, with `|` escaped as `\|`, because a bar ends a cell even inside code.

    In text that contains backslashes, where `\|` would be ambiguous, the bar is written as `\x7c`.
    """
    shown = _shown_line(text, max_chars)
    return inline_code(shown.replace("|", r"\x7c" if "\\" in shown else r"\|"), max_chars=2 * max_chars)


def _shown_line(text: str, max_chars: int) -> str:
    return one_line(shortened(text, max_chars=max_chars)) or "-"
