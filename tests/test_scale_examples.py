"""The recipes of examples/scale: four parts of a run by other programs make the same rows and verdict as one run.

With SLURM's own programs where they are installed (Debian: slurmctld slurmd slurm-client munge; root starts them here),
and with GNU parallel (Debian: parallel). The Kubernetes manifest is held against Kubernetes' schemas (the group
kubernetes), and its command run as a container would run it.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from tests.support.nightly import sample
from tests.support.ports import free_port
from tests.support.postgres_server import upgraded_database

from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun

SCALE = Path(__file__).parent.parent / "examples" / "scale"
PATH = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/bin"
VERDICT = "PASS: pass_rate is 91.67 % (point estimate), as required (>= 90 %). Exit code 0."
SLURM = ("slurmctld", "slurmd", "sbatch", "munged")


def missing(*programs: str) -> list[str]:
    return [program for program in programs if shutil.which(program, path=PATH) is None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(SCALE, folder, ignore=shutil.ignore_patterns("__pycache__", ".agentv"))
    (folder / ".git").mkdir()
    return folder


def environment(**more: str) -> dict[str, str]:
    return {"PATH": PATH, "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8", **more}


def run(*command: str, cwd: Path, code: int = 0, env: Mapping[str, str] | None = None) -> str:
    """Run a command, with `env` added to its environment; return what it printed."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(**(env or {})), capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def stored(project: Path) -> list[StoredRun]:
    return [StoredRun(folder) for folder in list_run_folders(project / ".agentv")]


def rows_of(stored_run: StoredRun) -> list[tuple[Any, ...]]:
    answers = {answer.seq: answer.text for answer in stored_run.answers()}
    return sorted(
        (row.eval_id, row.status, row.score, row.verdict, answers[row.answer_seq or 0]) for row in stored_run.results()
    )


def assert_the_parts_are_one_run(project: Path, name: str) -> None:
    """Merge the parts, and compare with one run of everything."""
    parts = [each for each in stored(project) if (each.run.name or "").startswith(f"{name}-")]
    assert sorted(each.run.name or "" for each in parts) == [f"{name}-{number}-of-4" for number in range(1, 5)]
    merged_output = run("./merge.sh", name, "4", cwd=project)
    merged = stored(project)[-1]
    assert set(merged.run.parents) == {part.run_id for part in parts}
    one_output = run("agentv", "run", "questions.yaml", cwd=project)
    assert VERDICT in merged_output
    assert VERDICT in one_output
    rows = rows_of(merged)
    assert len(rows) == 12
    assert rows == rows_of(stored(project)[-1])


def test_four_parts_in_a_shell_are_one_run(project: Path) -> None:
    for number in range(1, 5):
        run("./shard.sh", "night", str(number), "4", "questions.yaml", cwd=project)
    assert_the_parts_are_one_run(project, "night")


def test_a_part_that_is_started_again_is_continued_and_pays_nothing_twice(project: Path) -> None:
    run("./shard.sh", "night", "1", "4", "questions.yaml", cwd=project)
    assert "0 target calls" in run("./shard.sh", "night", "1", "4", "questions.yaml", cwd=project)
    assert [each.run.name for each in stored(project)] == ["night-1-of-4"]


def test_a_missing_part_makes_the_merged_run_incomplete(project: Path) -> None:
    for number in (1, 2, 4):
        run("./shard.sh", "night", str(number), "4", "questions.yaml", cwd=project)
    assert "INCOMPLETE: only 9 of 12" in run("./merge.sh", "night", "4", cwd=project, code=3)


def test_an_empty_part_is_no_failure_and_a_wrong_file_is_one(project: Path) -> None:
    for number in range(1, 4):
        run("./shard.sh", "few", str(number), "3", "--case", "toys", "questions.yaml", cwd=project)
    assert len(stored(project)) == 1
    (project / "questions.yaml").write_text("evalcases: {")
    run("./shard.sh", "wrong", "1", "4", "questions.yaml", cwd=project, code=4)


def test_a_part_that_is_told_to_end_stores_what_it_has_and_is_continued(project: Path) -> None:
    targets = project / "targets.yaml"
    targets.write_text(targets.read_text().replace("provider: mock", "provider: mock\n    delay_ms: 1500"))
    started = subprocess.Popen(
        ["./shard.sh", "night", "2", "4", "questions.yaml", "--display", "json"],
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    with started:
        assert started.stdout.readline()  # the run has begun
        started.send_signal(signal.SIGTERM)
        started.stdout.read()
    assert started.returncode == 143
    assert [len(list(each.results())) for each in stored(project)] in ([0], [1])
    run("./shard.sh", "night", "2", "4", "questions.yaml", cwd=project)
    assert [len(list(each.results())) for each in stored(project)] == [2]


@pytest.mark.nightly
@pytest.mark.skipif(bool(missing("parallel")), reason="GNU parallel is not installed (Debian: parallel)")
def test_gnu_parallel_runs_and_merges_the_parts(project: Path) -> None:
    assert VERDICT in run("./parallel.sh", "night", "4", "questions.yaml", cwd=project)
    assert_the_parts_are_one_run(project, "night")


def task_of(numbers: Sequence[int], number: int, step: int = 1) -> dict[str, str]:
    """Return what SLURM sets for one task of an array."""
    array = {"MIN": min(numbers), "MAX": max(numbers), "COUNT": len(numbers), "STEP": step, "ID": number}
    return {"SLURM_ARRAY_JOB_ID": "7", **{f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in array.items()}}


@pytest.mark.parametrize("numbers", sample([range(4), range(1, 5), range(7, 19, 3)], 1), ids=str)
def test_the_tasks_of_an_array_are_the_parts_however_it_counts(numbers: range, project: Path) -> None:
    for number in numbers:
        task = task_of(numbers, number, numbers.step)
        run("bash", "slurm.sbatch", "questions.yaml", cwd=project, env=task)
    assert_the_parts_are_one_run(project, "slurm-7")


def test_an_array_with_gaps_is_refused(project: Path) -> None:
    said = run("bash", "slurm.sbatch", "questions.yaml", cwd=project, code=4, env=task_of([1, 2, 5], 5))
    assert said == "slurm.sbatch: the indices of the array have gaps; use a range such as --array=1-4\n"
    assert stored(project) == []


CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000
PartitionName=all Nodes={host} Default=YES State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a cluster of one node with eight (claimed) cores; yield the environment for its programs."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().partition(".")[0]
    ports = {"controller": free_port(), "node": free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, **ports))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    env = environment(SLURM_CONF=str(folder / "slurm.conf"))
    files = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [f"--{option}={folder / name}" for option, name in files.items()]
    daemons = [["munged", "--foreground", "--force", *munge], ["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", host]]
    with ExitStack() as stack:
        for command in daemons:
            with (folder / f"{command[0]}.txt").open("w") as said:
                daemon = subprocess.Popen(command, env=env, stdout=said, stderr=subprocess.STDOUT, process_group=0)
            stack.callback(daemon.wait, timeout=30)
            stack.callback(daemon.terminate)
        yield env


@pytest.mark.nightly
@pytest.mark.skipif(
    bool(missing(*SLURM)), reason="SLURM is not installed (Debian: slurmctld slurmd slurm-client munge)"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="slurmd is started by root only")
def test_slurm_runs_the_parts(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with slurm(tmp_path_factory.mktemp("slurm")) as env:
        options = ["--wait", "--parsable", "--mem=500M", "--output=%a.txt"]
        ended = run("sbatch", *options, "slurm.sbatch", "questions.yaml", cwd=project, env=env)
    assert_the_parts_are_one_run(project, f"slurm-{ended.split()[0]}")


def the_job() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((SCALE / "job.yaml").read_text("utf-8"))
    return loaded


@pytest.mark.skipif(
    find_spec("kubernetes_validate") is None,
    reason="kubernetes-validate is not installed: ./run --group=kubernetes pytest tests/test_scale_examples.py",
)
def test_the_manifest_is_one_that_kubernetes_knows_every_field_of() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    version = "1.33"  # the first in which backoffLimitPerIndex is stable
    kubernetes_validate.validate(the_job(), version, strict=True)
    wrong = the_job()
    wrong["spec"]["backoffLimitPerIndexes"] = 3
    with pytest.raises(kubernetes_validate.ValidationError, match="backoffLimitPerIndexes"):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_pods_of_the_job_are_the_parts_and_share_a_budget(project: Path) -> None:
    url = upgraded_database()
    spec = the_job()["spec"]
    container = spec["template"]["spec"]["containers"][0]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for index in range(spec["completions"]):
        pod = {**given, "QUOTA": url, "JOB_COMPLETION_INDEX": str(index)}
        run(*container["command"], *container["args"], cwd=project, env=pod)
    options = [cast(dict[str, Any], each.run.plan["options"]) for each in stored(project)]
    assert {each["budget_name"] for each in options} == {given["RUN"]}
    assert_the_parts_are_one_run(project, given["RUN"])


def test_the_number_of_parts_is_the_same_everywhere() -> None:
    spec = the_job()["spec"]
    [command] = spec["template"]["spec"]["containers"][0]["args"]
    array = re.search(r"--array=1-(\d+)", (SCALE / "slurm.sbatch").read_text("utf-8"))
    assert f" {spec['completions']} --budget-usd" in command
    assert array is not None
    assert int(array[1]) == spec["completions"]
    assert spec["parallelism"] == spec["completions"]
