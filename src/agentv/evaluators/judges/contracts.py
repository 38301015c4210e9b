"""The JSON that a code judge reads and prints: ours, or that of a version of AgentV (docs/how-to/agentv-files.md)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from agentv.scoring.judge_replies.json_objects import finite_number, whole_object
from agentv.scoring.judge_replies.replies import parse_code_reply
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_to_json
from agentv.types.usage import Usage

if TYPE_CHECKING:  # importing child processes takes 10 ms, and settings are read without them
    from agentv.execution.processes.process import Outcome

Contract: TypeAlias = Literal["agentv", "agentv-2", "agentv-3", "agentv-4"]
"""The keys of the JSON that a code judge reads and prints.

`agentv` is our own contract; the others add keys of AgentV, a TypeScript program with a similar name. `agentv-2`
(AgentV 2.0 to 2.6) adds `trace_summary`. `agentv-3` (2.9 to 4.41) and `agentv-4` (4.42) add more keys to the JSON that
the script reads, and let it print `assertions`, or print plain text and end with an exit code. Under the key `output`
the script reads a list of messages in `agentv-3`, the answer's text in `agentv-4`.
"""

CONTRACT_HELP = (
    "the keys of the script's input and output: `agentv` (our own), or also those of AgentV 2.0 to 2.6 (`agentv-2`), "
    "2.9 to 4.41 (`agentv-3`) or 4.42 (`agentv-4`)"
)
_WITH_ASSERTIONS = ("agentv-3", "agentv-4")


def allows_assertions(contract: Contract) -> bool:
    """Return True if a script may print `assertions`, or plain text and end with an exit code."""
    return contract in _WITH_ASSERTIONS


def payload_for(
    contract: Contract, payload: Mapping[str, JsonValue], context: EvaluationContext
) -> dict[str, JsonValue]:
    """Return `payload` (the keys of `agentv`) with the keys of a contract, which replace keys of the same name."""
    if contract == "agentv":
        return dict(payload)
    if contract == "agentv-2":
        return {**payload, "trace_summary": payload["candidate_trace_summary"]}
    case, messages = context.eval_case, messages_to_json(context.output_messages)
    answer: list[JsonValue] = [{"role": "assistant", "content": context.candidate}]
    output: JsonValue = payload["candidate_answer"] if contract == "agentv-4" else messages or answer
    return {
        **payload,
        "criteria": case.expected_outcome,
        "expected_output": messages_to_json(case.expected_messages),
        "input": messages_to_json(case.input_messages),
        "output": output,
        "messages": messages or answer,
        "trace": _trace(context),
        "trace_summary": payload["candidate_trace_summary"],
        "token_usage": _token_usage(context.usage),
        "cost_usd": context.cost_usd,
        "duration_ms": context.duration_ms,
        "start_time": None,
        "end_time": None,
        "file_changes": context.diff,
    }


def _trace(context: EvaluationContext) -> JsonObject | None:
    summary = context.candidate_trace_summary
    if summary is None:
        return None
    calls: dict[str, JsonValue] = dict(summary.tool_calls_by_name)
    return {
        "event_count": sum(summary.tool_calls_by_name.values()),
        "tool_calls": calls,
        "tool_names": list(summary.tool_names),
        "tool_calls_by_name": calls,
        "error_count": summary.error_count,
        "llm_call_count": sum(message.role == "assistant" for message in context.output_messages or ()),
    }


def _token_usage(usage: Usage | None) -> JsonObject | None:
    return None if usage is None else {"input": usage.input, "output": usage.output, "cached": usage.cached_input}


def read_outcome(outcome: "Outcome") -> EvaluationScore:
    """Return the score of a script with the contract `agentv-3` or `agentv-4`.

    The script printed JSON, which `read_answer` reads, or plain text: then exit code 0 is a pass, any other a fail.
    Raises EvaluatorError if the exit code is not 0 and the script printed JSON, or anything to standard error.
    """
    text = outcome.stdout.decode("utf-8", "replace").strip()
    answer = whole_object(text)
    if outcome.exit_code != 0 and (answer is not None or outcome.stderr.strip()):
        raise EvaluatorError(f"the script ended with exit code {outcome.exit_code}: {outcome.stderr.strip()}")
    if answer is not None:
        return read_answer(answer)
    lines = (text or f"exit {outcome.exit_code}",)
    if outcome.exit_code == 0:
        return EvaluationScore(1.0, hits=lines)
    return EvaluationScore(0.0, misses=lines)


def read_answer(answer: JsonObject) -> EvaluationScore:
    """Return the score in the JSON of `agentv-3` or `agentv-4`: `score`, else the share of `assertions` that passed."""
    listed = answer.get("assertions")
    if not isinstance(listed, list):
        return parse_code_reply(answer)
    assertions = [each for each in listed if isinstance(each, Mapping) and isinstance(each.get("text"), str)]
    hits = tuple(_assertion_line(each) for each in assertions if each.get("passed"))
    misses = tuple(_assertion_line(each) for each in assertions if not each.get("passed"))
    score = finite_number(answer.get("score"))
    if score is None:
        if not assertions:
            raise EvaluatorError("the script's JSON has neither a number in `score` nor an entry in `assertions`")
        score = len(hits) / len(assertions)
    stated = parse_code_reply({**answer, "score": score})
    return replace(
        stated,
        hits=(*stated.hits, *hits),
        misses=(*stated.misses, *misses),
        expected_aspect_count=max(1, len(stated.hits) + len(stated.misses) + len(assertions)),
    )


def _assertion_line(assertion: JsonObject) -> str:
    text, evidence = str(assertion["text"]), assertion.get("evidence")
    return f"{text}: {evidence}" if isinstance(evidence, str) and evidence else text
