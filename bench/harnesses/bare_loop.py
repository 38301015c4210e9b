"""No harness at all: workers that take questions from one iterator, ask with aiohttp, and look into the answer."""

import asyncio
from collections.abc import Callable, Iterator

from aiohttp import ClientSession, TCPConnector

from bench.harnesses.job import EXPECTED, Job, main


def prepare(job: Job) -> Callable[[], int]:
    """Return the loop."""
    questions = job.questions
    return lambda: asyncio.run(_ask_all(job, iter(questions)))


async def _ask_all(job: Job, questions: Iterator[str]) -> int:
    async with ClientSession(connector=TCPConnector(limit=0)) as session:
        return sum(await asyncio.gather(*(_work(job, session, questions) for _ in range(job.at_once))))


async def _work(job: Job, session: ClientSession, questions: Iterator[str]) -> int:
    passed = 0
    for asked in questions:
        answer = asked if job.kind == "echo" else await _ask(job, session, asked)
        if job.kind == "judge":
            await _ask(job, session, f"Judge this: {answer}")
        passed += EXPECTED in answer
    return passed


async def _ask(job: Job, session: ClientSession, asked: str) -> str:
    body = {"model": "fake", "messages": [{"role": "user", "content": asked}]}
    async with session.post(f"{job.url}/chat/completions", json=body) as response:
        reply = await response.json()
    return str(reply["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main(prepare)
