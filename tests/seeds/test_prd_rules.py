"""Seed evaluation-framework-prd.md: RuleBasedEvaluator and ToolUsageEvaluator."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.judging import make_context, make_evaluator

from agentv import EvaluationContext, EvaluationCriteria, EvaluatorConfig, Message, ToolCall
from agentv.messages.shapes.reading import read_messages
from agentv.scoring.results.completion import to_score
from agentv.types.evaluation import EvaluationScore

SUITE = """
criteria:
  - {name: IsConcise, scale: binary}
  - {name: ContainsKeyTerms, scale: pass/fail}
  - {name: ValidFormat, scale: likert5, weight: 2}
evalcases:
  - id: c
    expected_outcome: A short JSON object
    input_messages: [{role: user, content: hi}]
    evaluators:
      - name: checks
        type: RuleBased
        rules:
          - {criterionName: IsConcise, type: length, max: 20}
          - {criterionName: ContainsKeyTerms, type: keyword_count, keyword: refund, min: 1}
          - {criterionName: ValidFormat, type: json_parse}
          - {criterionName: ValidFormat, type: regex, pattern: '^\\{.*\\}$'}
"""


def judge(type_: str, context: EvaluationContext, **settings: Any) -> EvaluationScore:
    evaluator = make_evaluator(EvaluatorConfig("checks", type_, settings))
    return to_score(evaluator.evaluate(context), name="checks", kind=evaluator.kind, criteria=context.criteria)


def test_rules_judge_named_criteria_without_a_model(run: Callable[..., Any]) -> None:
    done = run(SUITE, targets='targets: [{name: t, provider: mock, response: \'{"a": "refund"}\'}]')
    (row,) = done.rows
    (checks,) = row["evaluator_results"]
    results = [(each["criterion_name"], each["score"]) for each in checks["results"]]
    assert checks["type"] == "rule_based"
    assert results == [("IsConcise", True), ("ContainsKeyTerms", "pass"), ("ValidFormat", 5), ("ValidFormat", 5)]
    assert row["score"] == 1.0


def test_the_rules_of_the_first_phase_are_read_as_they_were_written() -> None:
    rules = [
        {"criterionName": "Long", "config": {"type": "length", "min": 1000}},
        {"criterionName": "Greets", "config": {"type": "regex", "pattern": "hello", "flags": "i"}},
        {
            "criterionName": "Offers",
            "config": {
                "type": "includes",
                "keywords": ["help", "assist"],
                "expectedOutcome": "any",
                "caseSensitive": False,
            },
        },
        {"criterionName": "Parses", "sourceField": "context.reply", "config": {"type": "json_parse"}},
    ]
    context = make_context("Hello, may I ASSIST you?", context={"reply": '{"ok": true}'})
    score = judge("RuleBased", context, rules=rules)
    assert [(each.criterion_name, each.score) for each in score.results] == [
        ("Long", False),
        ("Greets", True),
        ("Offers", True),
        ("Parses", True),
    ]


HISTORY = read_messages(
    [
        {"role": "user", "content": "Find flights to Oslo."},
        {
            "role": "assistant",
            "contentParts": [],
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_call", "toolCallId": "1", "toolName": "search_flights", "args": {"to": "Oslo"}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool_result", "toolCallId": "1", "toolName": "search_flights", "result": {"flights": 3}}
            ],
        },
    ],
    "messages",
)


@pytest.mark.parametrize(
    ("source", "context"),
    [
        ("messageHistory", make_context(message_history=HISTORY)),
        (
            "messageHistory",
            make_context(
                message_history=(Message("assistant", tool_calls=(ToolCall("search_flights", {"to": "Oslo"}),)),)
            ),
        ),
        ("context", make_context(context={"toolCalls": [{"toolName": "search_flights", "args": {"to": "Oslo"}}]})),
    ],
    ids=["content parts", "tool calls", "context"],
)
def test_tool_calls_are_checked_where_they_are_on_record(source: str, context: EvaluationContext) -> None:
    rules = [
        {"criterionName": "Invoked", "expectedToolName": "search_flights", "isRequired": True},
        {"criterionName": "Booked", "expectedToolName": "book_flight", "isRequired": True},
        {"criterionName": "Unneeded", "expectedToolName": "search_hotels", "isRequired": False},
    ]
    score = judge("ToolUsage", context, rules=rules, toolDataSource=source)
    assert [(each.criterion_name, each.score) for each in score.results] == [
        ("Invoked", True),
        ("Booked", False),
        ("Unneeded", True),
    ]


def to_oslo(args: dict[str, Any]) -> dict[str, Any]:
    return {"isValid": args["to"] == "Oslo", "reason": f"goes to {args['to']}"}


def test_tool_rules_are_read_as_they_were_written() -> None:
    calls = (ToolCall("search_flights", {"to": "Oslo"}), ToolCall("search_flights", {"to": "Bergen"}))
    context = make_context(
        message_history=(Message("assistant", tool_calls=calls),),
        criteria=(EvaluationCriteria("ToolParameterAccuracy", scale="likert5"),),
    )
    rule = {"criterionName": "ToolParameterAccuracy", "expectedToolName": "search_flights", "argumentChecks": to_oslo}
    # An argument check looks at the first call unless it is told otherwise.
    first = judge("ToolUsage", context, rules=[rule])
    every = judge("ToolUsage", context, rules=[{**rule, "each": "all"}])
    assert [each.score for each in (*first.results, *every.results)] == [5, 1]
    assert every.results[0].reasoning == "call 2 of search_flights: goes to Bergen"
