"""Simple letter swaps, by which `4` stands for a and `$` for s."""

SWAPS = {"4": "a", "@": "a", "3": "e", "1": "il", "0": "o", "5": "s", "$": "s", "7": "t"}
"""Which letters a sign may stand for."""

_SAME_KEY = {letter: letters[0] for letters in ("i1l", "a4@", "e3", "o0", "s5$", "t7") for letter in letters}
_KEYS = {**_SAME_KEY, **{letter.upper(): key for letter, key in _SAME_KEY.items() if letter.isalpha()}}
_TABLE = str.maketrans(_KEYS)
_REPLACEMENTS = tuple((letter, key) for letter, key in _KEYS.items() if letter != key)


def swap_key(text: str) -> str:
    """Return a text of the same length in which letters and the signs that may stand for them are the same.

    Texts that are alike but for swaps have the same key; so have some others (`tail` and `tall`).
    """
    if text.isascii():
        return text.translate(_TABLE)
    for letter, key in _REPLACEMENTS:  # beyond ASCII, `translate` takes four times as long
        text = text.replace(letter, key)
    return text


def is_swapped(written: str, term: str) -> bool:
    """Whether a text of the same length is a term, as it is or with signs in place of letters.

    Figures alone are a number or an amount and no word, unless the term has the same figures.

    >>> is_swapped("5h1t", "shit"), is_swapped("tail", "tall"), is_swapped("455", "ass")
    (True, False, False)
    """
    if written == term:
        return True
    if not all(
        sign == letter or letter.lower() in SWAPS.get(sign, "") for sign, letter in zip(written, term, strict=True)
    ):
        return False
    return any(map(str.isalpha, written)) or not any(map(str.isdigit, written))
