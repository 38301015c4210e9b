"""A run on a real Ray cluster: the same rows as here, and none lost or doubled when nodes are killed."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.ray_cluster import RayCluster

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


def write_project(folder: Path, cases: int) -> None:
    (folder / "upper.py").write_text(TARGET)
    (folder / ".agentv").mkdir()
    (folder / ".agentv" / "targets.yaml").write_text(
        'targets:\n  - {name: upper, provider: python, workers: 5, callable: "../upper.py:answer"}\n'
    )
    lines = (f"  - {{id: case-{number}, input: 'a {number}', expected_outcome: A}}\n" for number in range(cases))
    (folder / "words.yaml").write_text(SUITE + "".join(lines))


def test_a_run_on_three_nodes(cluster: RayCluster, tmp_path: Path) -> None:
    write_project(tmp_path, 60)
    done = cluster.run(tmp_path, "run", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [line.split() for line in (tmp_path / "calls.txt").read_text().splitlines()]
    assert len(calls) == 60
    assert len({process for _, process in calls}) == 3


KINDS = ["node", "raylet", "process", "driver"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_doubled_when_a_part_is_killed(
    cluster: RayCluster, tmp_path: Path, kind: str, seed: int
) -> None:
    cases, in_flight = 500, 3 * 5
    write_project(tmp_path, cases)
    at = random.Random(seed).randrange(50, 350)
    driver = subprocess.Popen(
        cluster.agentv(
            "run", ".", "--backend", "ray", "--ray-address", cluster.address, "--shared-path", str(tmp_path)
        ),
        cwd=tmp_path,
        env=cluster.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    calls = tmp_path / "calls.txt"
    wait_for(lambda: calls.exists() and len(calls.read_bytes().splitlines()) >= at, driver)
    if kind == "driver":
        driver.kill()
        driver.communicate()
        done = cluster.run(tmp_path, "resume")
        code, said = done.returncode, done.stdout + done.stderr
    else:
        if kind == "process":
            os.kill(int(calls.read_text().split()[1]), signal.SIGKILL)
        elif kind == "raylet":
            os.kill(cluster.raylets[0], signal.SIGKILL)
        else:
            cluster.remove(0)
        said, _ = driver.communicate()
        code = driver.returncode
        if kind != "process":
            cluster.replace(0)
        if code == 3:  # the node was that of the driver, too
            done = cluster.run(tmp_path, "resume")
            code, said = done.returncode, done.stdout + done.stderr
    assert code == 0, said
    (run,) = (tmp_path / ".agentv" / "runs").iterdir()
    rows = [json.loads(line)["eval_id"] for line in (run / "results.jsonl").read_text().splitlines()]
    assert sorted(rows) == sorted(f"case-{number}" for number in range(cases))
    paid = len(calls.read_text().splitlines())
    assert paid <= cases + 2 * in_flight  # those in flight, and those whose answers were on their way


def wait_for(is_true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not is_true():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
