"""What evaluators said of a stored run's rows, with the keys of their scores, read past everything else."""

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from agentv.storage.entry import StoredScore
from agentv.storage.stored_run import StoredRun
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, Verdict
from agentv.types.results import Slot

_RESULTS = "results.jsonl"


class _Slot(msgspec.Struct, frozen=True, gc=False):
    eval_id: str
    suite: str = ""
    target: str = ""
    trial: int = 0


class _Criterion(msgspec.Struct, frozen=True, gc=False):
    criterion_name: str
    value: StoredScore | None = None
    error: str | None = None


class _Evaluator(msgspec.Struct, frozen=True, gc=False):
    name: str
    type: str = ""
    status: EvaluatorStatus = "scored"
    score: StoredScore = 0.0
    verdict: Verdict | None = None
    results: tuple[_Criterion, ...] = ()


class _Row(msgspec.Struct, frozen=True, gc=False):
    slot: _Slot
    answer_key: str = ""
    score_key: dict[str, str] = {}
    evaluator_results: tuple[_Evaluator, ...] = ()


class Judgement(Struct, frozen=True):
    """What one evaluator said of a row; `score_key` is empty where none is kept. Of its texts there is none."""

    slot: Slot
    answer_key: str
    score_key: str
    result: EvaluatorResult


_decode = msgspec.json.Decoder(_Row).decode


def read_judgements(stored: StoredRun, evaluators: Collection[str]) -> Iterator[Judgement]:
    """Yield what evaluators of these names said of the current rows. Raises StorageError for a broken line."""
    for number, _, line in stored.current_lines(_RESULTS):
        try:
            row = _decode(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{stored.folder / _RESULTS}:{number}: {error}") from error
        slot = Slot(row.slot.suite, row.slot.eval_id, row.slot.target, row.slot.trial)
        for each in row.evaluator_results:
            if each.name in evaluators:
                yield Judgement(slot, row.answer_key, row.score_key.get(each.name, ""), _result(each))


def _result(kept: _Evaluator) -> EvaluatorResult:
    criteria = tuple(EvaluationResult(each.criterion_name, None, each.value, error=each.error) for each in kept.results)
    return EvaluatorResult(kept.name, kept.type, kept.score, kept.status, verdict=kept.verdict, results=criteria)
