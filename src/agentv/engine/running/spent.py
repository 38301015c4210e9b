"""The cost of a stored run so far: a budget covers a run and its continuations."""

from collections.abc import Iterable, Iterator

from agentv.engine.calling.budget import Spent
from agentv.scoring.counting.tallies import saved_by_judges
from agentv.scoring.keys.identity import DigestSet
from agentv.storage.run.stored import StoredRun
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult


def load_spent(run: StoredRun) -> Spent:
    """Return the amount billed in a run, for answers and judgements of every generation.

    If the budget stopped the run, the amount is at least what the budget had counted, with calls of unknown cost. Calls
    that were in flight when the process was killed are not counted. Raises StorageError if the run cannot be read.
    """
    spent = Spent()
    for answer in run.all_answers():
        spent.add(answer.slot.target, answer.billed_usd or 0.0)
    for result in _paid_results(run):
        spent.usd += (result.cost_usd or 0.0) - saved_by_judges(result)
        for judge, cost_usd in _judge_calls((result,)):
            spent.note(judge, cost_usd)
    for event in run.events():
        if event.type == "budget_stop":
            counted, next_usd = event.fields.get("spent_usd"), event.fields.get("next_usd")
            spent.usd = max(spent.usd, counted) if isinstance(counted, float) else spent.usd
            if isinstance(next_usd, float):
                spent.note(str(event.fields.get("target")), next_usd)
    return spent


def _paid_results(run: StoredRun) -> Iterator[EvaluatorResult]:
    """Yield the evaluator results that have a cost; a score reused by a later generation only once."""
    known = DigestSet()
    for row in run.all_results():
        for result in row.evaluator_results:
            if result.cost_usd and not _is_reused(row, result, known):
                yield result


def _is_reused(row: CaseResult, result: EvaluatorResult, known: DigestSet) -> bool:
    if result.status not in ("scored", "unverified") or result.name not in row.score_keys:
        return False
    return not known.add(f"{row.run_id}\0{row.answer_seq}\0{result.name}\0{row.score_keys[result.name]}")


def _judge_calls(results: Iterable[EvaluatorResult]) -> Iterator[tuple[str, float]]:
    """Yield the name and the cost of each judge call, of evaluators and their members."""
    for result in results:
        yield from ((call.judge, call.cost_usd) for call in result.judge_calls if call.cost_usd and not call.cached)
        yield from _judge_calls(result.evaluator_results)
