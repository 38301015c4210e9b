"""A FastAPI service with a sampler, for `bench/sampler.py`: `python -m bench.harnesses.sampled_service PORT MODEL_URL`.

`/answer` hands its answer over if asked to; `/burst` hands over more lines at once than the queue holds. When it is
stopped it prints two JSON objects: seconds, and the counts of the sampler. The seconds are wall and CPU time of each
hand-over, and the wall time of each callback of the event loop in both kinds of blocks.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from msgspec import structs

import agentv

HANDED_OVER: list[tuple[float, float]] = []
CALLBACKS: dict[bool, list[float]] = {True: [], False: []}
_IS_SAMPLED = False
BURST = 1500


def time_callbacks() -> None:
    """Measure the wall time of every callback of the event loop of this thread."""
    run = asyncio.Handle._run  # noqa: SLF001 - the loop has no other place to measure its callbacks
    loop = asyncio.get_running_loop()

    def timed(handle: Any) -> None:
        if handle._loop is not loop:  # noqa: SLF001 - that of the sampler
            run(handle)
            return
        begin = time.perf_counter()
        run(handle)
        CALLBACKS[_IS_SAMPLED].append(time.perf_counter() - begin)

    asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]  # noqa: SLF001 - as above


def make_app(model_url: str) -> tuple[FastAPI, agentv.Sampler]:
    """Return the service and its sampler, whose judge is the model at that URL."""
    judge = agentv.TargetConfig("judge", "openai", {"base_url": model_url, "api_key": "sk-none", "model": "fake"})
    config = agentv.EvaluationRunConfig(evaluators=[{"type": "llm_judge", "criterion": "polite"}], judge=judge)
    sampler = agentv.Sampler(config, sample=0.05, by="session_id")
    small = agentv.Sampler(config, queue=100)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with sampler, small:
            gc.collect()
            gc.freeze()  # as docs/how-to/sampling.md advises
            time_callbacks()
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/answer")
    async def answer(number: int, sampled: int) -> dict[str, str]:
        global _IS_SAMPLED  # noqa: PLW0603 - the block that the client is in
        _IS_SAMPLED = bool(sampled)
        response = f"You may return order {number} within 30 days. " * 10
        if sampled:
            line = {"id": str(number), "session_id": f"s{number}", "prompt": "May I return it?", "response": response}
            begin, begin_cpu = time.perf_counter(), time.thread_time()
            sampler.offer(line)
            HANDED_OVER.append((time.perf_counter() - begin, time.thread_time() - begin_cpu))
        return {"response": response}

    @app.get("/burst")
    async def burst() -> dict[str, int]:
        for number in range(BURST):
            small.offer({"id": str(number), "prompt": "May I?", "response": "Yes."})
        return structs.asdict(small.stats)

    return app, sampler


def main() -> None:
    """Serve until a signal, then print what was measured."""
    port, model_url = int(sys.argv[1]), sys.argv[2]
    app, sampler = make_app(model_url)
    uvicorn.run(app, port=port, log_level="warning", access_log=False)
    print(json.dumps({"handed_over": HANDED_OVER, "with": CALLBACKS[True], "without": CALLBACKS[False]}))
    print(json.dumps(structs.asdict(sampler.stats)))


if __name__ == "__main__":
    main()
