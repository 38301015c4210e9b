"""One judged row in one line: case, target, score, and why it did not pass."""

from agentv.reports.amounts import score_text, seconds_text
from agentv.reports.printable import one_line
from agentv.reports.text_width import pad
from agentv.scoring.summary import row_state
from agentv.types.evaluation import EvaluatorResult
from agentv.types.results import CaseResult

_CASE_WIDTH = 10
_TARGET_WIDTH = 10
_LONGEST_REASON = 2000


def row_label(result: CaseResult) -> str:
    """Return the case's id, with the number of its trial when it is not the first."""
    trial = f" #{result.slot.trial + 1}" if result.slot.trial else ""
    return one_line(result.slot.eval_id) + trial


def row_score(result: CaseResult) -> str:
    """Return the row's score; a row without a result has none, whatever number its evaluators left."""
    return "" if row_state(result) in ("error", "skipped") else score_text(result.score)


def row_reason(result: CaseResult) -> str:
    """Return on one line why a row did not pass: the error, else what its evaluators missed; at most 2,000 letters."""
    reason = _whole_reason(result)
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."


def _whole_reason(result: CaseResult) -> str:
    if result.error is not None:
        took = f" ({seconds_text(result.duration_ms / 1000)})" if result.duration_ms else ""
        return f"error {result.error.stage}: {one_line(result.error.message) or result.error.kind}{took}"
    said = [text for text in map(_evaluator_reason, result.evaluator_results) if text]
    return " | ".join(said) or one_line(result.reasoning or "no reason was given")


def _evaluator_reason(result: EvaluatorResult) -> str:
    """Say what one evaluator missed; empty when it is content or did not judge."""
    name = one_line(result.name)
    if result.error is not None:
        return f"{name}: error: {one_line(result.error.message)}"
    if result.status == "skipped" or (result.score >= 1 and result.verdict in (None, "pass")):
        return ""
    why = "; ".join(map(one_line, result.misses)) or one_line(result.reasoning or "")
    return f"{name}: {why or score_text(result.score)}"


def failure_line(mark: str, result: CaseResult) -> str:
    """Return the line that tells of a row which did not pass."""
    cells = (mark, pad(row_label(result), _CASE_WIDTH), pad(one_line(result.slot.target), _TARGET_WIDTH))
    score = row_score(result)
    return " ".join((*cells, f"{score}  {row_reason(result)}" if score else row_reason(result)))
