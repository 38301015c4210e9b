"""Every benchmark by its name. Each yields its rows when it is asked to measure; a new one is one more line here."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from bench import case_door, index_of_runs, lexical_similarity, run_evaluation, start_up, tool_trajectory, toxicity
from bench.measuring import Effort
from bench.rows import Row

Benchmark: TypeAlias = Callable[[Effort], Iterator[Row]]

BENCHMARKS: Mapping[str, Benchmark] = {
    "run_evaluation": run_evaluation.measure,
    "lexical_similarity": lexical_similarity.measure,
    "toxicity": toxicity.measure,
    "tool_trajectory": tool_trajectory.measure,
    "start_up": start_up.measure,
    "case_door": case_door.measure,
    "index_of_runs": index_of_runs.measure,
}
