"""Read the evaluator results of a stored run with their score keys, without decoding other fields."""

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct, field

from agentv.storage.records.json_line import reason
from agentv.storage.records.narrow import Subset
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, Verdict
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.stored import StoredScore

_RESULTS = "results.jsonl"


class _Criterion(Subset, frozen=True):
    WHOLE = EvaluationResult

    criterion_name: str
    value: StoredScore | None = None
    error: str | None = None


class _Evaluator(Subset, frozen=True):
    WHOLE = EvaluatorResult

    name: str
    type: str = ""
    status: EvaluatorStatus = "scored"
    score: StoredScore = 0.0
    verdict: Verdict | None = None
    results: tuple[_Criterion, ...] = ()


class _Row(Subset, frozen=True):
    WHOLE = CaseResult

    slot: ResultKey
    answer_key: str = ""
    score_key: dict[str, str] = field(default_factory=dict)
    evaluator_results: tuple[_Evaluator, ...] = ()


class Judgement(Struct, frozen=True):
    """One evaluator's result for a case, without its texts."""

    slot: ResultKey
    answer_key: str
    score_key: str
    """Empty where none is stored."""
    result: EvaluatorResult


_decode = msgspec.json.Decoder(_Row).decode


def read_judgements(stored: StoredRun, evaluators: Collection[str]) -> Iterator[Judgement]:
    """Yield the current results of the named evaluators. Raises StorageError for a line that cannot be read."""
    for number, _, line in stored.current_lines(_RESULTS):
        try:
            row = _decode(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{stored.folder / _RESULTS}:{number}: {reason(error)}") from error
        for each in row.evaluator_results:
            if each.name in evaluators:
                yield Judgement(row.slot, row.answer_key, row.score_key.get(each.name, ""), _result(each))


def _result(stored: _Evaluator) -> EvaluatorResult:
    criteria = tuple(
        EvaluationResult(criterion_name=each.criterion_name, value=each.value, error=each.error)
        for each in stored.results
    )
    return EvaluatorResult(
        name=stored.name,
        type=stored.type,
        score=stored.score,
        status=stored.status,
        verdict=stored.verdict,
        results=criteria,
    )
