"""Numbers on the screen: readable, and never better than they are."""

import pytest

from agentv.reports.text.amounts import clock_text, money_text, percent_text, score_text, seconds_text, tokens_text


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "-"),
        (0, "0 %"),
        (1, "100 %"),
        (0.725, "72.5 %"),
        (0.9999, "99.9 %"),
        (0.0001, "0.1 %"),
        (1 / 3, "33.3 %"),
    ],
)
def test_percent(share: float | None, shown: str) -> None:
    assert percent_text(share) == shown


@pytest.mark.parametrize(
    ("score", "shown"), [(None, "-"), (1.0, "1.00"), (0.999, "0.99"), (0.334, "0.33"), (0, "0.00")]
)
def test_score(score: float | None, shown: str) -> None:
    assert score_text(score) == shown


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        (None, "-"),
        (0, "$0.00"),
        (0.00001, "<$0.0001"),
        (0.0021, "$0.0021"),
        (0.84, "$0.84"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money(dollars: float | None, shown: str) -> None:
    assert money_text(dollars) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (0.0034, "3 ms"),
        (0.82, "820 ms"),
        (0.9996, "1.0 s"),
        (12.44, "12.4 s"),
        (59.96, "01:00"),
        (75, "01:15"),
        (3700, "1:01:40"),
    ],
)
def test_seconds(seconds: float | None, shown: str) -> None:
    assert seconds_text(seconds) == shown


@pytest.mark.parametrize(
    ("tokens", "shown"), [(0, "0"), (950, "950"), (12_345, "12.3 k"), (999_999, "1.0 M"), (2_500_000, "2.5 M")]
)
def test_tokens(tokens: int, shown: str) -> None:
    assert tokens_text(tokens) == shown


def test_clock() -> None:
    assert clock_text(161.9) == "02:41"
