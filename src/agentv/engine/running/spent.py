"""What a stored run has cost so far: a budget is for a run, whoever goes on with it."""

from collections.abc import Iterable, Iterator

from agentv.engine.calling.budget import Spent
from agentv.scoring.counting.tallies import saved_by_judges
from agentv.scoring.keys.digests import DigestSet
from agentv.storage.run.stored import StoredRun
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult


def load_spent(run: StoredRun) -> Spent:
    """Return what was billed in a run, for answers and judgements of every generation.

    What its budget had counted when it stopped is the least: calls whose cost nobody told count there. Calls that a
    kill cut off are in no file. Raises StorageError when the run cannot be read.
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
    """Yield what evaluators said that cost something. A score that a later generation took over was paid once."""
    known = DigestSet()
    for row in run.all_results():
        for result in row.evaluator_results:
            if result.cost_usd and not _is_taken_over(row, result, known):
                yield result


def _is_taken_over(row: CaseResult, result: EvaluatorResult, known: DigestSet) -> bool:
    if result.status not in ("scored", "unverified") or result.name not in row.score_keys:
        return False
    return not known.add(f"{row.run_id}\0{row.answer_seq}\0{result.name}\0{row.score_keys[result.name]}")


def _judge_calls(results: Iterable[EvaluatorResult]) -> Iterator[tuple[str, float]]:
    """Yield who was asked, and what that cost, for evaluators and their members."""
    for result in results:
        yield from ((call.judge, call.cost_usd) for call in result.judge_calls if call.cost_usd and not call.cached)
        yield from _judge_calls(result.evaluator_results)
