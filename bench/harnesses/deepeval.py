"""deepeval: the answers are collected first, concurrently, then `evaluate` scores them, with its cache off.

With its cache on, which is the default, its time grows with the square of the number of cases.
"""

import asyncio
from collections.abc import Callable

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric, GEval
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase, SingleTurnParams

from bench.harnesses.job import EXPECTED, RUBRIC, Job, main
from bench.harnesses.openai_client import KEY, ask, make_client


class Contains(BaseMetric):  # type: ignore[misc] # deepeval is not in agentv's own environment
    """A metric written as its guide shows."""

    threshold = 1.0
    async_mode = True

    def measure(self, test_case: LLMTestCase) -> float:
        """Return 1 if the answer contains the word, else 0."""
        self.score = float(EXPECTED in (test_case.actual_output or ""))
        self.success = self.score >= self.threshold
        self.reason = ""
        return self.score

    async def a_measure(self, test_case: LLMTestCase) -> float:
        """Return the same asynchronously."""
        return self.measure(test_case)

    def is_successful(self) -> bool:
        """Return True if the answer contains the word."""
        return bool(self.success)

    @property
    def __name__(self) -> str:
        """Its name in reports."""
        return "Contains"


def prepare(job: Job) -> Callable[[], int]:
    """Return a function that calls the model for all cases and scores the answers."""
    questions = job.questions

    def run() -> int:
        answers = questions if job.kind == "echo" else asyncio.run(_call_all(job))
        cases = [LLMTestCase(input=prompt, actual_output=text) for prompt, text in zip(questions, answers, strict=True)]
        done = evaluate(
            cases,
            [_metric(job)],
            async_config=AsyncConfig(max_concurrent=job.at_once),
            cache_config=CacheConfig(write_cache=False, use_cache=False),
            display_config=DisplayConfig(show_indicator=False, print_results=False),
        )
        return sum(bool(result.success) for result in done.test_results)

    return run


def _metric(job: Job) -> BaseMetric:
    if job.kind != "judge":
        return Contains()
    return GEval(
        name="says",
        evaluation_steps=[RUBRIC],
        evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
        model=LocalModel(model="fake", base_url=job.url, api_key=KEY),
    )


async def _call_all(job: Job) -> list[str]:
    client, limit = make_client(job), asyncio.Semaphore(job.at_once)

    async def call_one(prompt: str) -> str:
        async with limit:
            return await ask(client, prompt)

    return await asyncio.gather(*map(call_one, job.questions))


if __name__ == "__main__":
    main(prepare)
