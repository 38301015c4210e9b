from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.judging import evaluator_of, make_context

from agentv.evaluators.text.keyword_coverage import KeywordCoverageEvaluator
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationScore

CONTEXT = {
    "words": ["refund", 30],
    "text": "refund, 30 days",
    "none": [],
    "blank": " ,; ",
    "deep": {"a": 1},
    "mixed": [{}],
}


def judge(candidate: str, *keywords: str, truth: Any = None, **settings: Any) -> EvaluationScore:
    context = make_context(candidate, ground_truth=truth, reference_answer=None, context=CONTEXT)
    if keywords:
        settings["expected_keywords"] = list(keywords)
    output = evaluator_of("keyword_coverage", **settings).evaluate(context)
    assert isinstance(output, EvaluationScore)
    return output


def refused(**settings: Any) -> str:
    with pytest.raises(EvalFileError) as caught:
        evaluator_of("keyword_coverage", **settings)
    return str(caught.value)


def test_the_score_is_the_share_of_keywords_and_each_is_named() -> None:
    score = judge("You get a refund within 30 days.", "refund", "30 days", "receipt")
    assert score.score == pytest.approx(2 / 3)
    assert score.hits == ('has "refund"', 'has "30 days"')
    assert score.misses == ('does not have "receipt"',)
    assert score.reasoning == '2 of 3 keywords; does not have "receipt"'
    assert score.expected_aspect_count == 3


def test_the_reasoning_names_the_first_five_keywords_that_are_missing() -> None:
    score = judge("a", *"abcdefgh")
    assert score.reasoning == "1 of 8 keywords; " + "; ".join(f'does not have "{k}"' for k in "bcdef") + "; and 2 more"


def test_keywords_from_a_text_are_stripped_even_if_white_space_counts() -> None:
    settings = {"keywords_source": "ground_truth", "normalize_whitespace": False}
    assert judge("pear and fig", truth="apple, pear ,fig", **settings).score == pytest.approx(2 / 3)


@pytest.mark.parametrize("keyword", ["C++", "node.js", "a|b", ".NET", "(x)", "100%", "\\d+", "{{reference}}"])
def test_keywords_are_literal_text(keyword: str) -> None:
    assert judge(f"we use {keyword}, mostly", keyword).score == 1.0
    assert judge("we use C, nodeXjs, a, b, NET, x, 100, 7", keyword).score == 0.0


@pytest.mark.parametrize(
    ("text", "keyword", "score"),
    [
        ("Это кот.", "кот", 1.0),
        ("Это который?", "кот", 0.0),
        ("КОТ и пёс", "кот", 1.0),  # noqa: RUF001 - Cyrillic
        ("我喜欢苹果手机", "苹果", 1.0),
        ("我喜欢香蕉", "苹果", 0.0),
        ("東京タワーへ", "タワー", 1.0),
        ("naïve Ideen", "naïve", 1.0),
        ("GRÜSSE aus Köln", "grüße", 1.0),
    ],
)
def test_whole_words_in_cyrillic_chinese_and_accented_text(text: str, keyword: str, score: float) -> None:
    assert judge(text, keyword).score == score


def test_cafe_with_an_accent_is_not_in_its_plural() -> None:
    assert judge("two cafés", "café").score == 0.0
    assert judge("two cafe\u0301s", "café").score == 0.0
    assert judge("a café", "cafe").score == 0.0
    assert judge("two cafés", "café", match_whole_word=False).score == 1.0


def test_cafe_is_found_however_its_accent_is_written() -> None:
    assert judge("a cafe\u0301!", "café").score == 1.0
    assert judge("a café!", "cafe\u0301").score == 1.0


def test_emoji_are_found_whole() -> None:
    assert judge("I ❤️ it 👍🏽", "❤", "👍").score == 1.0
    assert judge("I \u2764 it", "❤️").score == 1.0
    assert judge("👩\u200d👧", "👩").score == 0.0


def test_a_phrase_is_found_across_a_line_break() -> None:
    assert judge("within 30\n  days", "30 days").score == 1.0
    assert judge("within 30\n  days", "30 days", normalize_whitespace=False).score == 0.0


def test_case_counts_on_request() -> None:
    assert judge("REFUND", "refund").score == 1.0
    assert judge("REFUND", "refund", case_sensitive=True).score == 0.0


def test_a_keyword_given_twice_counts_once() -> None:
    score = judge("refund", "refund", "Refund ", "receipt")
    assert (score.score, score.hits) == (0.5, ('has "refund"',))
    assert judge("refund", "refund", "Refund", case_sensitive=True).score == 0.5


@pytest.mark.parametrize(
    ("truth", "settings", "keywords"),
    [
        (["refund", "30 days"], {}, ["refund", "30 days"]),
        ("refund, 30 days; receipt\nC++", {}, ["refund", "30 days", "receipt", "C++"]),
        ("refund 30", {"split": "whitespace"}, ["refund", "30"]),
        ("a, b", {"split": "exact"}, ["a, b"]),
        (30, {}, ["30"]),
        (["a", 30, True], {}, ["a", "30", "true"]),
    ],
)
def test_keywords_of_the_ground_truth(truth: Any, settings: Any, keywords: list[str]) -> None:
    score = judge("", truth=truth, keywords_source="ground_truth", **settings)
    assert score.misses == tuple(f'does not have "{keyword}"' for keyword in keywords)


def test_keywords_of_the_context() -> None:
    assert judge("refund in 30 days", keywords_source="context.words").score == 1.0
    assert judge("refund in 30 days", keywords_source="context.text").hits == ('has "refund"', 'has "30 days"')
    assert judge("1", keywords_source="context.deep.a").score == 1.0


def test_the_names_of_the_prd_are_read() -> None:
    settings = {"keywordsSourceField": "groundTruth", "groundTruthKeywordMode": "split-comma", "caseSensitive": True}
    assert judge("a", truth="a, b", **settings, matchWholeWord=True).score == 0.5
    assert judge("a", expectedKeywords=["a"]).score == 1.0


@pytest.mark.parametrize("source", ["context.gone", "context.none", "context.blank", "context.deep", "context.mixed"])
def test_a_source_without_keywords_is_an_error_and_neither_0_nor_1(source: str) -> None:
    with pytest.raises(EvaluatorError, match=source):
        judge("refund", keywords_source=source)


def test_no_ground_truth_is_an_error() -> None:
    context = make_context("refund", ground_truth=[])
    with pytest.raises(EvaluatorError, match="no keywords found at 'ground_truth'"):
        evaluator_of("keyword_coverage", keywords_source="ground_truth").evaluate(context)


def test_bad_settings_are_refused() -> None:
    assert "`expected_keywords` must have at least one keyword" in refused()
    assert "`expected_keywords` must have at least one keyword" in refused(expected_keywords=[])
    assert '`expected_keywords` has " "' in refused(expected_keywords=["a", " "])
    assert "`expected_keywords` cannot be combined with" in refused(
        expected_keywords=["a"], keywords_source="ground_truth"
    )
    assert "`keywords_source` 'nowhere' is not a source" in refused(keywords_source="nowhere")
    assert "keywords" in refused(keywords_source="config")


texts = st.text(alphabet="ab C+.й中é", max_size=30)


@given(text=texts, more=texts, keywords=st.lists(texts.filter(str.strip), min_size=1, max_size=4))
def test_more_text_never_covers_less(text: str, more: str, keywords: list[str]) -> None:
    made = KeywordCoverageEvaluator(expected_keywords=tuple(keywords))
    before, after = (made.evaluate(make_context(each)).score for each in (text, f"{text}\n{more}"))
    assert 0.0 <= before <= after <= 1.0


@given(keyword=st.text(max_size=10))
def test_a_text_has_itself_as_a_keyword(keyword: str) -> None:
    assume(keyword.translate(dict.fromkeys((0xFE0E, 0xFE0F))).strip())
    made = KeywordCoverageEvaluator(expected_keywords=(keyword,))
    assert made.evaluate(make_context(keyword)).score == 1.0
