import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.evaluators.test_rule_based import SCALES
from tests.evaluators.test_rules import HARD_PATTERN, HARD_TEXT
from tests.support.judging import evaluator_of, make_context, make_evaluator

from agentv.evaluators.isolation import PreparedEvaluator, isolated_score
from agentv.scoring.text.json_schema import check_schema
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.evaluation import EvaluationContext, EvaluationResult
from agentv.types.messages import Message, ToolCall
from agentv.types.scales import EvaluationCriteria

CALLS = (
    ToolCall("lookup_order", {"id": 7}, {"status": "sent"}),
    ToolCall("lookup_order", {"id": "x"}, {"status": "lost"}),
    ToolCall("refund", {"id": 7, "amount": 59.9}, '{"ok": true}'),
)
ID = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def context_of(*calls: ToolCall, **fields: Any) -> EvaluationContext:
    return make_context(output_messages=(Message("assistant", tool_calls=calls),), **fields)


def results(*rules: dict[str, Any], context: EvaluationContext | None = None, **own: Any) -> list[EvaluationResult]:
    evaluator = evaluator_of("tool_usage", rules=list(rules), **own)
    return evaluator.evaluate(context or context_of(*CALLS))  # type: ignore[return-value]  # it gives a list of results


def result(**rule: Any) -> EvaluationResult:
    (only,) = results(rule)
    return only


@pytest.mark.parametrize(
    ("rule", "passed", "reasoning"),
    [
        ({"tool": "refund", "required": True}, True, "refund called 1 time"),
        ({"tool": "re*", "required": True}, True, "re* called 1 time"),
        ({"tool": "cancel", "required": True}, False, "cancel called 0 times, but it is required"),
        ({"tool": "cancel", "required": False}, True, "cancel called 0 times, which is allowed"),
        ({"tool": "cancel", "args": ID}, True, "cancel called 0 times, which is allowed"),
        ({"tool": "cancel", "min_calls": 1}, False, "cancel called 0 times (minimum: 1)"),
        ({"tool": "lookup_order", "max_calls": 1}, False, "lookup_order called 2 times (maximum: 1)"),
        ({"tool": "lookup_order", "min_calls": 2, "max_calls": 2}, True, "lookup_order called 2 times"),
        ({"tool": "cancel", "max_calls": 0}, True, "cancel called 0 times, which is allowed"),
        ({"tool": "lookup_order", "args": ID}, True, "lookup_order called 2 times, the first call as required"),
        (
            {"tool": "lookup_order", "args": ID, "each": "all"},
            False,
            "call 2 of lookup_order: $.id: 'x' is not of type 'integer'",
        ),
        (
            {"tool": "lookup_order", "args": {"properties": {"id": {"const": "x"}}}, "each": "any"},
            True,
            "lookup_order called 2 times, call 2 as required",
        ),
        (
            {"tool": "lookup_order", "args": {"required": ["name"]}, "each": "any"},
            False,
            (
                "call 1 of lookup_order: $: 'name' is a required property; "
                "call 2 of lookup_order: $: 'name' is a required property"
            ),
        ),
        ({"args": ID}, True, "any tool called 3 times, the first call as required"),
        ({"args": ID, "each": "all"}, False, "call 2 of lookup_order: $.id: 'x' is not of type 'integer'"),
        (
            {"tool": "lookup_order", "result": {"properties": {"status": {"enum": ["sent"]}}}, "each": "all"},
            False,
            "call 2 of lookup_order returned an unexpected result: $.status: 'lost' is not one of ['sent']",
        ),
        # A tool often returns JSON as a text.
        (
            {"tool": "refund", "result": {"type": "object", "required": ["ok"]}},
            True,
            "refund called 1 time, the first call as required",
        ),
        ({"tool": "refund", "result": {"type": "string"}}, True, "refund called 1 time, the first call as required"),
        (
            {"sequence": ["lookup_order", "refund"]},
            True,
            "lookup_order called at position 1; refund called at position 3",
        ),
        (
            {"sequence": ["refund", "lookup_order"]},
            False,
            "Expected lookup_order at position 2, found it only before refund",
        ),
    ],
)
def test_each_demand_says_what_it_found(rule: dict[str, Any], passed: bool, reasoning: str) -> None:
    judged = result(criterion="c", **rule)
    assert (judged.score, judged.value, judged.reasoning, judged.error) == (passed, float(passed), reasoning, None)


def test_one_call_must_bring_both_arguments_and_result() -> None:
    demands = {"args": {"properties": {"id": {"const": 7}}}, "result": {"properties": {"status": {"const": "lost"}}}}
    judged = result(tool="lookup_order", each="any", **demands)
    assert judged.score is False


def is_positive(args: Any) -> bool:
    return bool(args["amount"] > 0)


def explained(args: Any) -> dict[str, Any]:
    return {"isValid": args["amount"] < 10, "reason": f"{args['amount']} is too much"}


def greedy(args: Any) -> bool:
    args["amount"] = 0
    return True


def raising(_args: Any) -> bool:
    raise KeyError("amount")


async def late(_args: Any) -> bool:
    return True


def vague(_args: Any) -> Any:
    return "fine"


def test_a_function_may_check_the_arguments() -> None:
    assert result(tool="refund", args=is_positive).score is True
    assert result(tool="refund", args=explained).reasoning == "call 1 of refund: 59.9 is too much"
    assert result(tool="refund", args=lambda args: "sum" in args).reasoning == "call 1 of refund: refused by <lambda>"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (raising, "call 1 of refund: raising raised KeyError: 'amount'"),
        (late, "call 1 of refund: late is a coroutine function; a check must be a synchronous function"),
        (vague, "call 1 of refund: vague returned 'fine'; it must return a bool or {isValid, reason}"),
        (lambda _args: {"valid": True}, "it must return a bool or {isValid, reason}"),
    ],
)
@pytest.mark.parametrize(("criterion", "passed", "failed"), SCALES, ids=lambda value: getattr(value, "scale", None))
def test_a_check_that_cannot_tell_is_its_rules_error_on_every_scale(
    check: Any, message: str, criterion: EvaluationCriteria, passed: object, failed: object
) -> None:
    broken, good, bad = results(
        {"criterion": "c", "tool": "refund", "args": check},
        {"criterion": "c", "tool": "refund", "required": True},
        {"criterion": "c", "tool": "cancel", "required": True},
        context=context_of(*CALLS, criteria=(criterion,)),
    )
    assert (broken.score, broken.value) == (None, None)
    assert message in (broken.error or "")
    assert (good.score, good.error) == (passed, None)
    assert (bad.score, bad.error) == (failed, None)


@pytest.mark.parametrize(("criterion", "passed", "failed"), SCALES, ids=lambda value: getattr(value, "scale", None))
def test_an_optional_tool_that_was_not_called_passes_on_every_scale(
    criterion: EvaluationCriteria, passed: object, failed: object
) -> None:
    rule = {"criterion": "c", "expectedToolName": "cancel", "isRequired": False, "argumentChecks": raising}
    (judged,) = results(rule, context=context_of(*CALLS, criteria=(criterion,)))
    assert judged.score == passed != failed


def test_each_any_ignores_a_raising_check_if_another_call_passes() -> None:
    def picky(args: Any) -> bool:
        return bool(args["id"] / 1 == 7)

    calls = (ToolCall("a", {"id": "x"}), ToolCall("a", {"id": 7}))
    (judged,) = results({"tool": "a", "args": picky, "each": "any"}, context=context_of(*calls))
    assert judged.score is True
    (judged,) = results({"tool": "a", "args": picky, "each": "any"}, context=context_of(calls[0]))
    assert "TypeError" in (judged.error or "")


def test_a_check_cannot_change_what_the_next_one_sees() -> None:
    first, second = results({"tool": "refund", "args": greedy}, {"tool": "refund", "args": is_positive})
    assert (first.score, second.score) == (True, True)
    assert CALLS[2].input == {"id": 7, "amount": 59.9}


def test_a_call_without_arguments_is_checked_as_one_with_none() -> None:
    (judged,) = results({"tool": "a", "args": {"required": ["id"]}}, context=context_of(ToolCall("a")))
    assert judged.reasoning == "call 1 of a: $: 'id' is a required property"


def test_a_result_that_is_not_on_record_is_an_error() -> None:
    (judged,) = results({"tool": "a", "result": {"type": "object"}}, context=context_of(ToolCall("a")))
    assert judged.error == "call 1 of a: its result is not recorded"


def test_a_pattern_in_a_schema_cannot_hang_the_rule() -> None:
    schema = {"properties": {"q": {"pattern": HARD_PATTERN}}}
    hard, fine = results(
        {"tool": "a", "args": schema},
        {"tool": "a", "required": True},
        context=context_of(ToolCall("a", {"q": HARD_TEXT})),
    )
    assert "did not finish within 1 s" in (hard.error or "")
    assert fine.score is True


NO_TRACE = "No trace available for evaluation"


@pytest.mark.parametrize(
    ("rule", "reasoning"),
    [
        ({"tool": "a", "required": True}, NO_TRACE),
        ({"tool": "a", "min_calls": 1}, NO_TRACE),
        ({"tool": "a", "max_calls": 0}, NO_TRACE),
        ({"sequence": ["a"]}, NO_TRACE),
        ({"tool": "a", "args": ID}, "a called 0 times, which is allowed"),
    ],
)
def test_where_nothing_is_on_record_no_demand_is_met(rule: dict[str, Any], reasoning: str) -> None:
    (judged,) = results(rule, context=make_context())
    assert judged.reasoning == reasoning
    assert judged.score is (reasoning != NO_TRACE)


@pytest.mark.parametrize("source", [None, "context", "messageHistory", "message_history"])
def test_calls_are_looked_for_where_it_says(source: str | None) -> None:
    context = make_context(
        message_history=(Message("assistant", tool_calls=(ToolCall("sent"),)),),
        context={"toolCalls": [{"toolName": "listed", "args": {"id": 7}}]},
    )
    own = {} if source is None else {"toolDataSource": source}
    rules = ({"tool": "sent", "required": True}, {"tool": "listed", "required": True, "args": ID})
    sent, listed = results(*rules, context=context, **own)
    assert sent.score is (source != "context")
    assert listed.score is (source in {None, "context"})


def test_a_list_of_calls_that_cannot_be_read_is_the_evaluators_error() -> None:
    evaluator = evaluator_of("tool_usage", rules=[{"tool": "a", "required": True}])
    config = EvaluatorConfig("t", "tool_usage")
    context = make_context(context={"toolCalls": "search"})
    score = asyncio.run(isolated_score(PreparedEvaluator(config, lambda: evaluator, timeout_s=5), context))
    assert (score.status, score.error and score.error.message) == (
        "error",
        "`context.toolCalls` must be a list of tool calls",
    )


def test_a_function_of_a_file_may_check_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("def cheap(args):\n    return args['amount'] < 50\n")
    for named in ("python:checks.py:cheap", "checks.py:cheap"):
        settings: dict[str, Any] = {"rules": [{"tool": "refund", "args": named}]}
        evaluator = make_evaluator(EvaluatorConfig("t", "tool_usage", settings, base_dir=str(tmp_path)))
        (judged,) = evaluator.evaluate(context_of(*CALLS))  # type: ignore[misc]  # it gives a list of results
        assert judged.reasoning == "call 1 of refund: refused by cheap"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"criterion": "c"}, "$.rules[0]  a rule needs `tool`, `args`, `result` or `sequence`"),
        ({"criterion": "c", "required": True, "min_calls": 1}, "$.rules[0]  a rule needs `tool`"),
        ({"tool": ""}, "$.rules[0]  a rule needs `tool`"),
        ({"tool": "a", "min_calls": 3, "max_calls": 1}, "$.rules[0].min_calls  `min_calls` 3 is larger than"),
        ({"tool": "a", "max_calls": -1}, "$.rules[0].max_calls  `max_calls` must be at least 0"),
        (
            {"tool": "a", "required": True, "max_calls": 0},
            "$.rules[0].required  `required` and `max_calls: 0` contradict each other",
        ),
        ({"tool": "a", "args": {"type": "objekt"}}, "$.rules[0].args  `args` is not a valid JSON Schema"),
        ({"tool": "a", "result": {"type": 1}}, "$.rules[0].result  `result` is not a valid JSON Schema"),
        (
            {"tool": "a", "args": {"id": 7}},
            "$.rules[0].args  `args` must be a JSON Schema, but 'id' is not one of its keywords",
        ),
        ({"tool": "a", "args": "is_valid"}, "$.rules[0].args  `args` must be a JSON Schema, or name a function"),
        ({"tool": "a", "each": "last"}, "'last' is not allowed here; allowed: first, any, all"),
        ({"tool": "a", "sequence": ["b"]}, "$.rules[0].sequence  `sequence` cannot be combined"),
        ({"each": "all", "sequence": ["b"]}, "$.rules[0].sequence  `sequence` cannot be combined"),
        ({"tol": "a"}, "did you mean 'tool'?"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused_before_the_run(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=re.escape(message)):
        evaluator_of("tool_usage", rules=[rule])


def test_no_rules_and_an_unknown_source_are_refused() -> None:
    with pytest.raises(EvalFileError, match="`rules` must have at least one rule"):
        evaluator_of("tool_usage", rules=[])
    with pytest.raises(EvalFileError, match="'history' is not allowed here"):
        evaluator_of("tool_usage", rules=[{"tool": "a", "required": True}], tool_data_source="history")


def test_a_rule_that_every_answer_passes_is_warned_about() -> None:
    evaluator = evaluator_of("tool_usage", rules=[{"tool": "a", "required": True}, {"tool": "b"}])
    assert evaluator.warnings == (  # type: ignore[attr-defined]  # not every evaluator has some
        "rule 2 requires nothing of b: add `required`, `min_calls`, `max_calls` or `args`",
    )


def test_rules_that_only_count_run_in_place() -> None:
    assert evaluator_of("tool_usage", rules=[{"tool": "a", "required": True}]).inline  # type: ignore[attr-defined]
    assert not evaluator_of("tool_usage", rules=[{"tool": "a", "args": ID}]).inline  # type: ignore[attr-defined]


def test_every_keyword_of_a_schema_is_known() -> None:
    check_schema({"$ref": "#/$defs/a", "$defs": {"a": True}, "x-note": 1, "unevaluatedItems": False}, name="args")
    check_schema({"oneOf": [{"const": {"typ": 1}}], "discriminator": {"propertyName": "kind"}, "default": {"typ": 1}})
