"""Read the evaluator results of a stored run with their score keys, without decoding other fields."""

from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec import Struct, field

from agentv.scoring.counting.case_sums import cluster_of_slot
from agentv.storage.records.json_line import reason
from agentv.storage.records.narrow import Subset
from agentv.storage.run.first_answers import NO_ANSWER
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, Verdict
from agentv.types.records.answer import AnswerRef, ResultKey
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
    answer_ref: AnswerRef | None = None
    session_id: str | None = None
    conversation_id: str | None = None
    status: str = ""
    verdict: Verdict | None = None
    tags: tuple[str, ...] = ()
    score_key: dict[str, str] = field(default_factory=dict)
    evaluator_results: tuple[_Evaluator, ...] = ()


class Judgement(Struct, frozen=True):
    """One evaluator's result for a case, without its texts."""

    slot: ResultKey
    answer_key: str
    score_key: str
    """Empty where none is stored."""
    result: EvaluatorResult
    cluster: int = 0
    """The number of the case or session."""


class JudgedRow(Struct, frozen=True):
    """A row without its texts: its answer, its verdict, and the results of its evaluators."""

    slot: ResultKey
    answer_key: str
    answer_seq: int | None
    """None for a row without an answer."""
    cluster: int
    """The number of the case or session; rows of one cluster are not independent."""
    verdict: Verdict | None
    """None for a row with an error, and for one that was not judged."""
    tags: tuple[str, ...]
    judgements: tuple[Judgement, ...]


_decode = msgspec.json.Decoder(_Row).decode


def read_judgements(stored: StoredRun, evaluators: Collection[str]) -> Iterator[Judgement]:
    """Yield the current results of the named evaluators. Raises StorageError for a line that cannot be read."""
    for row in read_judged_rows(stored, evaluators):
        yield from row.judgements


def read_judged_rows(stored: StoredRun, evaluators: Collection[str] | None = None) -> Iterator[JudgedRow]:
    """Yield the rows that count, with the results of the named evaluators; None: of all.

    Raises StorageError for a line that cannot be read.
    """
    for number, _, line in stored.current_lines(_RESULTS):
        try:
            row = _decode(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{stored.folder / _RESULTS}:{number}: {reason(error)}") from error
        cluster = cluster_of_slot(row.slot, row.session_id or row.conversation_id)
        chosen = (each for each in row.evaluator_results if evaluators is None or each.name in evaluators)
        yield JudgedRow(
            slot=row.slot,
            answer_key=row.answer_key,
            answer_seq=None if row.answer_ref is None or row.answer_ref.seq == NO_ANSWER else row.answer_ref.seq,
            cluster=cluster,
            verdict=None if row.status == "error" else row.verdict,
            tags=row.tags,
            judgements=tuple(_judgements(row, chosen, cluster)),
        )


def _judgements(row: _Row, results: Iterable[_Evaluator], cluster: int) -> Iterator[Judgement]:
    for each in results:
        yield Judgement(row.slot, row.answer_key, row.score_key.get(each.name, ""), _result(each), cluster)


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
