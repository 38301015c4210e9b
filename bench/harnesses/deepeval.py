"""deepeval: answers are fetched first, as many at once as the job says, then `evaluate` judges them; its cache is off.

With its cache on, as it is by default, its time grows with the square of the number of cases.
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
    """A metric as its guide says to write one."""

    threshold = 1.0
    async_mode = True

    def measure(self, test_case: LLMTestCase) -> float:
        """Return 1 where the answer holds the word."""
        self.score = float(EXPECTED in (test_case.actual_output or ""))
        self.success = self.score >= self.threshold
        self.reason = ""
        return self.score

    async def a_measure(self, test_case: LLMTestCase) -> float:
        """Do the same."""
        return self.measure(test_case)

    def is_successful(self) -> bool:
        """Return whether it did."""
        return bool(self.success)

    @property
    def __name__(self) -> str:
        """Its name in reports."""
        return "Contains"


def prepare(job: Job) -> Callable[[], int]:
    """Return the asking and the judging."""
    questions = job.questions

    def run() -> int:
        answers = questions if job.kind == "echo" else asyncio.run(_ask_all(job))
        cases = [LLMTestCase(input=asked, actual_output=text) for asked, text in zip(questions, answers, strict=True)]
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


async def _ask_all(job: Job) -> list[str]:
    client, limit = make_client(job), asyncio.Semaphore(job.at_once)

    async def ask_one(asked: str) -> str:
        async with limit:
            return await ask(client, asked)

    return await asyncio.gather(*map(ask_one, job.questions))


if __name__ == "__main__":
    main(prepare)
