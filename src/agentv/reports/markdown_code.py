"""Text of strangers inside Markdown: as code, where nothing in it means anything."""

import re

from agentv.reports.chosen_rows import shortened
from agentv.reports.printable import one_line

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
