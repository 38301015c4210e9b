"""One run on a Ray cluster of which a part is killed on the way, against a server that bills every call."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tests.durability.witness import billing
from tests.support.ray_cluster import MODEL_KEY, RayCluster

from agentv.storage.files.run_file import whole_lines

Part = Literal["node", "raylet", "process", "quota", "driver"]
PARTS: tuple[Part, ...] = ("node", "raylet", "process", "quota", "driver")
"""All processes of a machine; Ray's own one there, whose worker goes on; the worker; the holder of the account's
permits or that of the money; the process with the run folder."""

CALL_S = 0.05

FUNCTION = """
import asyncio, os, pathlib
async def answer(request):
    with open(pathlib.Path(__file__).with_name("calls.txt"), "a") as calls:
        calls.write(f"{request.eval_case_id} {os.getpid()}\\n")
    return "yes"
"""

SUITE = """
description: words
execution:
  target: t
  evaluators:
    - {name: has, type: starts_with, value: "yes"}
evalcases:
"""


def write_project(folder: Path, *, cases: int, workers: int = 5, url: str | None = None) -> None:
    """Write a suite and a target: a function that notes its calls, or a model whose limit does not slow it."""
    function = {"provider": "python", "callable": "../function.py:answer"}
    model = {
        "provider": "openai",
        "base_url": url,
        "model": "m",
        "api_key": f"${{{{ {MODEL_KEY} }}}}",
        "requests_per_minute": 60_000,
        "price": {"input_per_million": 1.0, "output_per_million": 1.0},
    }
    target = {"name": "t", "workers": workers, **(function if url is None else model)}
    (folder / "function.py").write_text(FUNCTION)
    (folder / ".agentv").mkdir()
    (folder / ".agentv" / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    lines = (f"  - {{id: case-{number}, input: case-{number}, expected_outcome: A}}\n" for number in range(cases))
    (folder / "words.yaml").write_text(SUITE + "".join(lines))


class Ended(NamedTuple):
    """How a run ended: its exit code, its output, the rows and bills of each case, and if a resume ended it."""

    code: int
    said: str
    rows: Counter[str]
    bills: Counter[str]
    is_resumed: bool


def run_and_kill(
    cluster: RayCluster,
    folder: Path,
    part: Part,
    *,
    cases: int,
    after_calls: int,
    number: int = 0,
    workers: int = 5,
    options: Sequence[str] = (),
) -> Ended:
    """Run so many cases, kill a part of node `number` after so many calls, and resume if the run could not end."""
    with billing(folder, latency_s=CALL_S, within=cluster.command) as witness:
        write_project(folder, cases=cases, workers=workers, url=witness.url)
        shared = ("--ray-address", cluster.address, "--shared-path", str(folder))
        driver = subprocess.Popen(
            cluster.agentv("run", ".", "--budget-usd", "1000", "--backend", "ray", *shared, *options),
            cwd=folder,
            env=cluster.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert witness.wait_for(after_calls, driver), driver.communicate()[0].decode()
        kill(cluster, driver, part, number)
        said = driver.communicate()[0].decode()
        code = driver.returncode
        if part in ("node", "raylet"):
            cluster.replace(number)
        is_resumed = part == "driver" or code == 3  # the node was that of the driver, too
        if is_resumed:
            done = cluster.run(folder, "resume")
            code, said = done.returncode, said + done.stdout + done.stderr
        (run,) = (folder / ".agentv" / "runs").iterdir()
        rows = (json.loads(line)["eval_id"] for line in whole_lines(run / "results.jsonl"))
        return Ended(code, said, Counter(rows), witness.bills(), is_resumed)


def kill(cluster: RayCluster, driver: "subprocess.Popen[bytes]", part: Part, number: int) -> None:
    """Kill a part of a run in progress."""
    match part:
        case "driver":
            driver.kill()
        case "process":
            os.kill(cluster.actors("NodeActor")[number], signal.SIGKILL)
        case "quota":
            holders = cluster.actors("QuotaActor")
            os.kill(holders[number % len(holders)], signal.SIGKILL)
        case "raylet":
            os.kill(cluster.raylets[number], signal.SIGKILL)
        case "node":
            cluster.remove(number)
