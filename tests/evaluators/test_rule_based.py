import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluators.test_rules import HARD_PATTERN, HARD_TEXT
from tests.support.judging import evaluator_of, make_context, make_evaluator

from agentv.engine.plugins.loading import load_specs
from agentv.loading.suites.suites import load_suite
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.evaluation import EvaluationResult
from agentv.types.messages import Message, TextPart
from agentv.types.scales import EvaluationCriteria

ANSWER = "Sure, you have 30 days."


def results(candidate: str, *rules: dict[str, Any], **fields: Any) -> list[EvaluationResult]:
    evaluator = evaluator_of("rule_based", rules=list(rules))
    return evaluator.evaluate(make_context(candidate, **fields))  # type: ignore[return-value]  # rules give a list of results


def result(candidate: str, **rule: Any) -> EvaluationResult:
    (only,) = results(candidate, rule)
    return only


@pytest.mark.parametrize(
    "rule",
    [{"type": "includes", "keywords": ["CAF\u00c9"]}, {"type": "keyword_count", "keyword": "caf\u00e9", "min": 1}],
)
def test_a_keyword_with_an_accent_is_found_however_it_is_written(rule: Any) -> None:
    assert result("one cafe\u0301", **rule).score is True


@pytest.mark.parametrize(
    ("rule", "passed", "reasoning"),
    [
        ({"type": "regex", "pattern": r"\d+ days"}, True, 'matches "30 days"'),
        ({"type": "regex", "pattern": "sorry", "expect": "no_match"}, True, 'no match of "sorry"'),
        ({"type": "length", "max": 2, "unit": "words"}, False, "expected at most 2 words, got 5"),
        ({"type": "includes", "keywords": ["SURE", "days"]}, True, 'includes "SURE", "days"'),
        ({"type": "includes", "keywords": ["sure", "weeks"]}, False, 'does not include "weeks"'),
        ({"type": "includes", "keywords": ["sure", "weeks"], "expect": "any"}, True, 'includes "sure"'),
        ({"type": "includes", "keywords": ["no", "weeks"], "expect": "any"}, False, 'does not include "no", "weeks"'),
        ({"type": "includes", "keywords": ["sorry"], "expect": "none"}, True, 'does not include "sorry"'),
        ({"type": "includes", "keywords": ["days"], "expect": "none"}, False, 'includes "days"'),
        ({"type": "includes", "keywords": ["sure"], "case_sensitive": True}, False, 'does not include "sure"'),
        ({"type": "keyword_count", "keyword": "S", "min": 2, "max": 2}, True, 'has "S" 2 times'),
        ({"type": "keyword_count", "keyword": "30", "min": 2}, False, 'has "30" 1 time, expected at least 2'),
        ({"type": "keyword_count", "keyword": "s", "max": 1}, False, 'has "s" 2 times, expected at most 1'),
        ({"type": "keyword_count", "keyword": "S", "max": 1, "case_sensitive": True}, True, 'has "S" 1 time'),
        ({"type": "equals", "value": "no"}, False, 'expected "no", got "Sure, you have 30 days."'),
        ({"type": "starts_with", "value": "Sure"}, True, 'starts with "Sure"'),
        ({"type": "ends_with", "value": "days."}, True, 'ends with "days."'),
        ({"type": "contains", "value": ["30", "31"], "expect": "all"}, False, f'expected "31", got "{ANSWER}"'),
        ({"type": "numeric", "value": 29, "tolerance": 1}, True, "is 30"),
        ({"type": "one_of", "values": ["yes", "no"]}, False, f'expected one of "yes", "no", got "{ANSWER}"'),
    ],
)
def test_each_type_of_rule_says_what_it_found(rule: dict[str, Any], passed: bool, reasoning: str) -> None:
    judged = result(ANSWER, criterion="c", **rule)
    assert (judged.score, judged.value, judged.reasoning) == (passed, float(passed), reasoning)
    assert judged.criterion_name == "c"
    assert judged.evaluator_type == "rule_based"


@pytest.mark.parametrize("type_", ["json_parse", "is_json"])
def test_json_is_parsed_and_compared_with_a_schema(type_: str) -> None:
    schema = {"type": "object", "required": ["id"]}
    assert result('{"id": 1}', type=type_, schema=schema).score is True
    assert result("{}", type=type_, schema=schema).reasoning == "$: 'id' is a required property"
    assert result('```json\n{"id": 1}\n```', type=type_, fenced=True).score is True
    assert result("[1,", type=type_).score is False


@pytest.mark.parametrize("keyword", ["C++", "node.js", "a|b", "(", "$^", "naïve", "東京", "👩‍👩‍👧‍👦", "straße"])
def test_keywords_are_literal_text_of_any_script(keyword: str) -> None:
    assert result(f"I know {keyword}!", type="includes", keywords=[keyword]).score is True
    assert result(f"{keyword} and {keyword}", type="keyword_count", keyword=keyword, min=2, max=2).score is True
    assert result("I know C, nodexjs, a, b", type="includes", keywords=[keyword]).score is False


def test_the_names_of_the_prd_are_read() -> None:
    evaluator = make_evaluator(
        EvaluatorConfig(
            name="guardrails",
            type="RuleBased",
            settings={
                "rules": [
                    {
                        "criterionName": "Polite",
                        "config": {"type": "regex", "pattern": "^SURE", "flags": "i", "expectedOutcome": "match"},
                    },
                    {"criterionName": "Short", "config": {"type": "length", "min": 1, "max": 10}},
                    {
                        "criterionName": "Complete",
                        "sourceField": "prompt",
                        "config": {
                            "type": "includes",
                            "keywords": ["may", "Return"],
                            "expectedOutcome": "all",
                            "caseSensitive": True,
                        },
                    },
                    {"criterionName": "Json", "config": {"type": "json_parse"}},
                ]
            },
        )
    )
    judged = evaluator.evaluate(make_context(ANSWER))
    assert isinstance(judged, list)
    assert [(each.criterion_name, each.score) for each in judged] == [
        ("Polite", True),
        ("Short", False),
        ("Complete", False),
        ("Json", False),
    ]


SCALES = [
    (EvaluationCriteria("c"), True, False),
    (EvaluationCriteria("c", scale="pass/fail"), "pass", "fail"),
    (EvaluationCriteria("c", scale="likert5"), 5, 1),
    (EvaluationCriteria("c", scale="numeric"), 1, 0),
    (EvaluationCriteria("c", scale="numeric", min=0, max=10), 10, 0),
    (EvaluationCriteria("c", scale="percent"), 100, 0),
    (EvaluationCriteria("c", scale="labels", labels=("poor", "fair", "good")), "good", "poor"),
]


@pytest.mark.parametrize(("criterion", "passed", "failed"), SCALES, ids=lambda value: getattr(value, "scale", None))
def test_results_stand_on_their_criterions_scale(criterion: EvaluationCriteria, passed: object, failed: object) -> None:
    rules = [
        {"criterion": "c", "type": "contains", "value": "30"},
        {"criterion": "c", "type": "contains", "value": "31"},
        {"criterion": "c", "type": "contains", "value": "30", "source": "context.nothing"},
    ]
    good, bad, broken = results(ANSWER, *rules, criteria=(criterion,))
    assert (good.score, good.value, good.error) == (passed, 1.0, None)
    assert (bad.score, bad.value, bad.error) == (failed, 0.0, None)
    # An error is an error on every scale, never the lowest score.
    assert (broken.score, broken.value) == (None, None)
    assert broken.error == "the source 'context.nothing' finds nothing: there is nothing of that name"


def test_what_one_rule_cannot_judge_leaves_the_others_as_they_are() -> None:
    hard, lost, fine = results(
        HARD_TEXT,
        {"criterion": "a", "type": "regex", "pattern": HARD_PATTERN},
        {"criterion": "b", "type": "contains", "value": "x", "source": "metadata.absent"},
        {"criterion": "c", "type": "contains", "value": "aaa"},
    )
    assert hard.error is not None
    assert "did not finish within 1 s" in hard.error
    assert lost.error is not None
    assert (fine.score, fine.error) == (True, None)
    assert [each.metadata for each in (hard, lost, fine)] == [
        {"rule": 0, "type": "regex"},
        {"rule": 1, "type": "contains"},
        {"rule": 2, "type": "contains"},
    ]


def test_rules_for_one_criterion_are_listed_and_averaged() -> None:
    criteria = (EvaluationCriteria("form", weight=1), EvaluationCriteria("content", weight=3))
    judged = results(
        ANSWER,
        {"criterion": "form", "type": "length", "max": 100},
        {"criterion": "form", "type": "ends_with", "value": "!"},
        {"criterion": "content", "type": "contains", "value": "30"},
        criteria=criteria,
    )
    score = to_score(judged, name="rules", kind="rule_based", criteria=criteria)
    assert len(score.results) == 3
    assert score.score == pytest.approx((1 * 0.5 + 3 * 1.0) / 4)


@pytest.mark.parametrize(("criterion", "expected"), [(None, "guardrails"), ("form", "form")])
def test_a_rule_without_criterion_and_source_takes_its_evaluators(criterion: str | None, expected: str) -> None:
    settings: dict[str, Any] = {
        "rules": [{"type": "contains", "value": "return"}, {"type": "length", "min": 1, "criterion": "own"}]
    }
    config = EvaluatorConfig("guardrails", "rule_based", settings, criterion=criterion, source="prompt")
    judged = make_evaluator(config).evaluate(make_context("nothing of it"))
    assert isinstance(judged, list)
    assert [(each.criterion_name, each.score) for each in judged] == [(expected, True), ("own", True)]


def test_text_in_several_parts_of_a_message_is_one_text() -> None:
    message = Message("assistant", (TextPart("You have "), TextPart("30 days.")))
    rule = {"source": "output_messages.-1.content", "type": "regex", "pattern": r"have 30"}
    (judged,) = results("", rule, output_messages=(message,))
    assert judged.score is True


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "$.rules  `rules` must have at least one rule"),
        ([{"type": "regex", "pattern": "("}], '$.rules[0].pattern  `pattern` "(" is not a valid regular expression'),
        (
            [{"criterionName": "c", "config": {"type": "regex", "pattern": "("}}],
            '$.rules[0].config.pattern  `pattern` "(" is not a valid regular expression',
        ),
        (
            [{"criterionName": "c", "config": {"type": "length", "min": "a"}}],
            "$.rules[0].config.min  must be a whole number, but is a string",
        ),
        (
            [{"criterionName": "c", "type": "length", "config": {"min": 5, "max": 3}}],
            "$.rules[0].config.min  `min` 5 is larger than `max` 3",
        ),
        (
            [{"criterionName": "c", "type": "regex", "config": {"pattern": "a", "expectedOutcome": "maybe"}}],
            "$.rules[0].config.expectedOutcome  'maybe' is not allowed here",
        ),
        (
            [{"criterionName": "c", "config": {"type": "regex", "pattern": "a", "flgs": "i"}}],
            "$.rules[0].config.flgs  unknown key 'flgs'",
        ),
        (
            [{"type": "length", "max": 1, "config": {"type": "regex", "pattern": "a"}}],
            "$.rules[0].config  unknown key 'config'",
        ),
        ([{"type": "length", "min": 9, "max": 1}], "$.rules[0].min  `min` 9 is larger than `max` 1"),
        ([{"type": "keyword_count", "keyword": "a"}], "$.rules[0]  `keyword_count` needs `min`, `max` or both"),
        ([{"type": "keyword_count", "keyword": "", "min": 1}], "$.rules[0].keyword  `keyword` must not be empty"),
        ([{"type": "includes", "keywords": []}], "$.rules[0].keywords  `keywords` must have at least one text"),
        ([{"type": "includes", "keywords": ["a"], "expectedOutcome": "some"}], "'some' is not allowed here"),
        ([{"type": "regex", "pattern": "a", "expect": "maybe"}], "'maybe' is not allowed here; allowed: match"),
        (
            [{"type": "contains", "value": "a", "source": "contxt"}],
            "$.rules[0].source  `source` 'contxt' is not a source",
        ),
        ([{"type": "lenght", "max": 1}], "did you mean 'length'?"),
        ([{"pattern": "a"}], "$.rules[0]  the key 'type' is missing"),
        (
            [{"type": "json_parse", "schema": {"type": "objekt"}}],
            "$.rules[0].schema  `schema` is not a valid JSON Schema",
        ),
        ([{"type": "equals"}], "$.rules[0]  the key 'value' is missing"),
        ([{"type": "length", "max": 1}, {"type": "length", "mxa": 1}], "$.rules[1].mxa  unknown key 'mxa'"),
    ],
)
def test_bad_rules_are_refused_before_the_run(rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(EvalFileError, match=re.escape(message)):
        evaluator_of("rule_based", rules=rules)


def test_all_bad_rules_are_reported_at_once() -> None:
    with pytest.raises(EvalFileError) as caught:
        evaluator_of("rule_based", rules=[{"type": "regex", "pattern": "("}, {"type": "length"}, {"type": "x"}])
    assert len(caught.value.problems) == 3


def test_a_rule_for_a_criterion_that_is_not_there_is_refused(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text(
        """
criteria: [{name: polite}]
evalcases:
  - id: a
    expected_outcome: Polite
    input_messages: [{role: user, content: hi}]
    evaluators:
      - name: rules
        type: rule_based
        rules:
          - {criterion: polite, type: contains, value: please}
          - {criterionName: polit, type: contains, value: thanks}
"""
    )
    with pytest.raises(EvalFileError, match=re.escape("no criterion 'polit' in `criteria`")) as caught:
        load_suite(suite, specs=load_specs())
    (problem,) = caught.value.problems
    assert (problem.line, problem.suggestion) == (12, "polite")


def test_rules_run_in_place_unless_one_may_be_slow() -> None:
    quick = evaluator_of("rule_based", rules=[{"type": "length", "max": 3}, {"type": "contains", "value": "a"}])
    slow = evaluator_of("rule_based", rules=[{"type": "length", "max": 3}, {"type": "regex", "pattern": "a"}])
    assert (quick.inline, slow.inline) == (True, False)  # type: ignore[attr-defined]  # not every evaluator says it


def test_a_long_finding_is_kept_short() -> None:
    keywords = [f"keyword number {number}" for number in range(500)]
    judged = result("nothing", type="includes", keywords=keywords)
    assert judged.reasoning is not None
    assert len(judged.reasoning) < 1_100
    listed = result("nothing", type="contains", value=keywords, expect="all")
    assert listed.reasoning is not None
    assert listed.reasoning.endswith("; and 495 more")


@given(st.text(max_size=50), st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_any_is_the_opposite_of_none_and_follows_from_all(text: str, keywords: list[str]) -> None:
    every, some, none = (
        result(text, type="includes", keywords=keywords, expect=expect).value for expect in ("all", "any", "none")
    )
    assert some == 1.0 - (none or 0.0)
    assert (every or 0.0) <= (some or 0.0)
