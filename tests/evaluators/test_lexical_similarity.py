import sys
from typing import Any

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import evaluator_of, make_context

from agentv.evaluators.text.lexical_similarity import LexicalSimilarityEvaluator
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationScore

ALGORITHMS = ["sorensen_dice", "jaro_winkler", "levenshtein", "token_set", "bleu", "chrf", "rouge_l"]


def judge(candidate: str, truth: Any = "Yes, within 30 days.", *, source: str = "response", **settings: Any) -> Any:
    context = make_context(candidate, ground_truth=truth, context={"other": "No.", "nothing": []})
    output = evaluator_of("lexical_similarity", source=source, **settings).evaluate(context)
    assert isinstance(output, EvaluationScore)
    return output


def refused(**settings: Any) -> str:
    with pytest.raises(EvalFileError) as caught:
        evaluator_of("lexical_similarity", **settings)
    return str(caught.value)


def test_it_reports_the_number_and_the_reference() -> None:
    score = judge("night", "nacht")
    assert score.score == pytest.approx(0.25)
    assert score.reasoning == 'sorensen_dice 0.250 with ground_truth "nacht"'
    assert (score.hits, score.misses) == ((), (score.reasoning,))
    assert judge("nacht", "nacht").hits == ('sorensen_dice 1.000 with ground_truth "nacht"',)


def test_the_best_of_several_references_counts_and_is_named() -> None:
    score = judge("yes, 30 days", ["No.", "Yes, 30 days", 30])
    assert score.score == 1.0
    assert score.hits == ('sorensen_dice 1.000 with ground_truth.1 "Yes, 30 days"',)
    assert judge("30", ["No.", 30]).hits == ('sorensen_dice 1.000 with ground_truth.1 "30"',)
    assert judge("no.", reference=["ground_truth", "context.other"]).hits == (
        'sorensen_dice 1.000 with context.other "No."',
    )


def test_a_threshold_is_reached_in_decimal_figures() -> None:
    # 1 - 4/5 is slightly below 0.2 in floating point
    assert judge("abcde", "axxxx", algorithm="levenshtein", threshold=0.2).score == 1.0


def test_a_threshold_makes_it_pass_or_fail() -> None:
    passed, failed = (judge("night", "nacht", threshold=threshold) for threshold in (0.25, 0.26))
    assert (passed.score, passed.hits) == (1.0, ('sorensen_dice 0.250 with ground_truth "nacht" (threshold 0.25)',))
    assert (failed.score, failed.misses) == (0.0, ('sorensen_dice 0.250 with ground_truth "nacht" (threshold 0.26)',))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_empty_against_empty_is_equal_and_against_anything_else_nothing(algorithm: str) -> None:
    assert judge("", "", algorithm=algorithm).score == 1.0
    assert judge(" \n", "", algorithm=algorithm).score == 1.0
    assert judge("", "text", algorithm=algorithm).score == 0.0
    assert judge("text", "", algorithm=algorithm).score == 0.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_anagrams_are_not_equal(algorithm: str) -> None:
    assert judge("listen", "silent", algorithm=algorithm).score < 1.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(text=st.text(max_size=40))
def test_a_text_is_equal_to_itself(algorithm: str, text: str) -> None:
    made = LexicalSimilarityEvaluator(algorithm=algorithm)
    assert made.evaluate(make_context(text, ground_truth=text)).score == 1.0


@pytest.mark.parametrize("algorithm", ["bleu", "chrf"])
@given(one=st.text(max_size=40), other=st.text(max_size=40))
def test_translation_measures_lie_between_0_and_1(algorithm: str, one: str, other: str) -> None:
    made = LexicalSimilarityEvaluator(algorithm=algorithm)
    assert 0.0 <= made.evaluate(make_context(one, ground_truth=other)).score <= 1.0


def test_translation_measures_are_those_of_sacrebleu() -> None:
    candidate, reference = "the cat sat on the mat", "the cat is on the mat"
    bleu = judge(candidate, reference, algorithm="bleu")
    chrf = judge(candidate, reference, algorithm="chrf")
    assert bleu.score == pytest.approx(sacrebleu.sentence_bleu(candidate, [reference]).score / 100)
    assert chrf.score == pytest.approx(sacrebleu.sentence_chrf(candidate, [reference]).score / 100)
    assert 0.3 < bleu.score < chrf.score < 0.8


def test_an_accent_is_equal_however_it_is_written() -> None:
    assert judge("cafe\u0301", "café", algorithm="levenshtein").score == 1.0
    assert judge("cafe\u0301", "café", algorithm="levenshtein", unicode="none").score == pytest.approx(0.6)


def test_emoji_are_letters_like_others() -> None:
    assert judge("👩‍👩‍👧‍👦 ok", "👩‍👩‍👧‍👦 ok").score == 1.0
    assert judge("👍", "👎").score == 0.0


def test_case_and_white_space_count_on_request() -> None:
    assert judge("YES  sir", "yes sir").score == 1.0
    assert judge("YES sir", "yes sir", case_sensitive=True).score < 1.0
    assert judge("yes  sir", "yes sir", normalize_whitespace=False).score < 1.0


@pytest.mark.parametrize("written", ["sorensen-dice", "jaro-winkler", "token-set", "rouge-l"])
def test_algorithms_may_be_spelled_with_hyphens(written: str) -> None:
    assert judge("night", "nacht", algorithm=written).reasoning.startswith(written.replace("-", "_"))


def test_the_keys_of_the_prd_are_read() -> None:
    settings: dict[str, Any] = {"referenceField": "context.other", "similarityThreshold": 0.5, "caseSensitive": True}
    assert judge("No.", **settings).hits == ('sorensen_dice 1.000 with context.other "No." (threshold 0.5)',)


def test_the_ground_truth_of_the_prd_is_ours() -> None:
    score = judge("night", ["nacht", "night"], referenceField="groundTruth")
    assert score.hits == ('sorensen_dice 1.000 with groundTruth.1 "night"',)
    assert judge("night", "night", source="groundTruth").score == 1.0


def test_a_reference_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(EvaluatorError, match=r"'context\.gone' finds nothing"):
        judge("x", reference="context.gone")
    with pytest.raises(EvaluatorError, match=r"'context\.nothing' is an empty list"):
        judge("x", reference="context.nothing")
    with pytest.raises(EvaluatorError, match="finds nothing"):
        evaluator_of("lexical_similarity", source="metadata.gone").evaluate(make_context())


def test_texts_that_are_too_long_are_an_error_and_no_zero() -> None:
    with pytest.raises(EvaluatorError, match=r"levenshtein: texts of .* use sorensen_dice"):
        judge("ab" * 150_000, "ba" * 150_000, algorithm="levenshtein")


def test_bad_settings_are_refused() -> None:
    assert "`threshold` must be above 0 and at most 1" in refused(threshold=0)
    assert "`reference` 'nowhere' is not a source" in refused(reference="nowhere")
    assert "`reference` must name at least one path" in refused(reference=[])
    assert "algorithm" in refused(algorithm="soundex")


def test_an_absent_extra_is_reported_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    assert "pip install 'agentv[text]'" in refused(algorithm="bleu")
    assert judge("a b", "a b", algorithm="rouge_l").score == 1.0
