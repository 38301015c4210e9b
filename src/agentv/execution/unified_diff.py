"""Two texts → the hunks of a unified diff, as git writes them. Pure, and bounded: no text makes it slow.

The shortest list of edits is found by Myers' greedy algorithm (1986). The standard library's difflib can take minutes
for a few thousand lines; here texts whose comparison would take too many steps are shown as replaced whole.
"""

from array import array
from collections.abc import Iterator, Sequence

from msgspec import Struct

CONTEXT_LINES = 3
MAX_STEPS = 2_000_000
"""How many lines may be looked at for one pair of texts, a second's worth."""


class Effort(Struct):
    """How many lines may still be looked at for several pairs of texts together."""

    steps: int = 5 * MAX_STEPS


class _Edit(Struct, frozen=True):
    """Lines `old[old_start:old_end]` became `new[new_start:new_end]`; one of the two may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def unified_hunks(old: str, new: str, effort: Effort | None = None) -> str:
    """Return the hunks that turn one text into the other, "" when they are equal; lines end at LF alone."""
    old_lines, new_lines = _lines(old), _lines(new)
    edits = _edits(old_lines, new_lines, effort or Effort())
    return "".join(_hunk(group, old_lines, new_lines) for group in _grouped(edits))


def _lines(text: str) -> list[str]:
    """Return the lines with their ends; the last one has none if the text has none there."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _edits(old: Sequence[str], new: Sequence[str], effort: Effort) -> list[_Edit]:
    """Return what changed, in order, without the lines both begin and end with being compared twice."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not middle_old and not middle_new:
        return []
    matches = _matches(middle_old, middle_new, effort)
    edits, at_old, at_new = [], 0, 0
    for match_old, match_new, length in [*matches, (len(middle_old), len(middle_new), 0)]:
        if match_old > at_old or match_new > at_new:
            edits.append(_Edit(head + at_old, head + match_old, head + at_new, head + match_new))
        at_old, at_new = match_old + length, match_new + length
    return edits


def _matches(old: Sequence[str], new: Sequence[str], effort: Effort) -> list[tuple[int, int, int]]:
    """Return runs of equal lines as (place in old, place in new, length), in order; none when it takes too long.

    Row n of `rows` holds how far down `old` one gets with n edits on each diagonal (place in old - place in new) from
    -n to n, of which only every other can be reached.
    """
    rows: list[array[int]] = []
    least = effort.steps - min(effort.steps, MAX_STEPS)
    for count in range(len(old) + len(new) + 1):
        row = array("i")
        for diagonal in range(-count, count + 1, 2):
            at, _ = _entered(rows, count, diagonal)
            begun = at
            while at < len(old) and at - diagonal < len(new) and old[at] == new[at - diagonal]:
                at += 1
            row.append(at)
            effort.steps -= 1 + at - begun
            if at >= len(old) and at - diagonal >= len(new):
                return _walked_back(rows, count, len(old), len(new))
        rows.append(row)
        if effort.steps <= least:
            break
    return []


def _entered(rows: Sequence["array[int]"], count: int, diagonal: int) -> tuple[int, int]:
    """Return where a diagonal is entered with the last of `count` edits, and the diagonal that one comes from.

    The edit is an added line (from the diagonal above) or a removed one, whichever gets further down.
    """
    if count == 0:
        return 0, 0
    row, left = rows[count - 1], (diagonal + count) // 2 - 1
    added = row[left + 1] if left + 1 < count else -1
    removed = row[left] + 1 if left >= 0 else -1
    return (added, diagonal + 1) if added >= removed else (removed, diagonal - 1)


def _walked_back(rows: Sequence["array[int]"], count: int, at_old: int, at_new: int) -> list[tuple[int, int, int]]:
    matches = []
    while True:
        diagonal = at_old - at_new
        start, came_from = _entered(rows, count, diagonal)
        if at_old > start:
            matches.append((start, start - diagonal, at_old - start))
        if count == 0:
            return matches[::-1]
        at_old = start if came_from > diagonal else start - 1
        at_new = at_old - came_from
        count -= 1


def _grouped(edits: Sequence[_Edit]) -> Iterator[list[_Edit]]:
    """Put edits together whose context lines would touch."""
    group: list[_Edit] = []
    for edit in edits:
        if group and edit.old_start - group[-1].old_end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _hunk(group: Sequence[_Edit], old: Sequence[str], new: Sequence[str]) -> str:
    before = min(CONTEXT_LINES, group[0].old_start)
    after = min(CONTEXT_LINES, len(old) - group[-1].old_end)
    old_start, old_end = group[0].old_start - before, group[-1].old_end + after
    new_start, new_end = group[0].new_start - before, group[-1].new_end + after
    lines = [f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"]
    at = old_start
    for edit in group:
        lines += [_line(" ", line) for line in old[at : edit.old_start]]
        lines += [_line("-", line) for line in old[edit.old_start : edit.old_end]]
        lines += [_line("+", line) for line in new[edit.new_start : edit.new_end]]
        at = edit.old_end
    lines += [_line(" ", line) for line in old[at:old_end]]
    return "".join(lines)


def _range(start: int, end: int) -> str:
    """Return a range of lines, numbered from 1; of an empty one the line before it."""
    count = end - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
