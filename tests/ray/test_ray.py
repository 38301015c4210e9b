"""A run on a real Ray cluster: the same rows as here, and none lost or doubled when nodes are killed."""

import json
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from tests.support.nightly import sample
from tests.support.ray_cluster import RayCluster
from tests.support.ray_kills import PARTS, Part, run_and_kill, write_project
from tests.support.waiting import until

from agentv.storage.run.stored import open_run


def test_a_run_on_three_nodes(cluster: RayCluster, tmp_path: Path) -> None:
    write_project(tmp_path, cases=60)
    done = cluster.run(tmp_path, "run", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [line.split() for line in (tmp_path / "calls.txt").read_text().splitlines()]
    assert len(calls) == 60
    assert len({process for _, process in calls}) == 3


def test_nodes_store_their_rows_as_segments(cluster: RayCluster, tmp_path: Path) -> None:
    write_project(tmp_path, cases=60)
    done = cluster.run(tmp_path, "run", ".", "--segments", "place")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / ".agentv" / "runs").iterdir()
    assert sorted(path.name for path in run.glob("*.jsonl")) == ["events.jsonl", "segments.jsonl"]
    segments = list((tmp_path / "place" / run.name).glob("results-*.jsonl"))
    assert len(segments) >= 3
    rows = [json.loads(line)["eval_id"] for path in segments for line in path.read_text().splitlines()]
    assert sorted(rows) == sorted(f"case-{number}" for number in range(60))
    assert [row.eval_id for row in open_run(run).results()] != []
    resumed = cluster.run(tmp_path, "resume", "latest")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "60 results unchanged; 0 target calls" in resumed.stdout


def test_no_row_of_a_killed_node_with_segments_is_lost(cluster: RayCluster, tmp_path: Path) -> None:
    cases = 300
    options = ("--segments", "place")
    ended = run_and_kill(cluster, tmp_path, "process", cases=cases, after_calls=200, options=options)
    assert ended.code == 0, ended.said
    assert ended.rows == Counter(f"case-{number}" for number in range(cases))
    assert ended.bills.total() < 2 * cases
    assert until(lambda: not list(cluster.temporary.glob("agentv-*-segments-*")))


@pytest.mark.parametrize("part", ["driver", "process"])
def test_no_copy_of_the_project_stays_after_a_kill(
    cluster: RayCluster, tmp_path: Path, part: Literal["driver", "process"]
) -> None:
    write_project(tmp_path, cases=600)
    function = tmp_path / "function.py"
    function.write_text(function.read_text().replace('return "yes"', 'await asyncio.sleep(1)\n    return "yes"'))
    run = cluster.agentv("run", ".", "--backend", "ray", "--ray-address", cluster.address, "--display", "none")
    with subprocess.Popen(run, cwd=tmp_path, env=cluster.env, stderr=subprocess.PIPE) as driver:

        def has_called_on_all_nodes() -> bool:
            return (
                sum("\n" in calls.read_text() for calls in cluster.temporary.glob("agentv-*-project-*/calls.txt")) == 3
            )

        try:
            # The processes of Ray may take most of a minute to start.
            assert until(has_called_on_all_nodes) or until(has_called_on_all_nodes)
            copies = set(cluster.temporary.glob("agentv-*-project-*"))
            if part == "driver":
                driver.kill()
                assert until(lambda: not any(each.exists() for each in copies))
            else:
                copy = next(iter(copies))
                _, process = (copy / "calls.txt").read_text().splitlines()[0].split()
                os.kill(int(process), signal.SIGKILL)
                assert until(lambda: not copy.exists())
        finally:
            driver.kill()
    assert until(lambda: not list(cluster.temporary.glob("agentv-*-project-*")))


KILLS = sample([(part, seed) for part in PARTS for seed in range(3)], 1, of_each=lambda each: each[0])


@pytest.mark.parametrize(("part", "seed"), KILLS)
def test_nothing_is_lost_or_doubled_when_a_part_is_killed(
    cluster: RayCluster, tmp_path: Path, part: Part, seed: int
) -> None:
    cases, in_flight = 500, 3 * 5
    after_calls = random.Random(seed).randrange(50, 350)
    ended = run_and_kill(cluster, tmp_path, part, cases=cases, after_calls=after_calls, number=seed)
    assert ended.code == 0, ended.said
    assert ended.rows == Counter(f"case-{number}" for number in range(cases))
    assert ended.bills.keys() == ended.rows.keys()
    # Those in flight, and those whose answers were on their way.
    assert ended.bills.total() <= cases + 2 * in_flight
