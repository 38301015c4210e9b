"""One run on a Ray cluster of which a part is killed on the way."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from tests.support.ray_cluster import RayCluster

Part = Literal["node", "raylet", "process", "driver"]
PARTS: tuple[Part, ...] = ("node", "raylet", "process", "driver")
"""All processes of a machine; Ray's own one there, whose worker goes on; the worker; the process with the run folder,
which holds the quota and the budget."""

TARGET = """
import asyncio, os, pathlib
async def answer(request):
    with open(pathlib.Path(__file__).with_name("calls.txt"), "a") as calls:
        calls.write(f"{request.eval_case_id} {os.getpid()}\\n")
    await asyncio.sleep(0.05)
    return request.question.upper()
"""

SUITE = """
description: words
execution:
  target: upper
  evaluators:
    - {name: has, type: contains, value: A}
evalcases:
"""


def write_project(folder: Path, *, cases: int, workers: int = 5) -> None:
    """Write a suite and a target that notes its calls, which is what a vendor would bill."""
    (folder / "upper.py").write_text(TARGET)
    (folder / ".agentv").mkdir()
    target = f'{{name: upper, provider: python, workers: {workers}, callable: "../upper.py:answer"}}'
    (folder / ".agentv" / "targets.yaml").write_text(f"targets:\n  - {target}\n")
    lines = (f"  - {{id: case-{number}, input: 'a {number}', expected_outcome: A}}\n" for number in range(cases))
    (folder / "words.yaml").write_text(SUITE + "".join(lines))


class Ended(NamedTuple):
    """How a run ended: its exit code, its output, the ids of its rows, the calls made, and if a resume ended it."""

    code: int
    said: str
    rows: list[str]
    calls: int
    is_resumed: bool


def run_and_kill(cluster: RayCluster, folder: Path, part: Part, *, number: int = 0, after_calls: int) -> Ended:
    """Run the project, kill a part of node `number` after so many calls, and resume if the run could not end."""
    driver = subprocess.Popen(
        cluster.agentv("run", ".", "--backend", "ray", "--ray-address", cluster.address),
        cwd=folder,
        env=cluster.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    calls = folder / "calls.txt"
    _wait_for(lambda: calls.exists() and len(calls.read_bytes().splitlines()) >= after_calls, driver)
    if part == "driver":
        driver.kill()
    elif part == "process":
        os.kill(int(calls.read_text().split()[1]), signal.SIGKILL)
    elif part == "raylet":
        os.kill(cluster.raylets[number], signal.SIGKILL)
    else:
        cluster.remove(number)
    said, _ = driver.communicate()
    code = driver.returncode
    if part in ("node", "raylet"):
        cluster.replace(number)
    is_resumed = part == "driver" or code == 3  # the node was that of the driver, too
    if is_resumed:
        done = cluster.run(folder, "resume")
        code, said = done.returncode, said + done.stdout + done.stderr
    (run,) = (folder / ".agentv" / "runs").iterdir()
    rows = [json.loads(line)["eval_id"] for line in (run / "results.jsonl").read_text().splitlines()]
    return Ended(code, said, rows, len(calls.read_bytes().splitlines()), is_resumed)


def _wait_for(is_true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    while not is_true():
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0])
        time.sleep(0.01)
