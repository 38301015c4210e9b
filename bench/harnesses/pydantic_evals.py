"""pydantic-evals: a Dataset with one `Contains`, or one `LLMJudge`. It stores nothing."""

import asyncio
from collections.abc import Awaitable, Callable

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains, Evaluator, LLMJudge
from pydantic_evals.reporting import EvaluationReport

from bench.harnesses.job import EXPECTED, RUBRIC, Job, main, question
from bench.harnesses.openai_client import KEY, ask, make_client


def prepare(job: Job) -> Callable[[], int]:
    """Return the evaluation of a dataset; its cases are made here, unmeasured."""
    cases = [Case(name=f"case-{number}", inputs=question(number)) for number in range(job.cases)]
    dataset = Dataset(name="bench", cases=cases, evaluators=[_evaluator(job)])

    async def evaluate() -> EvaluationReport:
        return await dataset.evaluate(_task(job), max_concurrency=job.at_once, progress=False)

    return lambda: _passed(asyncio.run(evaluate()))


def _evaluator(job: Job) -> Evaluator:
    if job.kind != "judge":
        return Contains(value=EXPECTED)
    return LLMJudge(
        rubric=RUBRIC, model=OpenAIChatModel("fake", provider=OpenAIProvider(base_url=job.url, api_key=KEY))
    )


def _task(job: Job) -> Callable[[str], Awaitable[str]]:
    async def echo(inputs: str) -> str:
        return inputs

    client = make_client(job)

    async def ask_model(inputs: str) -> str:
        return await ask(client, inputs)

    return echo if job.kind == "echo" else ask_model


def _passed(report: EvaluationReport) -> int:
    return sum(
        bool(case.assertions) and all(result.value for result in case.assertions.values()) for case in report.cases
    )


if __name__ == "__main__":
    main(prepare)
