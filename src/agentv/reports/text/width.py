"""Measure, cut, pad and wrap text by its width on a terminal."""

import unicodedata
from collections.abc import Iterator

_JOINER = "\u200d"
_EMOJI_STYLE = "\ufe0f"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)


def graphemes(text: str) -> Iterator[str]:
    """Yield the user-perceived characters: a letter with its accents, an emoji with its parts."""
    cluster = ""
    for char in text:
        if cluster and not _belongs_to(cluster, char):
            yield cluster
            cluster = ""
        cluster += char
    if cluster:
        yield cluster


def _belongs_to(cluster: str, char: str) -> bool:
    if cluster[-1] == _JOINER or char in (_JOINER, _EMOJI_STYLE):
        return True
    code = ord(char)
    if code in _FLAG_LETTERS:
        return len(cluster) == 1 and ord(cluster) in _FLAG_LETTERS
    return code in _SKIN_TONES or unicodedata.category(char) in ("Mn", "Me")


def _cells(cluster: str) -> int:
    if cluster.isascii():
        return 1
    if unicodedata.category(cluster[0]) in ("Mn", "Me", "Cf"):
        return 0
    wide = unicodedata.east_asian_width(cluster[0]) in ("W", "F") or ord(cluster[0]) in _FLAG_LETTERS
    return 2 if wide or _EMOJI_STYLE in cluster else 1


def display_width(text: str) -> int:
    """Return the number of terminal cells of `text`: two for wide East Asian characters and emoji, none for accents."""
    return len(text) if text.isascii() else sum(map(_cells, graphemes(text)))


def clip(text: str, width: int, *, mark: str = "…") -> str:
    """Return `text` cut to `width` cells; `mark` replaces the end of a text that is cut."""
    if display_width(text) <= width:
        return text
    room = width - display_width(mark)
    start = ""
    for cluster in graphemes(text):
        room -= _cells(cluster)
        if room < 0:
            break
        start += cluster
    return start + mark


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return `text` padded with blanks to `width` cells, on the left for `right`-aligned columns."""
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks


def wrap(text: str, width: int) -> list[str]:
    """Wrap one line of text into lines of at most `width` cells, between words where possible."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = _broken(word, width)
        lines.extend(full)
    return [*lines, line] if line or not lines else lines


def wrap_lines(text: str, width: int | None) -> list[str]:
    """Wrap text into lines of at most `width` cells, preserving its line breaks and indents; None does not wrap."""
    lines: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        if width is None or display_width(line) <= width:
            lines.append(line)
        else:
            indent = line[: min(len(line) - len(line.lstrip()), width // 2)]
            lines.extend(indent + piece for piece in wrap(line, width - len(indent)))
    return lines


def _broken(word: str, width: int) -> list[str]:
    """Return the pieces of a word that is longer than a line."""
    pieces = [""]
    for cluster in graphemes(word):
        if pieces[-1] and display_width(pieces[-1] + cluster) > width:
            pieces.append("")
        pieces[-1] += cluster
    return pieces
