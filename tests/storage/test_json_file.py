"""Judgements in a JSON Lines file."""

import asyncio
import fcntl
import os
from pathlib import Path

from agentv import EvaluationInput, EvaluationRunConfig, JsonFileStorageProvider, run_evaluation_sync


def test_a_locked_file_does_not_block_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    config = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "x"}])
    result = run_evaluation_sync(EvaluationInput("x"), config)

    async def save_while_held() -> None:
        holder = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(holder, fcntl.LOCK_EX)
        # A store that blocks the event loop would wait for ever for the line below.
        saving = asyncio.create_task(JsonFileStorageProvider(path).save_result(result))
        await asyncio.sleep(0)
        assert path.read_bytes() == b""
        os.close(holder)
        async with asyncio.timeout(30):
            await saving

    asyncio.run(save_while_held())
    assert len(path.read_bytes().splitlines()) == 1
