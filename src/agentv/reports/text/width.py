"""Text by its width on a terminal: measured, cut, padded and wrapped; aligned tables of names and values."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from agentv.reports.text.signs import Paint, Signs

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


def _cell_width(cluster: str) -> int:
    if cluster.isascii():
        return 1
    if unicodedata.category(cluster[0]) in ("Mn", "Me", "Cf"):
        return 0
    wide = unicodedata.east_asian_width(cluster[0]) in ("W", "F") or ord(cluster[0]) in _FLAG_LETTERS
    return 2 if wide or _EMOJI_STYLE in cluster else 1


def display_width(text: str) -> int:
    """Return the number of terminal cells of `text`: two for wide East Asian characters and emoji, none for accents."""
    return len(text) if text.isascii() else sum(map(_cell_width, graphemes(text)))


def clip(text: str, width: int, *, mark: str = "…") -> str:
    """Return `text` cut to `width` cells; `mark` replaces the end of a text that is cut."""
    if display_width(text) <= width:
        return text
    room = width - display_width(mark)
    start = ""
    for cluster in graphemes(text):
        room -= _cell_width(cluster)
        if room < 0:
            break
        start += cluster
    return start + mark


def clip_middle(text: str, width: int, *, mark: str = "…") -> str:
    """Return `text` cut to `width` cells; `mark` replaces the middle of a text that is cut.

    Two thirds of what is left are the end: texts that start alike, such as questions behind a prompt, differ there.
    """
    if display_width(text) <= width:
        return text
    room = width - display_width(mark)
    start = clip(text, room // 3, mark="")
    end, room = "", room - display_width(start)
    for cluster in reversed(list(graphemes(text))):
        room -= _cell_width(cluster)
        if room < 0:
            break
        end = cluster + end
    return start + mark + end


def clip_names(names: Sequence[str], width: int, *, mark: str = "…") -> list[str]:
    """Return names cut to `width` cells, in their middle if they differ at their ends.

    Names that could not be told apart even so are not cut.
    """
    for cut in (clip, clip_middle):
        shown = [cut(name, width, mark=mark) for name in names]
        if len(set(shown)) == len(set(names)):
            return shown
    return list(names)


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
        *full, line = _split_word(word, width, is_at_signs=True)
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


def fold(line: str, width: int) -> list[str]:
    """Return the pieces of a line of text, each of at most `width` cells, with all blanks."""
    return [line] if display_width(line) <= width else _split_word(line, max(width, 2))


_BREAK_AFTER = re.compile(r".*[-_/.,;:=&?)\]}]", re.DOTALL)


def _split_word(word: str, width: int, *, is_at_signs: bool = False) -> list[str]:
    """Return the pieces of a word that is longer than a line; with `is_at_signs`, split after a sign such as `-`.

    A piece that would be less than half a line is not split at a sign.
    """
    pieces = [""]
    for cluster in graphemes(word):
        if pieces[-1] and display_width(pieces[-1] + cluster) > width:
            found = _BREAK_AFTER.match(pieces[-1]) if is_at_signs else None
            if found is not None and display_width(found[0]) >= width // 2:
                pieces[-1:] = [found[0], pieces[-1][found.end() :]]
            else:
                pieces.append("")
        pieces[-1] += cluster
    return pieces


_MIN_NAME_WIDTH = 8
_MAX_REASON_LINES = 3


def table(rows: Sequence[Sequence[str]], width: int | None, paint: Paint, *, mark: str = "…") -> list[str]:
    """Return an aligned table: names on the left, cut to fit `width`, values right-aligned; the head is dim.

    `mark` stands where a name is cut. If even short names leave no room for the columns, each row becomes a name with
    its values below.
    """
    if not rows:
        return []
    name_width, *widths = (max(map(display_width, column)) for column in zip(*rows, strict=True))
    if width is not None and _MIN_NAME_WIDTH + sum(widths) + 2 * len(widths) > width:
        return _stacked(rows, width, paint, mark)
    if width is not None:
        name_width = min(name_width, max(width - sum(widths) - 2 * len(widths), _MIN_NAME_WIDTH))
    names = clip_names([row[0] for row in rows], name_width, mark=mark)
    lines = []
    for name, (_, *cells) in zip(names, rows, strict=True):
        aligned = [pad(cell, room, right=True) for cell, room in zip(cells, widths, strict=True)]
        lines.append("  ".join([pad(name, name_width), *aligned]))
    return [paint(lines[0], "dim"), *lines[1:]]


def side_by_side(tables: Sequence[Sequence[Sequence[str]]], width: int | None) -> list[Sequence[Sequence[str]]]:
    """Join tables with the same row names side by side if they fit into `width`; None joins no tables."""
    joined: list[Sequence[Sequence[str]]] = []
    for rows in filter(None, tables):
        both = [[*left, *right[1:]] for left, right in zip(joined[-1], rows, strict=True)] if joined else []
        if both and width is not None and _table_width(both) <= width:
            joined[-1] = both
        else:
            joined.append(rows)
    return joined


def _table_width(rows: Sequence[Sequence[str]]) -> int:
    columns = list(zip(*rows, strict=True))
    return sum(max(map(display_width, column)) for column in columns) + 2 * (len(columns) - 1)


def _stacked(rows: Sequence[Sequence[str]], width: int, paint: Paint, mark: str) -> list[str]:
    """Return each row as its name and, indented below, as many labelled values per line as fit."""
    (_, *heads), *others = rows
    lines = []
    for name, *cells in others:
        lines.append(paint(clip(name, width, mark=mark), "bold"))
        line = ""
        for head, cell in zip(heads, cells, strict=True):
            value = clip(f"  {head} {cell}", width, mark=mark)
            if line and display_width(line + value) > width:
                lines.append(line)
                line = ""
            line += value
        lines.append(line)
    return lines


def with_reason(mark: str, head: str, reason: str, width: int | None, signs: Signs) -> list[str]:
    """Return the lines of an item: head and reason on one line; with a `width`, the reason wrapped below the head."""
    if width is None:
        return [f"{mark} {head}  {reason}"]
    lines = wrap(reason, width - 4)
    shown = lines[:_MAX_REASON_LINES]
    if len(lines) > len(shown):
        shown[-1] = clip(f"{shown[-1]} {lines[_MAX_REASON_LINES]}", width - 4, mark=signs.ellipsis)
    return [f"{mark} {clip(head, width - 2, mark=signs.ellipsis)}", *(f"  {signs.gutter} {line}" for line in shown)]
