"""What a run on a Ray cluster refuses before it stores anything, and what starts it from Python."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ray_cluster import RayCluster
from tests.support.ray_kills import FUNCTION, write_project
from tests.support.waiting import until

FROM_PYTHON = """
import json, sys
from agentv import EvalCase, EvaluatorConfig, evaluate

source, address = sys.argv[1:]
cases = [EvalCase("sum", "What is 2 + 2?", evaluators=(EvaluatorConfig("four", "contains", {"value": "4"}),))]
try:
    given = {"task": str} if source == "objects" else {}
    report = evaluate(cases if source == "objects" else source, backend="ray", ray_address=address, **given)
    print(json.dumps([report.exit_code, len(report.results), report.folder is not None]))
except Exception as error:
    print(type(error).__name__, error)
"""


def from_python(cluster: RayCluster, folder: Path, source: str) -> str:
    words = cluster.command(sys.executable, "-c", FROM_PYTHON, source, cluster.address)
    done = subprocess.run(words, cwd=folder, env=cluster.env, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def test_an_eval_file_runs_on_a_cluster_from_python(cluster: RayCluster, tmp_path: Path) -> None:
    write_project(tmp_path, cases=4)
    assert from_python(cluster, tmp_path, "words.yaml") == "[0, 4, true]\n"
    assert cluster.run(tmp_path, "resume", "latest").returncode == 0


def test_objects_of_python_are_refused_before_anything_is_stored(cluster: RayCluster, tmp_path: Path) -> None:
    (tmp_path / ".agentv").mkdir()
    said = from_python(cluster, tmp_path, "objects")
    assert said.startswith("ConfigError a run on several machines needs an eval file"), said
    assert not (tmp_path / ".agentv" / "runs").exists()


def test_a_cluster_that_cannot_be_reached_is_an_error_before_anything_is_stored(
    cluster: RayCluster, tmp_path: Path
) -> None:
    write_project(tmp_path, cases=1)
    words = cluster.agentv("run", ".", "--backend", "ray", "--ray-address", "127.0.0.1:1")
    done = subprocess.run(words, cwd=tmp_path, env=cluster.env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "error: the Ray cluster 127.0.0.1:1 cannot be used: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".agentv" / "runs").exists()


@pytest.mark.parametrize("address", ["of the cluster", "none"])
def test_ray_writes_no_messages_of_its_own(cluster: RayCluster, tmp_path: Path, address: str) -> None:
    write_project(tmp_path, cases=1)
    named = ["--ray-address", cluster.address] if address != "none" else []
    words = cluster.agentv("run", ".", "--backend", "ray", *named, "--display", "none")
    done = subprocess.run(words, cwd=tmp_path, env=cluster.env, capture_output=True, text=True, check=False)
    # This one warning of Ray comes before its settings are read, and only in a network without a way out.
    said = [line for line in done.stderr.splitlines() if "network_util.cc" not in line]
    assert (done.returncode, done.stdout, said) == (0, "", ["PASS: 1 of 1 judged result passed (100 %). Exit code 0."])


def test_ray_writes_no_message_about_a_killed_node(cluster: RayCluster, tmp_path: Path) -> None:
    write_project(tmp_path, cases=300)
    (tmp_path / "function.py").write_text(FUNCTION.replace('return "yes"', 'await asyncio.sleep(0.3); return "yes"'))
    address = ("--ray-address", cluster.address, "--shared-path", str(tmp_path))
    words = cluster.agentv("run", ".", "--backend", "ray", *address, "--display", "none")
    with subprocess.Popen(words, cwd=tmp_path, env=cluster.env, stderr=subprocess.PIPE, text=True) as driver:
        calls = tmp_path / "calls.txt"
        assert until(lambda: calls.exists() and len(calls.read_text().splitlines()) > 30)
        os.kill(cluster.raylets[0], signal.SIGKILL)
        said = driver.communicate()[1]
    cluster.replace(0)
    assert (driver.returncode, "(raylet)" in said) == (0, False), said


def test_ray_does_not_send_the_working_folder_itself(cluster: RayCluster, tmp_path: Path) -> None:
    """It would under `uv run`, as here, with the `.env` file in it; the nodes would then work in that copy."""
    write_project(tmp_path, cases=1)
    (tmp_path / "function.py").write_text("import os\ndef answer(request):\n    return 'yes ' + os.getcwd()\n")
    done = cluster.run(tmp_path, "run", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    (answers,) = tmp_path.glob(".agentv/runs/*/answers.jsonl")
    assert "working_dir_files" not in answers.read_text()
