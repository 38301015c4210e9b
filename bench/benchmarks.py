"""Every benchmark by its name. Each measures and yields rows; add a line here for a new one."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from bench import (
    commands,
    echo_cases,
    first_request,
    growth,
    index_of_runs,
    index_pages,
    lexical_similarity,
    model_cases,
    otel,
    otlp,
    refusing_model,
    run_evaluation,
    sampler,
    segments,
    slow_model,
    start_up,
    tool_trajectory,
    toxicity,
    traces,
    viewer,
)
from bench.measuring import Effort
from bench.rows import Row

Benchmark: TypeAlias = Callable[[Effort], Iterator[Row]]

BENCHMARKS: Mapping[str, Benchmark] = {
    "run_evaluation": run_evaluation.measure,
    "lexical_similarity": lexical_similarity.measure,
    "toxicity": toxicity.measure,
    "tool_trajectory": tool_trajectory.measure,
    "start_up": start_up.measure,
    "echo_cases": echo_cases.measure,
    "model_cases": model_cases.measure,
    "slow_model": slow_model.measure,
    "refusing_model": refusing_model.measure,
    "commands": commands.measure,
    "first_request": first_request.measure,
    "growth": growth.measure,
    "index_of_runs": index_of_runs.measure,
    "index_pages": index_pages.measure,
    "otel": otel.measure,
    "otlp": otlp.measure,
    "sampler": sampler.measure,
    "segments": segments.measure,
    "traces": traces.measure,
    "viewer": viewer.measure,
}

COMPARING = ("echo_cases", "model_cases", "slow_model", "commands", "growth", "segments")
"""The benchmarks that `--peers` runs by default."""
