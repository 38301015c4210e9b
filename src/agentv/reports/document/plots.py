"""Charts as SVG: lengths along x are percentages, so that a chart fits any width while its texts keep their size.

Looks are classes of report.css, since the policy of our pages forbids style attributes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from agentv.reports.document.blocks import Axis, Box, Boxes, CountGrid, Histogram, RunLine, RunPoint, Scatter
from agentv.reports.document.scales import Scale, amount_scale, scale_of, tick_text
from agentv.reports.text.amounts import count_text, tokens_text
from agentv.reports.text.markup import Child, Html, element, join
from agentv.reports.text.printable import one_line
from agentv.reports.text.signs import UNICODE
from agentv.reports.text.width import clip

_HEIGHT = 180
_TOP = 26
"""The room for the name of the y axis."""
_TICKS = 20
"""The room for the labels of the ticks of the x axis."""
_AXIS_NAME = 18
_BAR_ROOM = 20
"""The room for the counts above the bars."""
_ROW_HEIGHT = 46
_BOX_HEIGHT = 18
_CELL_HEIGHT = 84
_MAX_NAME_WIDTH = 36
_MAX_BAR_LABEL = 3
_COMPACT_FROM = 10_000
_MAX_DATES = 4
_MAX_NARROW_TICKS = 3
"""Of more ticks than this, every second label is left out of a narrow chart."""
_LABEL_WIDTH, _LABEL_HEIGHT = 0.06, 13
"""The size of the number of a point: a share of the width, and pixels."""
_TINTS = (0.08, 0.34)
"""The opacity of a cell with no answers, and of one with all of them."""


def histogram_svg(histogram: Histogram) -> Html:
    """Return a bar for each bin, in the colour of the verdict for its scores, with its count above."""
    bins = histogram.bins
    width = 100 / len(bins)
    bars = [_bar(index, count, len(bins), max(bins)) for index, count in enumerate(bins)]
    ticks = [
        _text(f"{index / len(bins):g}", f"{index * width:g}%", _HEIGHT + 16, class_="tick middle")
        for index in range(0, len(bins) + 1, 2)
    ]
    description = f"Scores of {count_text(sum(bins), 'scored result')} in ten bins: {', '.join(map(str, bins))}"
    return _svg("histogram", description, [*bars, *ticks], height=_HEIGHT + _TICKS)


def _bar(index: int, count: int, bins: int, highest: int) -> Html:
    height = max((_HEIGHT - _BAR_ROOM) * count / highest, 1.5 if count else 0)
    width, top = 100 / bins, _HEIGHT - height
    middle = (index + 0.5) / bins
    band = "pass" if middle > 0.8 else "borderline" if middle > 0.6 else "fail"  # noqa: PLR2004 - the bands of verdicts
    rect = element(
        "rect",
        x=_percent((index + 0.05) / bins),
        y=_px(top),
        width=f"{0.9 * width:g}%",
        height=_px(height),
        rx="2",
        class_=band,
    )
    shown = tokens_text(count) if count >= _COMPACT_FROM else f"{count:,}"
    size = "count middle long" if len(shown) > _MAX_BAR_LABEL else "count middle"
    return join((rect, _text(shown, _percent(middle), top - 5, class_=size) if count else None))


def run_line_svg(line: RunLine) -> Html | None:
    """Return the values from run to run, each with its interval; None without a value."""
    ends = [end for point in line.points for end in _ends(point.value, point.bounds)]
    if not ends:
        return None
    scale, count = scale_of(ends, line.axis.unit), len(line.points)
    places = [(number + 0.5) / count for number in range(count)]
    known = [each for each in line.values if each is not None]
    gaps = count - len(known)
    description = (
        f"{line.axis.name} of {count_text(count, 'run')}, {line.axis.text(min(known))} to {line.axis.text(max(known))}"
        + (f", {count_text(gaps, 'gap')}" if gaps else "")
    )
    parts: list[Child] = [
        *_y_grid(scale, line.axis),
        *_events(line.points, places),
        *_segments(line, places, scale),
        *(_run_point(*each, scale) for each in zip(line.points, places, strict=True)),
        *_dates(line.points, places),
    ]
    return _svg("line", description, parts, height=_TOP + _HEIGHT + _TICKS + _AXIS_NAME, top=_TOP)


def run_line_legend(line: RunLine) -> Html | None:
    """Return what the marks of a line mean, as far as it has any."""
    texts = (
        ("▲ the level changes", any(each.is_changed for each in line.points)),
        ("┊ the eval file was edited", any(each.is_edited for each in line.points)),
        ("× no value", any(each.value is None for each in line.points)),  # noqa: RUF001 - the sign in the chart
    )
    items = [element("li", text) for text, is_shown in texts if is_shown]
    return element("ul", *items, class_="legend") if items else None


def _segments(line: RunLine, places: Sequence[float], scale: Scale) -> Iterator[Html]:
    """Yield a line between neighbours with values; an edit of the eval file interrupts it."""
    pairs = list(zip(line.points, places, strict=True))
    for (before, left), (after, right) in pairwise(pairs):
        if before.value is not None and after.value is not None and not after.is_edited:
            yield _line(left, _y(scale, before.value), right, _y(scale, after.value), "segment")


def _run_point(point: RunPoint, place: float, scale: Scale) -> Html:
    if point.value is None:
        gap = _text("×", _percent(place), _HEIGHT - 4, class_="gap middle")  # noqa: RUF001 - the usual mark of no value
        return element("g", element("title", point.text or point.name), gap)
    whisker = _whisker(place, point.bounds, scale) if point.bounds is not None else None
    dot = element("circle", cx=_percent(place), cy=_px(_y(scale, point.value)), r="4", class_="dot")
    return element("g", element("title", point.text or point.name), whisker, dot)


def _events(points: Sequence[RunPoint], places: Sequence[float]) -> Iterator[Html]:
    """Yield a dashed line before an edit of the eval file, and a triangle below a change of level."""
    for point, place in zip(points, places, strict=True):
        if point.is_edited:
            before = place - 0.5 / len(points)
            yield _line(before, 0, before, _HEIGHT, "edit")
        if point.is_changed:
            yield _text("▲", _percent(place), _HEIGHT + 14, class_="change middle")


def _dates(points: Sequence[RunPoint], places: Sequence[float]) -> Iterator[Html]:
    """Yield the dates of the first and the last point, and of some between."""
    count = min(len(points), _MAX_DATES)
    shown = sorted({round(number * (len(points) - 1) / max(count - 1, 1)) for number in range(count)})
    first, *inner = shown
    last = inner.pop() if inner else first
    known = {points[first].date, points[last].date}
    for number in shown:
        is_end = number in (first, last)
        if not is_end and points[number].date in known:
            continue
        known.add(points[number].date)
        anchor = "middle spare" if not is_end else "middle" if first == last else "start" if number == first else "end"
        yield _text(points[number].date, _percent(places[number]), _HEIGHT + 30, class_=f"tick {anchor}")


def scatter_svg(scatter: Scatter) -> Html:
    """Return the points as numbered circles with the intervals of their y values."""
    x_scale = amount_scale([each.x for each in scatter.points])
    y_scale = scale_of([end for each in scatter.points for end in _ends(each.y, each.y_bounds)], scatter.y.unit)
    places = [(x_scale.place(each.x), _y(y_scale, each.y)) for each in scatter.points]
    marks: list[Child] = [
        element(
            "g",
            element("title", f"{point.name}: {scatter.x.text(point.x)}, {scatter.y.text(point.y)}"),
            _whisker(place, point.y_bounds, y_scale) if point.y_bounds is not None else None,
            element("circle", cx=_percent(place), cy=_px(top), r="5", class_="dot"),
        )
        for point, (place, top) in zip(scatter.points, places, strict=True)
    ]
    marks += (_number(*each) for each in enumerate(_label_places(places), start=1))
    description = f"{scatter.y.name} and {scatter.x.name} of {len(scatter.points):,} {scatter.corner}"
    parts = [*_y_grid(y_scale, scatter.y), *_x_grid(x_scale, scatter.x, _HEIGHT), *marks]
    return _svg("scatter", description, parts, height=_TOP + _HEIGHT + _TICKS + _AXIS_NAME, top=_TOP)


def _label_places(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, bool]]:
    """Yield a place for the number of each point, and whether it is on the right: the first that is free."""
    taken: list[tuple[float, float, bool]] = []
    for place, top in points:
        tries = [(place, top + moved, is_right) for moved in (0, -14, 14, -28, 28) for is_right in (True, False)]
        free = (each for each in tries if not any(_overlap(each, other) for other in taken))
        taken.append(next(free, tries[0]))
        yield taken[-1]


def _overlap(one: tuple[float, float, bool], other: tuple[float, float, bool]) -> bool:
    return one[2] == other[2] and abs(one[0] - other[0]) < _LABEL_WIDTH and abs(one[1] - other[1]) < _LABEL_HEIGHT


def _number(number: int, label: tuple[float, float, bool]) -> Html:
    place, top, is_right = label
    side, moved = ("number", "9") if is_right else ("number end", "-9")
    return element("text", str(number), x=_percent(place), y=_px(top + 4), dx=moved, class_=side)


def scatter_legend(scatter: Scatter) -> Html:
    """Return the names of the points, numbered as in the chart."""
    return element("ol", *(element("li", each.name, dir="auto") for each in scatter.points), class_="legend")


def boxes_svg(boxes: Boxes) -> Html:
    """Return a row for each distribution: a line from 5 to 95 %, a box from 25 to 75 %, and the median."""
    scale = amount_scale([end for box in boxes.boxes for end in (box.quantiles[0], box.quantiles[-1])])
    height = len(boxes.boxes) * _ROW_HEIGHT
    rows = [_box(box, boxes.axis, scale, number * _ROW_HEIGHT) for number, box in enumerate(boxes.boxes)]
    description = f"{boxes.axis.name} of {count_text(len(boxes.boxes), boxes.corner)}: median, and 5, 25, 75 and 95 %"
    parts = [*_x_grid(scale, boxes.axis, height), *rows]
    return _svg("boxes", description, parts, height=height + _TICKS + _AXIS_NAME)


def _box(box: Box, axis: Axis, scale: Scale, top: float) -> Html:
    low, first, median, third, high = map(scale.place, box.quantiles)
    middle = top + _ROW_HEIGHT - _BOX_HEIGHT / 2 - 4
    edge = middle - _BOX_HEIGHT / 2
    texts = ", ".join(map(axis.text, box.quantiles))
    return element(
        "g",
        element("title", f"{box.name}: {texts}"),
        _text(clip(one_line(box.name), _MAX_NAME_WIDTH, mark=UNICODE.ellipsis), "0", top + 16, class_="name"),
        _line(low, middle, high, middle, "whisker"),
        *(_line(end, middle - 4, end, middle + 4, "whisker") for end in (low, high)),
        element(
            "rect",
            x=_percent(first),
            y=_px(edge),
            width=_percent(max(third - first, 0.002)),
            height=str(_BOX_HEIGHT),
            class_="box",
        ),
        _line(median, edge, median, edge + _BOX_HEIGHT, "median"),
    )


def count_grid_svg(grid: CountGrid) -> Html:
    """Return a tinted cell for each pair of verdicts: the more answers, the stronger."""
    total = sum(map(sum, grid.counts)) or 1
    lightest, darkest = _TINTS
    cells: list[Child] = []
    for row, (row_name, counts) in enumerate(zip(grid.rows, grid.counts, strict=True)):
        for column, (column_name, count) in enumerate(zip(grid.columns, counts, strict=True)):
            left, width, top = column / len(counts), 1 / len(counts), row * _CELL_HEIGHT
            middle = _percent(left + width / 2)
            cells.append(
                element(
                    "rect",
                    x=_percent(left),
                    y=_px(top),
                    width=_percent(width),
                    height=str(_CELL_HEIGHT),
                    class_="cell agree" if row == column else "cell differ",
                    fill_opacity=f"{lightest + (darkest - lightest) * count / total:.2f}",
                )
            )
            cells.append(_text(f"{count:,}", middle, top + 34, class_="large middle"))
            cells.append(_text(row_name, middle, top + 56, class_="tick middle"))
            cells.append(_text(column_name, middle, top + 72, class_="tick middle"))
    names = (
        f"{row}, {column}: {count:,}"
        for row, counts in zip(grid.rows, grid.counts, strict=True)
        for column, count in zip(grid.columns, counts, strict=True)
    )
    return _svg("counts", f"{grid.title}: {'; '.join(names)}", cells, height=len(grid.rows) * _CELL_HEIGHT)


def _ends(value: float | None, bounds: tuple[float, float] | None) -> tuple[float, ...]:
    return () if value is None else (value, *(bounds or ()))


def _y_grid(scale: Scale, axis: Axis) -> Iterator[Html]:
    """Yield the name of the axis, and a line with its number for each tick."""
    yield _text(axis.name, "0", -12, class_="axis")
    for tick in scale.ticks:
        top = _y(scale, tick)
        yield _line(0, top, 1, top, "grid")
        yield _text(tick_text(tick, axis.unit), "-8", top + 4, class_="tick end")


def _x_grid(scale: Scale, axis: Axis, height: float) -> Iterator[Html]:
    for number, tick in enumerate(scale.ticks):
        place = scale.place(tick)
        yield _line(place, 0, place, height, "grid")
        spare = " spare" if number % 2 and len(scale.ticks) > _MAX_NARROW_TICKS else ""
        yield _text(tick_text(tick, axis.unit), _percent(place), height + 16, class_=f"tick middle{spare}")
    yield _text(axis.name, "50%", height + 34, class_="axis middle")


def _whisker(place: float, bounds: tuple[float, float], scale: Scale) -> Html:
    low, high = (_y(scale, each) for each in bounds)
    return _line(place, low, place, high, "whisker")


def _y(scale: Scale, value: float) -> float:
    return _HEIGHT * (1 - scale.place(value))


def _svg(kind: str, description: str, parts: Sequence[Child], *, height: float, top: float = 0) -> Html:
    """Return a chart; its margins, in which the labels of the axes are drawn, are in report.css."""
    moved = element("g", *parts, transform=f"translate(0 {_px(top)})") if top else join(parts)
    return element(
        "svg",
        element("title", description),
        moved,
        width="100%",
        height=_px(height),
        role="img",
        class_=f"chart {kind}",
    )


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return element("line", x1=_percent(x1), y1=_px(y1), x2=_percent(x2), y2=_px(y2), class_=class_)


def _text(text: str, x: str, y: float, *, class_: str) -> Html:
    return element("text", text, x=x, y=_px(y), class_=class_)


def _percent(share: float) -> str:
    return f"{100 * share:.5g}%"


def _px(length: float) -> str:
    return f"{length:.5g}"
