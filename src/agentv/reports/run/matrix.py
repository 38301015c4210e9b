"""The matrix of a run: a cell with rate and mean for each prompt and target, and the best of them."""

from collections.abc import Sequence

from msgspec import Struct

from agentv.reports.document.blocks import BEST_MARK
from agentv.reports.run.row_text import cell_text
from agentv.reports.text.amounts import (
    count_text,
    difference_text,
    level_text,
    p_value_text,
    percent_interval_text,
    percent_text,
    score_interval_text,
    score_text,
)
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import Paint
from agentv.reports.text.width import clip_names, display_width, pad, wrap
from agentv.types.summaries import LEVEL, BestCell, CellSummary, MatrixSummary

NO_PROMPT = "(no prompt)"
_MAX_NAME_WIDTH = 24
_COLUMN_GAP = 3
_MAX_LOWER = 5


class Grid(Struct, frozen=True):
    """A matrix as rows and columns of names."""

    corner: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Sequence[Sequence[CellSummary | None]]
    """A list of cells for each row, with None where nothing was run."""


def grid_of(matrix: MatrixSummary, *, is_transposed: bool = False) -> Grid:
    """Return the matrix with a row per prompt and a column per target; `is_transposed` swaps the two."""
    prompts = [NO_PROMPT if each is None else one_line(each) for each in matrix.prompts]
    targets = [one_line(each) for each in matrix.targets]
    cells = [[matrix.cell(prompt, target) for target in matrix.targets] for prompt in matrix.prompts]
    if is_transposed:
        return Grid("target", prompts, targets, list(zip(*cells, strict=True)))
    return Grid("prompt", targets, prompts, cells)


def has_prompts(matrix: MatrixSummary) -> bool:
    """Return True if the matrix has prompts; without prompts, the table of targets already has all of its numbers."""
    return matrix.prompts != (None,)


def matrix_lines(matrix: MatrixSummary, width: int | None, paint: Paint, *, mark: str = "…") -> list[str]:
    """Return the matrix with the best cell below. Without prompts, return only the best cell.

    The matrix is split into parts whose columns fit into `width`; None does not split it.
    """
    table = _table(matrix, width, paint, mark) if has_prompts(matrix) else []
    text = best_text(matrix)
    if not text:
        return table
    return [*table, *([text] if width is None else wrap(text, width))]


def best_text(matrix: MatrixSummary) -> str:
    """Return which cell is the best, with the significance; empty if fewer than two cells have judged results."""
    best = matrix.best
    if best is None:
        return ""
    first = _cell_name(matrix, best.prompt, best.target)
    second = _cell_name(matrix, best.next_prompt, best.next_target)
    if best.difference is None:
        return f"no best: {first} and {second} share no judged case"
    interval = best.interval
    bounds = "" if interval is None else f" ({difference_text(interval.low)} to {difference_text(interval.high)})"
    if interval is not None and interval.level != LEVEL:
        bounds = f"{bounds[:-1]} at {level_text(interval.level)})"
    facts = f"{difference_text(best.difference)}{bounds}, {_p_text(best.p)}, {count_text(best.cases, 'case')}"
    if best.is_significant:
        return f"{BEST_MARK} best: {first}, above {second} by {facts}"
    return f"no significant best: {first} and {second} differ by {facts}{_lower_text(matrix, first, best)}"


def _lower_text(matrix: MatrixSummary, first: str, best: BestCell) -> str:
    """Return which cells are significantly below the one with the highest mean; empty if none is."""
    lower = [_cell_name(matrix, *cell) for cell in best.lower]
    if not lower:
        return ""
    rest = len(lower) - _MAX_LOWER
    names = ", ".join(lower[:_MAX_LOWER]) + (f" and {rest:,} more" if rest > 0 else "")
    return f"; {first} is significantly above {names}"


def _p_text(p: float) -> str:
    shown = p_value_text(p)
    return f"p {shown}" if shown.startswith(("<", ">")) else f"p = {shown}"


def _cell_name(matrix: MatrixSummary, prompt: str | None, target: str) -> str:
    """Return `small · short`; only the prompt if the run has one target, only the target if it has one prompt."""
    shown_target = one_line(target) if len(matrix.targets) > 1 else None
    return cell_text(shown_target, one_line(prompt or NO_PROMPT) if len(matrix.prompts) > 1 else None)


def rate_cell(cell: CellSummary) -> tuple[str, str]:
    """Return the pass rate of a cell and its interval."""
    return percent_text(cell.pass_rate), percent_interval_text(cell.pass_rate_interval)


def mean_cell(cell: CellSummary) -> tuple[str, str]:
    """Return the mean score of a cell and its interval."""
    return score_text(cell.mean_score), score_interval_text(cell.mean_interval)


def judged_text(cell: CellSummary) -> str:
    """Return the number of judged results of a cell, and the number of its errors: `of 200, 3 errors`."""
    errors = cell.counts.get("error", 0)
    return f"of {cell.judged:,}" + (f", {count_text(errors, 'error')}" if errors else "")


def common_count(matrix: MatrixSummary) -> int | None:
    """Return the number of judged results of each cell; None if it differs, or a cell has errors or no results."""
    is_full = len(matrix.cells) == len(matrix.prompts) * len(matrix.targets)
    counts = {each.judged for each in matrix.cells}
    has_errors = any(each.judged != each.rows for each in matrix.cells)
    return counts.pop() if is_full and len(counts) == 1 and not has_errors else None


def _table(matrix: MatrixSummary, width: int | None, paint: Paint, mark: str) -> list[str]:
    """Return the matrix as a table: transposed if that makes it fit, in several parts if it is still too wide."""
    upright, transposed = (_Layout(matrix, grid_of(matrix, is_transposed=each), mark) for each in (False, True))
    is_wide = width is not None and upright.width > width and transposed.width < upright.width
    layout = transposed if is_wide else upright
    per_part = max(1, len(layout.columns)) if width is None else layout.columns_in(width)
    lines: list[str] = []
    for start in range(0, len(layout.columns), per_part):
        lines += [*([""] if lines else []), *layout.lines(start, start + per_part, paint)]
    return lines


class _Layout:
    """The widths of a grid's columns, and its lines."""

    def __init__(self, matrix: MatrixSummary, grid: Grid, mark: str) -> None:
        self._matrix = matrix
        self._grid = grid
        common = common_count(matrix)
        self._texts = [[self._cell(each, with_count=common is None) for each in row] for row in grid.cells]
        corner = grid.corner if common is None else f"{grid.corner} ({common:,} each)"
        names = clip_names((corner, *grid.rows), _MAX_NAME_WIDTH, mark=mark)
        self._names = names
        self._name_width = max(map(display_width, names))
        self.columns = clip_names(grid.columns, _MAX_NAME_WIDTH, mark=mark)
        self._widths = [
            max(display_width(name), *(display_width(line) for row in self._texts for line in row[index]))
            for index, name in enumerate(self.columns)
        ]

    @property
    def width(self) -> int:
        """The width of a line with all columns, in terminal cells."""
        return self._name_width + sum(each + _COLUMN_GAP for each in self._widths)

    def columns_in(self, width: int) -> int:
        """Return the number of columns that fit side by side, at least 1."""
        return max(1, (width - self._name_width) // (max(self._widths) + _COLUMN_GAP))

    def _cell(self, cell: CellSummary | None, *, with_count: bool) -> list[str]:
        """Return the lines of a cell: rate, mean, and on request the number of judged results."""
        if cell is None:
            return ["-", "", *([""] if with_count else [])]
        # All cells leave room for the mark, so that their numbers are aligned.
        best = self._matrix.best
        blank_mark = "  " if best is not None and best.is_significant else ""
        mark = f" {BEST_MARK}" if self._matrix.is_best(cell) else blank_mark
        pairs = [rate_cell(cell), mean_cell(cell)]
        value_width, interval_width = (max(map(display_width, column)) for column in zip(*pairs, strict=True))
        lines = [
            f"{pad(value, value_width, right=True)}  {pad(bounds, interval_width, right=True)}"
            for value, bounds in pairs
        ]
        lines += [judged_text(cell)] if with_count else []
        return [f"{line}{blank_mark if number else mark}" for number, line in enumerate(lines)]

    def lines(self, start: int, end: int, paint: Paint) -> list[str]:
        """Return the lines of the columns from `start` to before `end`."""
        widths = self._widths[start:end]
        head = self._line(self._names[0], self.columns[start:end], widths)
        body = [
            self._line("" if number else name, cells, widths)
            for name, row in zip(self._names[1:], self._texts, strict=True)
            for number, cells in enumerate(zip(*row[start:end], strict=True))
        ]
        return [paint(head, "dim"), *body]

    def _line(self, name: str, cells: Sequence[str], widths: Sequence[int]) -> str:
        shown = [pad(cell, room, right=True) for cell, room in zip(cells, widths, strict=True)]
        return (" " * _COLUMN_GAP).join([pad(name, self._name_width), *shown]).rstrip()
