"""A comparison of two runs as text: measures, setup differences, changed cases, and the finding last."""

from msgspec import Struct

from agentv.reports.compare.words import (
    HEAD,
    FindReasons,
    case_label,
    case_lists,
    measure_cells,
    pairing_text,
    side_title,
    summary_sentences,
    verdict_text,
)
from agentv.reports.text.amounts import difference_text, score_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE, Paint, Signs, without_colour
from agentv.reports.text.width import clip, display_width, table, wrap
from agentv.scoring.comparison.circumstances import Circumstance, find_circumstances
from agentv.scoring.comparison.compare import CaseDifference, Change, Comparison, Finding, finding_text
from agentv.types.results import RunVerdict

MAX_LISTED = 10
"""The default maximum of listed cases, separately for improved and regressed ones."""

_MAX_NAMES = 20
_VALUE_WIDTH = 28
_COMMON_CHARS_SHOWN = 8
_MAX_REASON_LINES = 2
_COLOURS: dict[Finding, str] = {"better": "green", "worse": "red", "no significant difference": "bold"}


class ComparisonView(Struct, frozen=True):
    """The layout of a comparison as text. `width` None: nothing is wrapped or cut."""

    width: int | None = 80
    signs: Signs = UNICODE
    paint: Paint = without_colour
    max_listed: int = MAX_LISTED

    def render(self, comparison: Comparison, find_reasons: FindReasons, verdict: RunVerdict | None = None) -> str:
        """Return the text; its last line is the finding."""
        cells = [[one_line(cell) for cell in row] for row in measure_cells(comparison)]
        blocks = [
            self._head(comparison),
            table([HEAD, *cells], self.width, self.paint) if cells else [],
            self._summary_lines(comparison),
            self.circumstances(find_circumstances(comparison.before, comparison.after)),
            self._changed(comparison, "regressed", find_reasons),
            self._changed(comparison, "improved", find_reasons),
            self._case_lists(comparison),
            [] if verdict is None else self._verdict(verdict),
            [self.paint(line, _COLOURS[comparison.finding]) for line in self.wrapped(finding_text(comparison))],
        ]
        return self.signs.escape_unsupported("\n\n".join("\n".join(block) for block in blocks if block) + "\n")

    def _head(self, comparison: Comparison) -> list[str]:
        return [
            self.clipped(f"before  {side_title(comparison.before)}"),
            self.clipped(f"after   {side_title(comparison.after)}"),
            f"{'paired' if comparison.is_paired else 'cases':8}{pairing_text(comparison)}",
        ]

    def clipped(self, line: str) -> str:
        """Return a line, cut to the width."""
        return line if self.width is None else clip(line, self.width, mark=self.signs.ellipsis)

    def _summary_lines(self, comparison: Comparison) -> list[str]:
        return [line for text in summary_sentences(comparison) for line in self.wrapped(text)]

    def _verdict(self, verdict: RunVerdict) -> list[str]:
        return [
            self.paint(line, "red" if verdict.exit_code else "green") for line in self.wrapped(verdict_text(verdict))
        ]

    def wrapped(self, text: str) -> list[str]:
        """Return the lines of a text, wrapped to the width."""
        return [text] if self.width is None else wrap(text, self.width)

    def circumstances(self, found: tuple[Circumstance, ...]) -> list[str]:
        """Return the differences in setup, under a heading."""
        if not found:
            return []
        lines = [self.paint("differences in setup", "bold")]
        for each in found:
            lines.extend(self._indented(f"{one_line(each.name)}: {' -> '.join(self._values(each))}"))
        return lines

    def _values(self, differs: Circumstance) -> list[str]:
        """Return both values, cut if long; if they start alike, from shortly before their first difference."""
        shown = ["none" if value is None else one_line(value) for value in (differs.before, differs.after)]
        if self.width is None:
            return shown
        common = _common_start(*shown)
        if common > _VALUE_WIDTH // 2 and max(map(display_width, shown)) > _VALUE_WIDTH:
            shown = [f"{self.signs.ellipsis}{value[common - _COMMON_CHARS_SHOWN :]}" for value in shown]
        return [clip(value, _VALUE_WIDTH, mark=self.signs.ellipsis) for value in shown]

    def _indented(self, text: str) -> list[str]:
        return [f"  {line}" for line in (wrap(text, self.width - 4) if self.width is not None else [text])]

    def _changed(self, comparison: Comparison, change: Change, find_reasons: FindReasons) -> list[str]:
        cases = comparison.changed(change)
        if not cases:
            return []
        lines = [self.paint(f"{change}: {len(cases):,}", "bold")]
        for case in cases[: self.max_listed]:
            lines.extend(self._case(case, comparison, find_reasons))
        rest = len(cases) - self.max_listed
        return [*lines, f"and {rest:,} more: --list {len(cases)}"] if rest > 0 else lines

    def _case(self, case: CaseDifference, comparison: Comparison, find_reasons: FindReasons) -> list[str]:
        is_worse = case.change == "regressed"
        mark = self.paint(self.signs.marks["fail" if is_worse else "pass"], "red" if is_worse else "green")
        change_text = f"{score_text(case.before)} -> {score_text(case.after)}  {difference_text(case.difference)}"
        note = "  content changed" if case.is_content_changed else ""
        label_width = None if self.width is None else self.width - len(change_text) - len(note) - 4
        label = case_label(case.pair.after, comparison)
        shown = label if label_width is None else clip(label, label_width, mark=self.signs.ellipsis)
        reasons = find_reasons(case)
        lines = [f"{mark} {shown}  {change_text}{note}"]
        for side, reason in (("before", reasons.before), ("after", reasons.after)):
            if reason is not None:
                lines.extend(self._reason(f"{side}: {one_line(reason)}"))
        return lines

    def _reason(self, text: str) -> list[str]:
        if self.width is None:
            return [f"  {self.signs.gutter} {text}"]
        lines = wrap(text, self.width - 4)
        shown = lines[:_MAX_REASON_LINES]
        if len(lines) > len(shown):
            shown[-1] = clip(f"{shown[-1]} {lines[_MAX_REASON_LINES]}", self.width - 4, mark=self.signs.ellipsis)
        return [f"  {self.signs.gutter} {line}" for line in shown]

    def _case_lists(self, comparison: Comparison) -> list[str]:
        lines = []
        for heading, names in case_lists(comparison):
            shown = ", ".join(case_label(name, comparison) for name in names[:_MAX_NAMES])
            more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
            lines.append(f"{heading}: {len(names):,}")
            lines.extend(self._indented(f"{shown}{more}"))
        return lines


def _common_start(one: str, other: str) -> int:
    """Return the number of characters with which both texts start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))
