"""The evaluator at work, as a run uses it."""

from agentv import CaseResult, EvalCase, EvaluatorConfig, evaluate
from my_evaluator import my_evaluator


def judged(answer: str, **settings: list[str]) -> CaseResult:
    """Return the result for one answer."""
    evaluators = [EvaluatorConfig("plain", "my_evaluator", settings)] if settings else [my_evaluator]
    return evaluate([EvalCase("refund", "How do refunds work?")], task=lambda _: answer, evaluators=evaluators).results[
        0
    ]


def test_plain_words_are_fine() -> None:
    assert judged("You get your money back.").score == 1.0


def test_each_word_of_jargon_costs_its_share_and_is_named() -> None:
    result = judged("We utilize your money.")
    assert round(result.score or 0, 3) == 0.667
    assert result.misses == ("says 'utilize'",)


def test_the_words_are_a_setting_once_the_package_is_installed() -> None:
    assert judged("A holistic refund.", words=["holistic"]).score == 0.0
