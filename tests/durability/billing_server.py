"""A model server in a process of its own that bills every call: the witness of what a run paid for.

Each call is a line in the file given first, and on standard output, written before it is answered. With a number as
the second argument, calls after that many wait until a line comes on standard input. The third one is the time that an
answer takes, in seconds.
"""

import asyncio
import os
import sys

from aiohttp import web

ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "model": "m",
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


async def main() -> None:
    bills = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    hold_at = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    latency_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    released = asyncio.Event()
    billed = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal billed
        case = (await request.json())["messages"][-1]["content"]
        billed += 1
        for place in (bills, 1):
            os.write(place, f"{case}\n".encode())
        if hold_at and billed >= hold_at:
            await released.wait()
        if latency_s:
            await asyncio.sleep(latency_s)
        choice = {"index": 0, "message": {"role": "assistant", "content": f"yes, {case}"}, "finish_reason": "stop"}
        return web.json_response({**ANSWER, "choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    os.write(1, f"{runner.addresses[0][1]}\n".encode())
    await asyncio.to_thread(sys.stdin.readline)
    released.set()
    await asyncio.Event().wait()


asyncio.run(main())
