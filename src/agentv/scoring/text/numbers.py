"""The numbers in a text as people mean them: signs, separators, fractions, powers of ten, percent.

What looks like numbers but is one thing, such as a date, a time or a version, is neither a number nor several.
"""

import re
import unicodedata
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from msgspec import Struct

UNLIMITED = Context(Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Decimal arithmetic for numbers of any size: an answer may contain a number with a million digits."""

_CURRENCY = "$\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd\u20ba"
_GLYPHS = "\u00bc\u00bd\u00be\u2150-\u215e\u2189"  # ½ and the other fractions of one character
_NARROW = "\u00a0\u2009\u202f"  # blanks that do not break a line
_SUPERSCRIPTS = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-"
)

# Where a number may begin: a run of digits as a whole, so that no search starts within one, or a sign before one. The
# group `plain` is a number that needs no second look, because a word or the end follows. It begins with a set of
# characters, which makes the search twice as fast (bench/).
_CANDIDATE = re.compile(
    rf"""
    [-+.\\{_CURRENCY}{_GLYPHS}\d]
    (?:
      (?<=(?<![\w.^{{])\d)(?P<plain>\d*+(?:\.\d++)?+)(?=[.,;:!?)]?(?:\s[A-Za-wyz]|\s*\Z))
    | (?<=\d)\d*+
    | (?<=[-+])(?=[-+.\d{_CURRENCY}{_GLYPHS}\\]) | (?<=[{_CURRENCY}])(?=[-+])
    | (?<=\.)(?=\d) | (?<=\\)(?=[dt]?frac) | (?<=[{_GLYPHS}])
    )
    """,
    re.ASCII | re.VERBOSE,
)
_TOKEN = re.compile(
    rf"""
    # not in a word, not after a point, not the exponent of a unit or variable: m^2, m^{{2}}
    (?<![^\W_])(?<![^\W_]_)(?<!\.)(?<![A-Za-z]\^)(?<![A-Za-z]\^\{{)
    (?:
      (?<!/)(?P<other>
        \d{{4}}-\d\d?-\d\d?(?:T[\d:.]+Z?)? | \d\d?-\d\d?-\d{{4}} | \d{{1,4}}/\d\d?/\d{{1,4}} | \d\d?:\d\d(?::\d\d)?
      )(?![\d/:]|-\d)
    |
      (?P<sign>[-+]?[{_CURRENCY}]?[-+]?)
      (?:
        (?:(?P<mantissa>\d++(?:\.\d++)?+)\s?(?:[x*\u00d7\u00b7]|\\times|\\cdot)\s?)?
        10(?:\^\{{?(?P<power>[-+]?\d{{1,4}})(?!\d)\}}?|(?P<raised>[\u207a\u207b]?[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{{1,4}}))
      |
        (?:(?P<whole>\d{{1,15}})[ {_NARROW}])?(?<!/)(?P<top>\d{{1,15}})[/\u2044](?P<bottom>\d{{1,15}})(?![\d/]|[.,]\d)
      |
        (?P<latex_whole>\d{{1,15}})?\\[dt]?frac\{{(?P<latex_top>\d{{1,15}})\}}\{{(?P<latex_bottom>\d{{1,15}})\}}
      |
        (?P<glyph_whole>\d{{1,15}})?[ {_NARROW}]?(?P<glyph>[{_GLYPHS}])
      |
        (?P<plain>\d++(?:[.,'\u2019_{_NARROW}]\d++)*+|\.\d++)(?P<exponent>[eE][-+]?\d{{1,4}}(?!\d))?
      )
      (?:\s?\\?(?P<percent>%|\u2030|per\ ?cent\b))?
    )
    """,
    re.ASCII | re.VERBOSE,
)
# 1.234,5 and 1.234.567; a single point before three digits is a decimal point.
_POINTS_SEPARATE = re.compile(rf"\d{{1,3}}(?:(?:[.{_NARROW}]\d{{3}})+,\d+|(?:\.\d{{3}}){{2,}})", re.ASCII)
_THOUSANDS = re.compile(rf"\d{{1,3}}([,'\u2019_{_NARROW}])\d{{3}}(?:\1\d{{3}})*(?:\.\d+)?", re.ASCII)
_SEPARATORS = re.compile(rf"[,'\u2019_{_NARROW}]")
_SCALES = {"\u2030": 3}
_DECIMAL = re.compile(r"\d*\.?\d+", re.ASCII)

_LATEX_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|\\,)(?=\d{3})", re.ASCII)
_OTHER_SIGNS = dict(
    zip(
        "\u2212\u2013\u2011\ufe63\uff0d\uff0b\uff0e\uff0c\uff05\uff0f\uff1a\uff04\u066a\u066b\u066c",
        "-----+.,%/:$%.,",
        strict=True,
    )
)
# Arabic, Persian, Devanagari, Bengali, Thai and wide digits.
_OTHER_LETTERS = re.compile(
    rf"[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0e50-\u0e59\uff10-\uff19{''.join(_OTHER_SIGNS)}]"
)


class Number(Struct, frozen=True, gc=False):
    """A number in a text, as it is written there."""

    written: str
    converted: Decimal | None = None
    """The value, if it is not written plainly."""

    @property
    def value(self) -> Decimal:
        """The value of the number."""
        return Decimal(self.written) if self.converted is None else self.converted


class NoNumber(Struct, frozen=True, gc=False):
    """What looks like numbers but is one thing of another kind: a date, a time, a version."""

    written: str


def numbers_in(text: str, *, percent: bool = False) -> Iterator[Number | NoNumber]:
    """Yield the numbers in a text, and the dates, times and versions, in order.

    Commas separate thousands only if three digits follow each: `1,2,3` are three numbers. With `percent`, `60%` is 0.6.

    >>> [each.written for each in numbers_in("1,234.5 on 2024-05-01")]
    ['1,234.5', '2024-05-01']
    >>> [str(each.value) for each in numbers_in("1,234.5 of \N{MINUS SIGN}3, 1\N{VULGAR FRACTION ONE HALF} and 1/4")]
    ['1234.5', '-3', '1.5', '0.25']
    """
    text = _plain(text)
    end = 0
    for candidate in _CANDIDATE.finditer(text):
        if candidate.start() < end:
            continue
        if candidate.lastindex and not percent:
            yield Number(candidate[0])
        elif token := _TOKEN.match(text, candidate.start()):
            end = token.end()
            yield from _numbers_of(token, percent=percent)


def _plain(text: str) -> str:
    """Return a text with the digits, minus signs and separators of ASCII, and without those of LaTeX."""
    if not text.isascii():
        text = _OTHER_LETTERS.sub(_ascii_letter, text)
    if "{,}" in text or "\\," in text:
        text = _LATEX_THOUSANDS.sub(",", text)
    return text


def _ascii_letter(match: re.Match[str]) -> str:
    return _OTHER_SIGNS.get(match[0]) or str(unicodedata.decimal(match[0]))


def _numbers_of(token: re.Match[str], *, percent: bool) -> Iterator[Number | NoNumber]:
    """Yield the numbers of a token: one, except for `1,2,3` and the like."""
    written = token[0]
    values = () if token["other"] else tuple(_values(token))
    if not values:
        yield NoNumber(written)
    scale = _SCALES.get(token["percent"], 2) if percent and token["percent"] else 0
    for index, value in enumerate(values):
        if scale and index == len(values) - 1:
            value = value.scaleb(-scale, UNLIMITED)  # noqa: PLW2901 - the same number
        if index == 0 and "-" in token["sign"]:
            value = value.copy_negate()  # noqa: PLW2901 - the same number
        yield Number(written if len(values) == 1 else str(value), value)


def _values(token: re.Match[str]) -> Iterator[Decimal]:
    """Yield the values of a token without its sign; none for a version or a division by zero."""
    if plain := token["plain"]:
        yield from _plain_values(plain, token["exponent"] or "")
    elif token["power"] or token["raised"]:
        power = int(token["power"] or token["raised"].translate(_SUPERSCRIPTS))
        yield Decimal(token["mantissa"] or "1").scaleb(power, UNLIMITED)
    elif glyph := token["glyph"]:
        yield Decimal(token["glyph_whole"] or 0) + Decimal(repr(unicodedata.numeric(glyph)))
    else:
        latex = "latex_" if token["latex_top"] else ""
        whole, top, bottom = (int(token[latex + name] or 0) for name in ("whole", "top", "bottom"))
        if whole and top >= bottom:  # not a mixed number: two
            yield Decimal(whole)
            whole = 0
        if bottom:
            yield Decimal(whole) + Decimal(repr(top / bottom))


def _plain_values(plain: str, exponent: str) -> Iterator[Decimal]:
    if _POINTS_SEPARATE.fullmatch(plain):
        plain = re.sub(rf"[.{_NARROW}]", "", plain).replace(",", ".")
    elif _THOUSANDS.fullmatch(plain):
        plain = _SEPARATORS.sub("", plain)
    parts = _SEPARATORS.split(plain)
    for index, part in enumerate(parts):
        if _DECIMAL.fullmatch(part):
            yield Decimal(part + exponent if index == len(parts) - 1 else part)
