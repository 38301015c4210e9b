"""Short ids made from texts: words in lower case with dashes between them."""

import re
import unicodedata
from collections.abc import Container

LONGEST = 48
_ID = re.compile(r"[\w.-]{1,64}")
_WORD = re.compile(r"\w+")


def make_id(given: str, *, fallback: str, taken: Container[str] = ()) -> str:
    """Return `given` as an id: as it is when it is one, else as a slug, `fallback` when no letter is left.

    An id that is `taken` gets a number: `refund-2`.
    """
    given = given.strip()
    wanted = (given if _ID.fullmatch(given) else slug(given)) or fallback
    made, number = wanted, 1
    while made in taken:
        number += 1
        made = f"{wanted}-{number}"
    return made


def slug(text: str) -> str:
    """Return the first words of a text with dashes between them, at most 48 characters; letters of any script stay."""
    made = ""
    for word in _WORD.findall(unicodedata.normalize("NFC", text[: 4 * LONGEST]).casefold()):
        longer = f"{made}-{word}" if made else word[:LONGEST]
        if len(longer) > LONGEST:
            break
        made = longer
    return made
