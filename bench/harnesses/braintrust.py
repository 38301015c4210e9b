"""braintrust: `EvalAsync` with a scorer function; nothing is sent, so nothing is stored."""

import asyncio
from collections.abc import Awaitable, Callable

from braintrust import EvalAsync
from braintrust.framework import EvalResultWithSummary

from bench.harnesses.job import EXPECTED, Job, main
from bench.harnesses.openai_client import ask, make_client


def prepare(job: Job) -> Callable[[], int]:
    """Return the evaluation; its cases are made here, unmeasured."""
    data = [{"input": prompt} for prompt in job.questions]

    async def evaluate() -> EvalResultWithSummary[str, str, str]:
        return await EvalAsync(
            "bench", data=data, task=_task(job), scores=[contains], no_send_logs=True, max_concurrency=job.at_once
        )

    return lambda: sum(result.scores == {"contains": 1} for result in asyncio.run(evaluate()).results)


def contains(input: str, output: str, expected: str | None = None) -> float:  # noqa: A002, ARG001 - its signature
    """Return 1 if the answer contains the word, else 0."""
    return float(EXPECTED in output)


def _task(job: Job) -> Callable[[str], Awaitable[str]]:
    async def echo(input: str) -> str:  # noqa: A002 - its signature
        return input

    client = make_client(job) if job.url else None

    async def ask_model(input: str) -> str:  # noqa: A002 - its signature
        assert client is not None  # noqa: S101 - for the type checker
        return await ask(client, input)

    return echo if client is None else ask_model


if __name__ == "__main__":
    main(prepare)
