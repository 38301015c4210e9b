"""Text of strangers inside Markdown: as code, where nothing in it means anything."""

import re

from agentv.reports.printable import one_line

_TICKS = re.compile(r"`+")


def inline_code(text: str, *, longest: int | None = None) -> str:
    """Return text on one line as a code span that it cannot break out of, in a table's cell either.

    No link, picture, mention, tag or emphasis in it is one. Cut to `longest` letters when that is given.
    """
    shown = one_line(text) or " "
    if longest is not None and len(shown) > longest:
        shown = f"{shown[:longest]}..."
    fence = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    # A cell ends at a bar even inside code; outside of tables the sign for it would show.
    return f"{fence}{pad}{shown.replace('|', '¦')}{pad}{fence}"
