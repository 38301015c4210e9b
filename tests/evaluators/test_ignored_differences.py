# ruff: noqa: RUF001 - letters that look like others are tested here
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import evaluator_of, make_context

from agentv.types.errors import EvalFileError
from agentv.types.evaluation import EvaluationResult, EvaluationScore

PARTS = ("case", "punctuation", "markdown", "space")


def judge(type_: str, candidate: str, **settings: Any) -> EvaluationScore:
    score = evaluator_of(type_, **settings).evaluate(make_context(candidate))
    assert isinstance(score, EvaluationScore)
    return score


def is_equal(candidate: str, value: str, *ignore: str, **settings: Any) -> bool:
    return judge("equals", candidate, value=value, ignore=list(ignore), **settings).score == 1.0


@pytest.mark.parametrize(
    ("ignore", "answer", "value"),
    [
        (["case"], "PARIS", "Paris"),
        (["punctuation"], "Paris.", "Paris"),
        (["punctuation"], "“Paris”!", "Paris"),
        (["punctuation"], "(B)", "B"),
        (["punctuation"], "yes,no", "yes, no"),
        (["punctuation"], "U.S.A.", "USA"),
        (["punctuation"], "don’t", "dont"),
        (["punctuation"], "e-mail", "email"),
        (["punctuation"], "−5", "-5"),
        (["punctuation"], "巴黎。", "巴黎"),
        (["punctuation"], "Yes — it is", "Yes, it is"),
        (["markdown"], "**Paris**", "Paris"),
        (["markdown"], "__Paris__", "Paris"),
        (["markdown"], "`Paris`", "Paris"),
        (["markdown"], "```text\nParis\n```", "Paris"),
        (["markdown"], "# Paris", "Paris"),
        (["markdown"], "- Paris", "Paris"),
        (["markdown"], "> Paris", "Paris"),
        (["markdown"], "[Paris](https://example.org/Paris_(France))", "Paris"),
        (["markdown"], "答案是**巴黎**", "答案是巴黎"),
        (["markdown"], r"5\* hotel", "5* hotel"),
        (["markdown"], "**kwargs", "**kwargs"),
        (["space"], "10km", "10 km"),
        (["space"], "[1,2]", "[ 1,\n  2 ]"),
        (["space"], "a\u200bb", "ab"),
        (["markdown", "punctuation", "case"], "**paris.**", "Paris"),
        (["markdown", "punctuation", "case"], "_**PARIS**_!", "Paris"),
    ],
)
def test_ignored_differences_do_not_count(ignore: list[str], answer: str, value: str) -> None:
    assert is_equal(answer, value, *ignore)
    assert is_equal(value, answer, *ignore)
    assert answer == value or not is_equal(answer, value)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("3.14", "314"),
        ("-5", "5"),
        (".5", "5"),
        ("1/2", "12"),
        ("10:30", "1030"),
        ("20 30", "2030"),
        ("A+", "A"),
        ("A-", "A"),
        ("A*", "A"),
        ("C#", "C"),
        ("C++", "C"),
        ("50%", "50"),
        ("$5", "5"),
        ("2*3", "23"),
        ("> 5", "5"),
        ("snake_case", "snakecase"),
        ("~~no~~ yes", "no yes"),
        ("Paris, Texas", "Paris"),
    ],
)
def test_signs_with_a_meaning_are_never_ignored(answer: str, value: str) -> None:
    assert not is_equal(answer, value, *PARTS)


@pytest.mark.parametrize(
    ("location", "answer", "value", "is_there"),
    [
        ("start", "Paris, of course", "Paris", True),
        ("start", "Parisian life", "Paris", False),
        ("start", "It is Paris", "Paris", False),
        ("end", "The answer is 4", "4", True),
        ("end", "The answer is 14", "4", False),
        ("end", "The answer is 0.4", "4", False),
        ("end", "The answer is 1,4", "4", False),
        ("end", "The answer is -4", "4", False),
        ("end", "The answer is -4", "-4", True),
        ("end", "2-4", "4", True),
        ("end", "It is Paris \n", "Paris", True),
        ("end", "It is Paris.", "Paris", False),
        ("any", "It is Paris.", "Paris", True),
        ("any", "The party", "art", False),
        ("any", "party art", "art", True),
        ("any", "Answer:B", "B", True),
        ("any", "costs 4.50", "4", False),
        ("any", "costs 4.", "4", True),
        ("any", "答案是巴黎。", "巴黎", True),
        ("any", "C++11", "C++", True),
        ("begin", "Paris it is", "Paris", True),
    ],
)
def test_a_location_is_searched_for_whole_words(location: str, answer: str, value: str, is_there: bool) -> None:
    score = judge("equals", answer, value=value, location=location)
    assert score.score == is_there
    assert judge("one_of", answer, values=["nothing", value], location=location).score == is_there


def test_a_location_and_what_is_ignored_work_together() -> None:
    assert is_equal("The answer is **Paris**.", "paris", *PARTS, location="end")
    assert is_equal("The distance: 10 km", "10km", "space", location="end")
    assert is_equal("Answer:B", "b", "case", "punctuation", location="end")
    assert not is_equal("It is 3 5", "35", "space", location="end")


@pytest.mark.parametrize(
    ("type_", "settings", "answer"),
    [
        ("contains", {"value": "30 days"}, "within **30** Days."),
        ("starts_with", {"value": "yes"}, "**Yes**, sure"),
        ("ends_with", {"value": "yes, sure"}, "Well: *Yes* sure."),
        ("one_of", {"values": ["no", "yes"]}, "**Yes.**"),
    ],
)
def test_other_rules_ignore_too(type_: str, settings: dict[str, Any], answer: str) -> None:
    assert judge(type_, answer, **settings, case_sensitive=False).score == 0.0
    assert judge(type_, answer, **settings, ignore=["case", "punctuation", "markdown"]).score == 1.0


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ({"type": "includes", "keywords": ["30 days", "e-mail"]}, "**30** days, email"),
        ({"type": "keyword_count", "keyword": "30 days", "min": 2}, "**30** days, 30 days"),
        ({"type": "equals", "value": "Paris"}, "*Paris.*"),
    ],
)
def test_rules_of_a_list_ignore_too(rule: dict[str, Any], answer: str) -> None:
    ignoring = {**rule, "ignore": ["punctuation", "markdown"]}
    results = evaluator_of("rule_based", rules=[rule, ignoring]).evaluate(make_context(answer))
    assert isinstance(results, list)
    assert [each.score for each in results if isinstance(each, EvaluationResult)] == [False, True]


@pytest.mark.parametrize(
    ("type_", "settings", "answer", "hits", "misses"),
    [
        ("equals", {"value": "Paris", "ignore": "case"}, "PARIS", ['equals "Paris", ignoring case'], []),
        (
            "equals",
            {"value": "Paris", "ignore": ["markdown", "punctuation"]},
            "**It's Paris.**",
            [],
            [
                'expected "Paris", got "**It\'s Paris.**" (compared as "Its Paris", ignoring punctuation, markdown)',
            ],
        ),
        ("equals", {"value": "a", "ignore": ["case"]}, "b", [], ['expected "a", got "b" (ignoring case)']),
        ("equals", {"value": "Paris", "location": "end"}, "It is Paris", ['ends with the words "Paris"'], []),
        (
            "equals",
            {"value": "art", "location": "any"},
            "party",
            [],
            ['expected the words "art", got "party"'],
        ),
        (
            "one_of",
            {"values": ["A", "B"], "location": "start", "ignore": "markdown"},
            "**B** it is",
            ['starts with the words "B", ignoring markdown'],
            [],
        ),
        (
            "one_of",
            {"values": ["A", "B"], "location": "end"},
            "C",
            [],
            ['expected one of "A", "B" as words at the end, got "C"'],
        ),
    ],
)
def test_lines_name_what_was_compared(
    type_: str, settings: dict[str, Any], answer: str, hits: list[str], misses: list[str]
) -> None:
    score = judge(type_, answer, **settings)
    assert (list(score.hits), list(score.misses)) == (hits, misses)


@pytest.mark.parametrize("case_sensitive", [True, False])
def test_case_is_ignored_if_either_setting_says_so(case_sensitive: bool) -> None:
    assert is_equal("paris", "Paris", "case", case_sensitive=case_sensitive)
    assert is_equal("paris", "Paris", case_sensitive=case_sensitive) is not case_sensitive


@pytest.mark.parametrize(
    ("type_", "settings", "message"),
    [
        ("equals", {"value": "a", "ignore_case": True}, "unknown key 'ignore_case'; write `ignore: [case]`"),
        ("equals", {"value": "a", "ignorePunctuation": True}, "'ignorePunctuation'; write `ignore: [punctuation]`"),
        ("equals", {"value": "a", "strip": True}, "unknown key 'strip'; write `ignore:` with any of"),
        ("equals", {"value": "a", "ignore": ["whitespace"]}, "did you mean 'space'?"),
        ("equals", {"value": "a", "location": "exact"}, "'exact' is not allowed here; allowed: start, end, any"),
        ("equals", {"value": "a", "location": "ned"}, "did you mean 'end'?"),
        ("contains", {"value": "a", "location": "end"}, "unknown key 'location'; `equals` has `location`"),
        ("equals", {"value": "?!", "ignore": ["punctuation"]}, '$.value  `value` "?!" is empty without punctuation'),
        ("one_of", {"values": ["a", "…"], "ignore": ["punctuation"]}, '$.values  `values` "…" is empty without'),
        ("contains", {"value": " ", "ignore": ["space"]}, '$.value  `value` " " is empty without space'),
        ("equals", {"value": " ", "location": "any"}, "`value` must not be empty with `location`"),
    ],
)
def test_wrong_settings_name_the_right_ones(type_: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=re.escape(message)):
        evaluator_of(type_, **settings)


def test_an_empty_answer_can_be_expected() -> None:
    assert is_equal(" ", "", *PARTS)
    assert not is_equal("Paris", "", *PARTS)


LETTERS = st.text(alphabet="aAbé1 2.,-−–*_`'’!()#>[]/\\\n\u200bßİͅ的。5½", max_size=12)
SETS = st.sets(st.sampled_from(PARTS))


@st.composite
def similar_texts(draw: st.DrawFn) -> tuple[str, str]:
    """Return two texts that differ in what can be ignored, now and then also in something else."""
    text = draw(LETTERS)
    noise = st.sampled_from(["", "", "", " ", ".", ",", "*", "**", "-", "`", "_", "'", "\n"])
    letters = [draw(noise) + (letter.swapcase() if draw(st.booleans()) else letter) for letter in text]
    return text, "".join(letters) + draw(noise)


def match(candidate: str, value: str, ignored: set[str], **settings: Any) -> bool | None:
    """Return whether an answer matches; None if nothing is left of the expected text."""
    try:
        return is_equal(candidate, value, *sorted(ignored), **settings)
    except EvalFileError:
        return None


@given(similar_texts(), SETS, SETS)
def test_ignoring_more_never_turns_a_match_into_a_miss(texts: tuple[str, str], few: set[str], more: set[str]) -> None:
    if match(*texts, few):
        assert match(*texts, few | more) is not False


@given(similar_texts(), SETS)
def test_equality_has_no_direction(texts: tuple[str, str], ignored: set[str]) -> None:
    answer, value = texts
    there, back = match(answer, value, ignored), match(value, answer, ignored)
    assert there == back or None in (there, back)


@given(LETTERS, SETS)
def test_every_text_equals_itself(text: str, ignored: set[str]) -> None:
    assert match(text, text, ignored) is not False


@given(similar_texts(), SETS, st.sampled_from(["start", "end", "any"]))
def test_what_equals_a_text_also_has_it_at_every_location(
    texts: tuple[str, str], ignored: set[str], location: str
) -> None:
    if match(*texts, ignored):
        assert match(*texts, ignored, location=location) is not False


@given(similar_texts(), SETS, st.sampled_from(["start", "end"]))
def test_what_is_at_an_end_is_also_anywhere(texts: tuple[str, str], ignored: set[str], location: str) -> None:
    answer, value = texts
    if match(f"{answer} b", value, ignored, location=location):
        assert match(f"{answer} b", value, ignored, location="any")


@pytest.mark.parametrize("piece", ["*", "**a ", "[a](", "- ", "`a", "a.", "a "])
def test_a_megabyte_is_compared_at_once(piece: str) -> None:
    text = piece * (10**6 // len(piece))
    started = time.process_time()
    judge("equals", text, value="a", ignore=list(PARTS))
    judge("equals", text, value="a b", ignore=list(PARTS), location="any")
    assert time.process_time() - started < 10
