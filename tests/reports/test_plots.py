"""Charts: drawn with the numbers of their tables and round ticks, and with texts of strangers as texts."""

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile_texts import HOSTILE_TEXTS

from agentv.reports.document.blocks import (
    Axis,
    Box,
    Boxes,
    CountGrid,
    Document,
    Histogram,
    Plot,
    RunLine,
    RunPoint,
    Scatter,
    ScatterPoint,
    Value,
    plain,
)
from agentv.reports.document.html import documents_html
from agentv.reports.document.plots import boxes_svg, count_grid_svg, histogram_svg, run_line_svg, scatter_svg
from agentv.reports.document.scales import amount_scale, scale_of, share_scale, tick_text
from agentv.reports.document.text import TextRenderer

LINE = RunLine(
    Axis("pass rate", "share"),
    (
        RunPoint("a", 0.8, (0.7, 0.9), "2026-01-01", "a: 80 %"),
        RunPoint("b", None, date="2026-01-02", text="b: the run failed"),
        RunPoint("c", 0.5, (0.4, 0.6), "2026-01-03", "c: 50 %", is_changed=True),
        RunPoint("d", 0.6, (0.5, 0.7), "2026-01-04", "d: 60 %", is_edited=True),
    ),
)
SCATTER = Scatter(
    "cost and score",
    "prompts and targets",
    Axis("cost of an answer", "usd"),
    Axis("mean score", "score"),
    (ScatterPoint("small", 0.0005, 0.5, (0.4, 0.6)), ScatterPoint("large", 0.002, 0.9, (0.8, 1.0))),
)
BOXES = Boxes("latency", "target", Axis("latency", "s"), (Box("small", (0.1, 0.2, 0.4, 0.6, 1.0), (0.3, 0.5)),))
GRID = CountGrid("verdicts", ("humans pass", "humans fail"), ("judge passes", "judge fails"), ((43, 4), (5, 28)))
PLOTS = (Histogram((1, 0, 3)), LINE, SCATTER, BOXES, GRID)


def texts(svg: str) -> list[str]:
    """Return the texts that a chart shows."""
    return [each.text or "" for each in ET.fromstring(svg).iter("text")]


def attributes(svg: str, tag: str, *names: str) -> list[tuple[str | None, ...]]:
    return [tuple(each.get(name) for name in names) for each in ET.fromstring(svg).iter(tag)]


def test_a_histogram_is_drawn_as_one_bar_for_each_bin() -> None:
    assert histogram_svg(Histogram((2, 4))).markup == (
        '<svg width="100%" height="200" role="img" class="chart histogram">'
        "<title>Scores of 6 scored results in ten bins: 2, 4</title>"
        '<rect x="2.5%" y="100" width="45%" height="80" rx="2" class="fail"></rect>'
        '<text x="25%" y="95" class="count middle">2</text>'
        '<rect x="52.5%" y="20" width="45%" height="160" rx="2" class="borderline"></rect>'
        '<text x="75%" y="15" class="count middle">4</text>'
        '<text x="0%" y="196" class="tick middle">0</text><text x="100%" y="196" class="tick middle">1</text></svg>'
    )


def test_a_distribution_is_drawn_from_its_quantiles() -> None:
    svg = boxes_svg(BOXES).markup
    assert attributes(svg, "rect", "x", "width", "class") == [("20%", "40%", "box")]
    lines = {cls: (x1, x2) for x1, x2, cls in attributes(svg, "line", "x1", "x2", "class")}
    assert lines["median"] == ("40%", "40%")
    assert ("10%", "100%") in [
        (x1, x2) for x1, x2, cls in attributes(svg, "line", "x1", "x2", "class") if cls == "whisker"
    ]
    assert texts(svg) == ["0 ms", "250 ms", "500 ms", "750 ms", "1.0 s", "latency", "small"]


def test_points_stand_at_their_numbers_on_the_axes() -> None:
    svg = scatter_svg(SCATTER).markup
    # x from $0 to $0.002, y from 0.4 to 1.0 on 180 pixels.
    assert attributes(svg, "circle", "cx", "cy") == [("25%", "150"), ("100%", "30")]
    assert [(y1, y2) for y1, y2, cls in attributes(svg, "line", "y1", "y2", "class") if cls == "whisker"] == [
        ("180", "120"),
        ("60", "0"),
    ]


def test_a_gap_and_an_edit_interrupt_the_line_and_have_marks() -> None:
    drawn = run_line_svg(LINE)
    assert drawn is not None
    classes = [cls for (cls,) in attributes(drawn.markup, "line", "class")]
    assert (classes.count("segment"), classes.count("edit"), classes.count("whisker")) == (0, 1, 3)
    assert {"▲", "×"} <= set(texts(drawn.markup))  # noqa: RUF001 - the sign in the chart
    assert "pass rate of 4 runs, 50 % to 80 %, 1 gap" in drawn.markup


def test_a_line_without_a_value_is_not_drawn() -> None:
    assert run_line_svg(RunLine(LINE.axis, (RunPoint("a", None),))) is None


def test_a_cell_is_the_darker_the_more_answers_it_has() -> None:
    opacity = [float(each or 0) for (each,) in attributes(count_grid_svg(GRID).markup, "rect", "fill-opacity")]
    assert opacity[0] > opacity[3] > opacity[2] > opacity[1]


def test_the_numbers_of_a_chart_are_those_of_its_table() -> None:
    bins = texts(histogram_svg(Histogram((1, 0, 3))).markup)
    assert [cells[1] for cells in Histogram((1, 0, 3)).table.rows] == ["1", "0", "3"]
    assert bins[:2] == ["1", "3"], "an empty bin has no number"
    shown = re.findall(r"<title>(\w+): (.+?)</title>", scatter_svg(SCATTER).markup)
    rows = [(plain(name), x, y.text) for name, x, y in SCATTER.table.rows if isinstance(y, Value)]  # type: ignore[arg-type]
    assert (
        shown
        == [(name, f"{x}, {y}") for name, x, y in rows]
        == [
            ("small", "$0.00050, 0.50"),
            ("large", "$0.0020, 0.90"),
        ]
    )
    ((_, *quantiles),) = BOXES.table.rows
    in_table = ", ".join(plain(each.text if isinstance(each, Value) else each) for each in quantiles)
    assert f"<title>small: {in_table}</title>" in boxes_svg(BOXES).markup
    counts = [cell for _, *cells in GRID.table.rows for cell in cells]
    assert [each for each in texts(count_grid_svg(GRID).markup) if each.isdigit()] == counts


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: type(plot).__name__)
def test_every_chart_has_a_name_for_screen_readers_and_no_style_attribute(plot: Plot) -> None:
    page = documents_html([Document("title", (plot,))])
    (chart,) = re.findall(r'<svg [^>]*role="img"[^>]*><title>[^<]+</title>', page)
    assert " style=" not in page
    assert chart


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_names_of_strangers_are_texts(text: str) -> None:
    axis = Axis(text, "s")
    plots: tuple[Plot, ...] = (
        RunLine(axis, (RunPoint(text, 1.0, date=text, text=text), RunPoint(text, None, text=text))),
        Scatter(text, text, axis, axis, (ScatterPoint(text, 1.0, 2.0),)),
        Boxes(text, text, axis, (Box(text, (1.0, 2.0, 3.0, 4.0, 5.0)),)),
        CountGrid(text, (text, text), (text, text), ((1, 2), (3, 4))),
    )
    page = documents_html([Document("title", plots)])
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
    assert "<script" not in page
    assert "onerror=" not in re.sub(r">[^<]*<", "><", page)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_every_amount_is_within_its_scale(values: list[float]) -> None:
    scale = amount_scale(values)
    assert all(scale.low <= each * (1 + 1e-9) and each <= scale.high * (1 + 1e-9) for each in values)
    places = [scale.place(each) for each in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= each <= 1 for each in places)
    assert 2 <= len(scale.ticks) <= 8


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_every_rate_is_within_a_scale_that_does_not_exceed_a_whole(values: list[float]) -> None:
    scale = share_scale(values)
    assert 0 <= scale.low < scale.high <= 1
    assert all(scale.low - 1e-9 <= each <= scale.high + 1e-9 for each in values)


def test_amounts_of_different_orders_get_a_logarithmic_scale() -> None:
    scale = amount_scale([0.00003, 0.0009])
    assert (scale.is_log, scale.ticks) == (True, (0.00001, 0.0001, 0.001))
    assert math.isclose(scale.place(0.0001), 0.5)
    assert not amount_scale([0.0003, 0.0009]).is_log


def test_ticks_are_round_numbers() -> None:
    assert [tick_text(each, "usd") for each in amount_scale([0.00031]).ticks] == [
        "$0", "$0.0001", "$0.0002", "$0.0003", "$0.0004",
    ]  # fmt: skip
    assert [tick_text(each, "share") for each in scale_of([0.62, 0.93], "share").ticks] == [
        "60 %", "70 %", "80 %", "90 %", "100 %",
    ]  # fmt: skip
    assert [tick_text(each, "s") for each in (0, 0.0001, 0.02, 1.5, 90)] == [
        "0 ms",
        "0.1 ms",
        "20 ms",
        "1.5 s",
        "01:30",
    ]


def test_a_terminal_shows_the_numbers_of_a_chart_as_a_table() -> None:
    shown = TextRenderer().render([Document("latencies", (BOXES,))])
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["target", "5", "%", "25", "%", "median", "95", "%", "CI", "75", "%", "95", "%"],
        ["small", "100", "ms", "200", "ms", "400", "ms", "300", "ms", "to", "500", "ms", "600", "ms", "1.0", "s"],
    ]
