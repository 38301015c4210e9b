# ruff: noqa: RUF001 - letters that look like others are tested here
import re
import time
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import evaluator_of, make_context

from agentv.scoring.text.numbers import NoNumber, Number, numbers_in
from agentv.types.errors import EvalFileError
from agentv.types.evaluation import EvaluationScore


def judge(candidate: str, **settings: Any) -> EvaluationScore:
    score = evaluator_of("numeric", **settings).evaluate(make_context(candidate))
    assert isinstance(score, EvaluationScore)
    return score


def values_in(text: str, *, percent: bool = False) -> list[float]:
    return [float(each.value) for each in numbers_in(text, percent=percent) if isinstance(each, Number)]


@pytest.mark.parametrize(
    ("settings", "candidate", "hits", "misses"),
    [
        ({"value": 36}, "It is 36.", ["is 36"], []),
        ({"value": 36}, "12 * 3 = 36.", ["is 36, the last of 3 numbers: 12, 3, 36"], []),
        ({"value": 36}, "36 of 40", [], ["expected 36, took 40, the last of 2 numbers: 36, 40; pick: first takes 36"]),
        ({"value": 36}, "37", [], ["expected 36, got 37"]),
        ({"value": 0.3}, "0.30", ["is 0.30"], []),
        ({"value": 3.14, "tolerance": 0.01}, "about 3.15", ["is 3.15"], []),
        ({"value": 3.14, "tolerance": 0.01}, "3.2", [], ["expected 3.14 ± 0.01, got 3.2"]),
        ({"value": [1, 2]}, "2", ["is 2"], []),
        ({"value": 1}, "one", [], ['expected 1, found no number in "one"']),
        (
            {"value": 42},
            "= 42 (see step 3)",
            [],
            ["expected 42, took 3, the last of 2 numbers: 42, 3; pick: first takes 42"],
        ),
        ({"value": 42, "pick": "first"}, "= 42 (see step 3)", ["is 42, the first of 2 numbers: 42, 3"], []),
        (
            {"value": 3, "pick": "first"},
            "42, then 3",
            [],
            ["expected 3, took 42, the first of 2 numbers: 42, 3; pick: last takes 3"],
        ),
        ({"value": 42, "pick": "only"}, "42", ["is 42"], []),
        ({"value": 42, "pick": "only"}, "6 * 7", [], ["expected 42 as the only number, found 2 numbers: 6, 7"]),
        (
            {"value": 42, "pick": "only"},
            "It is **42**. Yes, 42.",
            ["is 42, the value of each of 2 numbers: 42, 42"],
            [],
        ),
        ({"value": 9}, "1 2 3 4 5 6 7 8 9", ["is 9, the last of 9 numbers: 1, 2, 3, 4, …, 9"], []),
        ({"value": 1.5}, "1½", ["is 1.5 (written 1½)"], []),
        ({"value": 60}, "60%", ["is 60 (written 60%)"], []),
        ({"value": 0.6, "percent": True}, "60%", ["is 0.60 (written 60%)"], []),
        ({"value": 0.6, "percent": True}, "0.6", ["is 0.6"], []),
        (
            {"value": 2024},
            "On 2024-05-01 at 10:30.",
            [],
            ['expected 2024, found no number in "On 2024-05-01 at 10:30."; not read as numbers: 2024-05-01, 10:30'],
        ),
        ({"value": 7}, "5 on 2024-05-01", [], ["expected 7, got 5; not read as numbers: 2024-05-01"]),
    ],
)
def test_the_number_that_was_taken_is_named(
    settings: dict[str, Any], candidate: str, hits: list[str], misses: list[str]
) -> None:
    score = judge(candidate, **settings)
    assert (list(score.hits), list(score.misses)) == (hits, misses)
    assert score.score == (0.0 if misses else 1.0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The total is 1,234.50 dollars", [1234.5]),
        ("from 3 to -5", [3, -5]),
        ("2-3", [2, 3]),
        ("x = −7", [-7]),
        ("1e3", [1000]),
        (".5", [0.5]),
        ("v2", []),
        ("none", []),
        ("3.", [3]),
        ("1,23", [1, 23]),
        ("It costs 1,234, which is much", [1234]),
        ("1,2,3", [1, 2, 3]),
        ("1,234,5678", [1, 234, 5678]),
        ("-5,6", [-5, 6]),
        ("½", [0.5]),
        ("⅓", [1 / 3]),
        ("1 ½ cups", [1.5]),
        ("−¾", [-0.75]),
        ("1/2", [0.5]),
        ("1 1/2", [1.5]),
        ("in 5 3/2", [5, 1.5]),
        ("1/0", []),
        (r"\frac{1}{2}", [0.5]),
        (r"3\frac{1}{4}", [3.25]),
        (r"\boxed{42}", [42]),
        ("1{,}234", [1234]),
        ("-$5", [-5]),
        ("$-5.50", [-5.5]),
        ("US$1,000", [1000]),
        ("1.234,56 €", [1234.56]),
        ("1.234.567", [1234567]),
        ("1.234", [1.234]),
        ("1\u202f234\u202f567", [1234567]),
        ("1'234'567", [1234567]),
        ("1_000_000", [1000000]),
        ("3 × 10^5", [300000]),
        (r"6.02 \times 10^{23}", [6.02e23]),
        ("1.5 x 10⁻³", [0.0015]),
        ("10²", [100]),
        ("25 m^2", [25]),
        ("25 m²", [25]),
        ("４２", [42]),
        ("１，２３４．５", [1234.5]),
        ("٤٢", [42]),
        ("(–5)", [-5]),
        ("3–5", [3, 5]),
        ("**42**, _43_", [42, 43]),
        ("a_42", []),
        ("60 %", [60]),
        ("2024-05-01T10:30:00Z", []),
        ("1/2/2024, 5.1.2024 or 01-05-2024", []),
        ("version 1.2.3 at 192.168.0.1", []),
        ("16:9", [16, 9]),
        ("1/2/3/4", [1, 2, 3, 4]),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, numbers: list[float]) -> None:
    assert values_in(text) == numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [("60%", 0.6), ("60 percent", 0.6), (r"60\%", 0.6), ("5‰", 0.005), ("６０％", 0.6), ("0.6", 0.6)],
)
def test_percent_is_a_share_on_request(text: str, number: float) -> None:
    assert values_in(text, percent=True) == [number]
    assert judge(text, value=number, percent=True).score == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"value": 1, "tolerance": -1}, "$.tolerance  `tolerance` must be a finite number of at least 0"),
        (
            {"value": 1, "pick": "frist"},
            "$.pick  'frist' is not allowed here; allowed: first, last, only; did you mean",
        ),
        ({"value": 1, "which": "first"}, "unknown key 'which'; write `pick: first`, `last` or `only`"),
        ({"value": 1, "absTol": 1}, "unknown key 'absTol'; write `tolerance`"),
    ],
)
def test_wrong_settings_name_the_right_ones(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=re.escape(message)):
        evaluator_of("numeric", **settings)


@pytest.mark.parametrize(
    "text", ["1" + ",234" * 250_000 + ",5", "1 " * 500_000 + "5", "v" + "9" * 1_000_000 + " 5", "-+$" * 300_000 + "5"]
)
def test_a_megabyte_is_read_at_once(text: str) -> None:
    started = time.process_time()
    assert judge(text, value=5).score == 1.0
    assert time.process_time() - started < 4


def test_a_number_of_a_million_figures_is_a_wrong_number_and_no_fault() -> None:
    assert judge("9" * 1_100_000, value=1).misses == ("expected 1, got 1.000000000e+1100000",)


def test_a_wrong_number_is_shown_with_all_its_figures() -> None:
    assert judge("1234568", value=1234567).misses == ("expected 1234567, got 1234568",)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_written_number_is_read_back(value: float) -> None:
    assert values_in(f"it is {value!r}") == [value]


@given(st.text(alphabet="0123456789.,/-: %$\\^x½'e()+_{}abc"))
def test_the_quick_way_reads_the_same_numbers(text: str) -> None:
    # A word after a number decides that nothing else belongs to it; a sign that is no part of numbers does not.
    assert values_in(f"{text} and") == values_in(f"{text} & and")


@given(st.text(alphabet="0123456789.,/-: %$\\^x½'e()+_{}abc"), st.sampled_from(["first", "last"]))
def test_the_only_number_is_also_the_first_and_the_last(text: str, pick: str) -> None:
    for value in values_in(text)[:1]:
        if isfinite(value) and judge(text, value=value, pick="only").score == 1.0:
            assert judge(text, value=value, pick=pick).score == 1.0


def test_a_date_is_one_thing() -> None:
    assert list(numbers_in("2024-05-01")) == [NoNumber("2024-05-01")]
