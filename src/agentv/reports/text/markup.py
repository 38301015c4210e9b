"""Text that is HTML already, and the one way to make it: plain text is cut, cleaned and escaped on its way in.

Our own sixty lines and no template library: a page is a tree of elements, jinja2 and markupsafe would be two more
distributions in the core, and a template that forgets to escape looks like one that does not.
"""

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from msgspec import Struct

from agentv.reports.run.chosen_rows import shortened
from agentv.reports.text.printable import one_line, printable

_LONGEST_ATTRIBUTE = 1_000
_VOID = frozenset({"meta", "link", "br", "input"})


class Html(Struct, frozen=True):
    """Markup that a page takes as it is. Whoever makes one from a text vouches for it; `element` escapes."""

    markup: str


Attribute: TypeAlias = str | bool | None
Child: TypeAlias = Html | str | None
"""Markup, or text that is escaped; None is nothing."""


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. An attribute's name is written `class_` or `data_state`; None and False leave it out."""
    named = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{named}>")
    return Html(f"<{tag}{named}>{join(children).markup}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Return markup and escaped texts one after the other."""
    return Html("".join(_markup(child) for child in children))


def verbatim(tag: str, text: str, **attributes: str) -> Html:
    """Return a `style` or `script` element around a text of ours, which browsers read without entities.

    Raises ValueError for a text that would end the element.
    """
    if "</" in text or "<!--" in text:
        raise ValueError(f"a text inside {tag} must not hold '</' or '<!--'")
    return Html(f"<{tag}{''.join(_attribute(*each) for each in attributes.items())}>{text}</{tag}>")


def _markup(child: Child) -> str:
    if child is None:
        return ""
    return child.markup if isinstance(child, Html) else escape(printable(shortened(child)), quote=False)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{escape(printable(value[:_LONGEST_ATTRIBUTE]))}"'


LONGEST = 2_000
"""Letters of a text that are shown, unless a caller wants fewer; of a longer one its beginning and its end."""

_TICKS = re.compile("`+")


def inline_code(text: str, *, longest: int = LONGEST) -> str:
    """Return text on one line as a code span that it cannot break out of. In a table use `cell_code`.

    The fence is longer than any run of backticks in the text. No link, picture, mention, tag or emphasis in it is one:
    outside of code GitHub looks for `@name`, `#1` and addresses in whatever is shown, however it is escaped.
    """
    shown = _shown(text, longest)
    fence = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell_code(text: str, *, longest: int = LONGEST) -> str:
    r"""Return a code span for a cell of a table, which a bar ends even inside code unless it stands as `\|`.

    Behind a backslash of the text itself that would be read as something else: the bar is then written `\x7c`.
    """
    shown = _shown(text, longest)
    return inline_code(shown.replace("|", r"\x7c" if "\\" in shown else r"\|"), longest=2 * longest)


def _shown(text: str, longest: int) -> str:
    return one_line(shortened(text, most=longest)) or "-"
