"""What a failed test prints: the evaluators that did not pass with their reasons, what was expected, what was said."""

from collections.abc import Iterator

from agentv.scoring.results.conversations import transcript
from agentv.types.cases import EvalCase
from agentv.types.evaluation import EvaluatorResult
from agentv.types.messages_json import content_text, reference_answer
from agentv.types.records.result import CaseResult

MAX_LINES = 30
"""The most lines of a text that are printed."""


def failed_text(row: CaseResult, case: EvalCase | None, *, prompt: str = "", expected: str | None = None) -> str:
    """Return why a row did not pass. A row of a check has no case, but the prompt and the expected answer given."""
    if case is not None:
        said = [message for message in case.input_messages if message.role == "user"]
        prompt = content_text(said[-1].content) if said else ""
        expected = reference_answer(case.expected_messages) or case.expected_outcome
    score = "" if row.score is None else f", score {row.score:.2f}"
    lines = [f"{_named(row)}: {row.verdict}{score}"]
    for result in row.evaluator_results:
        lines += _reasons(result)
    if case is not None and case.turns:
        return "\n".join((*lines, *_block("conversation", transcript(row.output_messages or ()))))
    for label, text in (("question", prompt), ("expected", expected or ""), ("actual", row.candidate_answer or "")):
        if text or label == "actual":
            lines += _block(label, text or "(empty)")
    return "\n".join(lines)


def broken_text(row: CaseResult) -> str:
    """Return why a row has no verdict."""
    message = "unknown error" if row.error is None else row.error.message
    return f"{_named(row)}: {message}"


def _named(row: CaseResult) -> str:
    parts = [row.target] if row.target != "check" else []
    parts += [row.prompt] if row.prompt is not None else []
    parts += [f"trial {row.trial + 1}"] if row.trial else []
    return f"{row.eval_id} ({', '.join(parts)})" if parts else row.eval_id


def _reasons(result: EvaluatorResult, indent: str = "  ") -> Iterator[str]:
    if result.verdict == "pass" and not result.misses:
        return
    yield f"{indent}{result.name} ({result.type}): {result.verdict or result.status}, score {result.score:.2f}"
    for miss in result.misses:
        yield f"{indent}  missing: {miss}"
    if result.reasoning:
        yield f"{indent}  reason: {result.reasoning}"
    for member in result.evaluator_results:
        yield from _reasons(member, f"{indent}  ")


def _block(label: str, text: str) -> Iterator[str]:
    lines = text.splitlines() or [""]
    yield f"  {label}: {lines[0]}"
    yield from (f"    {line}" for line in lines[1:MAX_LINES])
    if len(lines) > MAX_LINES:
        yield f"    … {len(lines) - MAX_LINES} more lines"
