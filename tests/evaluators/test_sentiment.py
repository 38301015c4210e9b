import subprocess
import sys
from typing import Any

import pytest
from tests.support.judging import evaluator_of, make_context

from agentv.evaluators.text.sentiment import SentimentEvaluator
from agentv.scoring.results.completion import to_score
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.scales import EvaluationCriteria

GLAD, FLAT, SAD = "This is great, thank you!", "The train leaves at nine.", "This is a terrible, awful mess."


def judge(candidate: str, *, scale: EvaluationCriteria | None = None, **settings: Any) -> EvaluationResult:
    criteria = () if scale is None else (scale,)
    (result,) = scored(candidate, criteria, **settings).results
    return result


def scored(candidate: str, criteria: tuple[EvaluationCriteria, ...] = (), **settings: Any) -> EvaluationScore:
    output = evaluator_of("sentiment", **settings).evaluate(make_context(candidate, criteria=criteria))
    return to_score(output, name="sentiment", kind="sentiment", criteria=criteria)


def on(scale: str, **fields: Any) -> EvaluationCriteria:
    return EvaluationCriteria("sentiment", scale=scale, **fields)


def refused(**settings: Any) -> str:
    with pytest.raises(EvalFileError) as caught:
        evaluator_of("sentiment", **settings)
    return str(caught.value)


def test_the_compound_is_mapped_to_0_to_1() -> None:
    glad, flat, sad = (judge(text) for text in (GLAD, FLAT, SAD))
    assert glad.score == glad.value == pytest.approx(0.892)
    assert glad.reasoning == "positive (compound 0.78)"
    assert glad.metadata == {"compound": 0.784, "category": "positive"}
    assert (flat.score, flat.reasoning) == (0.5, "neutral (compound 0.00)")
    assert sad.value is not None
    assert sad.value < 0.2


def test_the_raw_score_is_the_compound_and_its_value_lies_on_0_to_1() -> None:
    sad = judge(SAD, output="raw_score")
    assert sad.score == -0.8225
    assert sad.value == pytest.approx((1 - 0.8225) / 2)
    assert judge(SAD, scale=on("numeric", min=-1, max=1), output="raw_score").score == -0.8225
    assert judge(SAD, scale=on("percent"), output="raw_score").score == pytest.approx(8.875)


@pytest.mark.parametrize(
    ("scale", "score", "value"),
    [
        (None, 1.0, 1.0),
        (on("likert5"), 5.0, 1.0),
        (on("pass/fail"), "pass", 1.0),
        (on("tone", labels=("negative", "neutral", "positive")), "positive", 1.0),
        (on("tone", labels=("positive", "neutral", "negative")), "positive", 0.0),
        (on("tone"), "positive", None),
    ],
)
def test_a_category_stands_on_its_criterions_scale(scale: Any, score: Any, value: float | None) -> None:
    result = judge(GLAD, scale=scale, output="category")
    assert (result.score, result.value, result.error) == (score, value, None)


def test_a_neutral_category_is_the_middle() -> None:
    assert judge(FLAT, output="category").value == 0.5
    assert judge(FLAT, scale=on("likert5"), output="category").score == 3.0


def test_a_category_that_the_labels_do_not_have_is_an_error() -> None:
    result = judge(FLAT, scale=on("tone", labels=("positive", "negative")), output="category")
    assert result.value is None
    assert result.error == "'neutral' is not one of the labels positive, negative"


@pytest.mark.parametrize(("expect", "text"), [("positive", GLAD), ("neutral", FLAT), ("negative", SAD)])
def test_an_expected_category_passes_or_fails(expect: str, text: str) -> None:
    for candidate in (GLAD, FLAT, SAD):
        assert judge(candidate, expect=expect).value == float(candidate is text)
        assert judge(candidate, expect=expect, output="category").value == float(candidate is text)
    assert judge(text, scale=on("pass/fail"), expect=expect).score == "pass"


def test_a_missed_expectation_says_what_was_expected() -> None:
    score = scored(SAD, expect="positive")
    assert score.misses == ("sentiment: negative (compound -0.82), expected positive",)
    assert scored(GLAD, expect="positive").hits == ("sentiment: positive (compound 0.78)",)


def test_thresholds_are_exclusive() -> None:
    assert judge(GLAD, expect="positive", positive_threshold=0.784).value == 0.0
    assert judge(GLAD, expect="neutral", positive_threshold=0.784).value == 1.0
    assert judge(SAD, expect="neutral", negative_threshold=-0.8225).value == 1.0


@pytest.mark.parametrize("text", ["", " ", "你好", "🚂"])
def test_a_text_without_a_word_of_the_list_is_neutral(text: str) -> None:
    assert judge(text).value == 0.5


def test_the_names_of_the_prd_are_read() -> None:
    settings: dict[str, Any] = {"outputType": "rawScore", "positiveThreshold": 0.5, "negativeThreshold": -0.5}
    assert judge(GLAD, **settings).score == 0.784
    assert judge(GLAD, outputType="comparativeNormalized").score == pytest.approx(0.892)


def test_bad_settings_are_refused() -> None:
    assert "`positive_threshold` -0.5 and `negative_threshold` 0.5" in refused(
        positive_threshold=-0.5, negative_threshold=0.5
    )
    assert "must be in -1..1" in refused(positive_threshold=1.5)
    assert "`expect` needs a category" in refused(expect="positive", output="raw_score")
    assert "expect" in refused(expect="angry")


def test_an_absent_extra_is_reported_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vaderSentiment", None)
    assert "sentiment needs optional packages; install them with: pip install 'agentv[text]'" in refused()


def test_a_source_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(EvaluatorError, match="finds nothing"):
        SentimentEvaluator(source="context.gone").evaluate(make_context())


def test_no_network_library_is_loaded() -> None:
    code = "import sys, agentv.evaluators.text.vader as v; v.make_analyzer(); print('requests' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
