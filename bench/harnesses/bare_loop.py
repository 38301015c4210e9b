"""No harness: workers that take prompts from one iterator, call the model with aiohttp, and search the answer."""

import asyncio
from collections.abc import Callable, Iterator

from aiohttp import ClientSession, TCPConnector

from bench.harnesses.job import EXPECTED, Job, main


def prepare(job: Job) -> Callable[[], int]:
    """Return the loop."""
    questions = job.questions
    return lambda: asyncio.run(_call_all(job, iter(questions)))


async def _call_all(job: Job, questions: Iterator[str]) -> int:
    async with ClientSession(connector=TCPConnector(limit=0)) as session:
        return sum(await asyncio.gather(*(_work(job, session, questions) for _ in range(job.at_once))))


async def _work(job: Job, session: ClientSession, questions: Iterator[str]) -> int:
    passed = 0
    for prompt in questions:
        answer = prompt if job.kind == "echo" else await _call(job, session, prompt)
        if job.kind == "judge":
            await _call(job, session, f"Judge this: {answer}")
        passed += EXPECTED in answer
    return passed


async def _call(job: Job, session: ClientSession, prompt: str) -> str:
    body = {"model": "fake", "messages": [{"role": "user", "content": prompt}]}
    async with session.post(f"{job.url}/chat/completions", json=body) as response:
        reply = await response.json()
    return str(reply["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main(prepare)
