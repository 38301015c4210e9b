"""A run on a real Ray cluster: the same rows as here, and none lost or doubled when nodes are killed."""

from pathlib import Path

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
