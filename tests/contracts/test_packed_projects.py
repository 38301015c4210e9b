"""A project that is sent to nodes on other machines: the same rows as here, and nothing that must not travel."""

import asyncio
import os
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from tests.contracts.test_backends import files_of
from tests.support.cluster import ProcessMachines, ProcessNode, plan_of, run_on, stored_rows
from tests.support.waiting import until

from agentv.engine.cluster.packing import MAX_BYTES, check_packable, is_packed, pack, unpack
from agentv.types.errors import ConfigError

ADDRESS = "10.0.0.1:6379"

TARGET = """
import os, pathlib
from words import PREFIX
def answer(request):
    read = pathlib.Path(request.workspace, "given.txt").read_text() if request.workspace else ""
    return PREFIX + request.question + read + os.environ.get("PYTEST_CURRENT_TEST", "")[:0]
"""

JUDGE = """
import json, pathlib, sys
given = json.load(sys.stdin)
found = (pathlib.Path(__file__).parent / "expected.txt").read_text().strip() in given["candidate_answer"]
print(json.dumps({"score": float(found), "hits": [], "misses": []}))
"""

EVALS = """
execution:
  target: upper
  evaluators:
    - {name: has, type: contains, value: A}
    - {name: judged, type: code_judge, script: [python3, judge.py]}
evalcases:
  - {id: plain, input: a question, expected_outcome: A}
  - id: with-file
    expected_outcome: A
    evaluators: [{name: own, type: code_judge, script: [python3, judge.py]}]
    input_messages:
      - {role: user, content: [{type: text, value: read}, {type: file, value: notes.txt}]}
  - {id: in-workspace, input: a question, expected_outcome: A, execution: {workspace: {template: ../template}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with a project in a folder of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    project = tmp_path / "repository" / "project"
    files = {
        ".agentv/targets.yaml": 'targets:\n  - {name: upper, provider: python, callable: "../agent.py:answer"}\n',
        "agent.py": TARGET,
        "words.py": "PREFIX = 'A: '\n",
        "template/given.txt": "given\n",
        "template/build/made.txt": "ignored by git, but a part of the template\n",
        "evals/words.yaml": EVALS,
        "evals/judge.py": JUDGE,
        "evals/expected.txt": "A:\n",
        "evals/notes.txt": "notes\n",
        ".env": "KEY=sk-a-secret-of-this-project\n",
        "build/large.bin": "ignored by git",
        "../.gitignore": "build/\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "repository", check=True)
    return project


def rows_of(folder: Path) -> dict[str, list[str]]:
    """Return the lines of the run's files as if the project were at the root: rows name the paths of attached files."""
    placed = re.compile(r'/[^" ]*/project/')
    return {name: [placed.sub("/project/", line) for line in lines] for name, lines in files_of(folder).items()}


def test_nodes_with_a_copy_of_the_project_write_the_same_rows_as_a_run_here(folder: Path, tmp_path: Path) -> None:
    here = asyncio.run(run_on(folder, None))
    assert [row.score for row in stored_rows(here)] == [1.0, 1.0, 1.0], stored_rows(here)
    of_here = rows_of(folder)
    (run,) = (folder / ".agentv" / "runs").iterdir()
    run.rename(tmp_path / "here")
    machines = ProcessMachines(2)

    def sent_away(*given: object) -> ProcessMachines:
        for each in (*folder.glob("[!.]*"), folder / ".agentv" / "targets.yaml"):
            each.rename(tmp_path / each.name)  # nothing is read at the old place any more
        return machines(*given)  # type: ignore[arg-type]

    elsewhere = asyncio.run(run_on(folder, sent_away, backend="ray", ray_address=ADDRESS))
    assert elsewhere.verdict == here.verdict, elsewhere.notes
    assert rows_of(folder) == of_here
    assert list((tmp_path / "temporary").glob("agentv-*-project-*")) == []


def test_no_file_with_variables_is_sent(folder: Path) -> None:
    machines = ProcessMachines(1)
    asyncio.run(run_on(folder, machines, backend="ray", ray_address=ADDRESS))
    assert b"PREFIX" in machines.sent
    assert b"sk-a-secret-of-this-project" not in machines.sent
    assert b"large.bin" not in machines.sent


class RecordingNode(ProcessNode):
    """A node that records every message to and from it."""

    messages: ClassVar[list[bytes]] = []

    async def give(self, tasks: bytes) -> None:
        self.messages.append(tasks)
        await super().give(tasks)

    async def take(self, wait_s: float) -> bytes:
        self.messages.append(await super().take(wait_s))
        return self.messages[-1]

    async def stop(self) -> bytes:
        self.messages.append(await super().stop())
        return self.messages[-1]


def test_the_value_of_a_variable_is_in_no_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "sk-canary-of-the-environment")
    (folder / ".agentv" / "targets.yaml").write_text(
        "targets: [{name: upper, provider: cli, command_template: 'echo A $KEY', env: {KEY: '${{ CANARY }}'}}]\n"
    )
    machines = ProcessMachines(1, node=RecordingNode)
    report = asyncio.run(run_on(folder, machines, backend="ray", ray_address=ADDRESS))
    assert {row.candidate_answer for row in stored_rows(report)} == {"A ***"}
    assert b"A ***" in b"".join(RecordingNode.messages)
    assert b"sk-canary" not in b"".join((machines.sent, *RecordingNode.messages))


def test_a_kept_workspace_stays_on_its_node_and_the_row_names_both(folder: Path, tmp_path: Path) -> None:
    path = folder / "evals" / "words.yaml"
    path.write_text(path.read_text().replace("../template}", "../template, keep: always}"))
    report = asyncio.run(run_on(folder, ProcessMachines(1), backend="ray", ray_address=ADDRESS))
    assert report.folder is not None
    (kept,) = (tmp_path / "temporary").glob("agentv-*-project-*/project/.agentv/workspaces/*")
    assert f'"path":"node-0:{kept}"' in Path(report.folder, "answers.jsonl").read_text()
    assert [each.name for each in kept.parents[2].iterdir()] == [".agentv"]


def test_a_project_that_is_too_large_is_refused_with_what_to_do(folder: Path) -> None:
    with (folder / "large.bin").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    plan = plan_of(folder, backend="ray", ray_address=ADDRESS)
    with pytest.raises(ConfigError, match=r"has 200 MB, and at most 200 MB are sent.*--shared-path DIR"):
        check_packable(plan)


def test_a_file_outside_of_the_project_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    path = folder / "evals" / "words.yaml"
    path.write_text(path.read_text().replace("../template", "../../../shared"))
    plan = plan_of(folder, backend="ray", ray_address=ADDRESS, allow_paths=str(tmp_path))
    with pytest.raises(ConfigError, match=r"shared is outside of the project .*--shared-path DIR"):
        check_packable(plan)


def test_nothing_is_sent_under_a_shared_path_or_to_this_machine_alone(folder: Path, tmp_path: Path) -> None:
    assert is_packed(plan_of(folder, backend="ray", ray_address=ADDRESS))
    assert not is_packed(plan_of(folder, backend="ray", ray_address=ADDRESS, shared_path=str(tmp_path)))
    assert not is_packed(plan_of(folder, backend="ray"))
    with pytest.raises(ConfigError, match=r"is not under --shared-path /usr"):
        is_packed(plan_of(folder, backend="ray", ray_address=ADDRESS, shared_path="/usr"))


def test_programs_and_links_stay_what_they_are(folder: Path) -> None:
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    (folder / "link").symlink_to("tool")
    place = unpack(pack(plan_of(folder))) / "project"
    assert (place / "tool").stat().st_mode & 0o111
    assert (place / "link").readlink() == Path("tool")


UNPACK = """
import pickle, sys
from agentv.engine.cluster.packing import unpack
print(unpack(pickle.load(sys.stdin.buffer)), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("saved", ["", "workspaces/kept/file", "repositories/0/HEAD"])
def test_the_copy_of_a_killed_node_is_removed_but_for_saved_workspaces(
    folder: Path, tmp_path: Path, saved: str
) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    # The process ends at the latest when its input is closed, at the end of the block.
    with subprocess.Popen(
        [sys.executable, "-c", UNPACK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        node.stdin.write(pickle.dumps(pack(plan_of(folder))))
        node.stdin.flush()
        copy = Path(node.stdout.readline().decode().strip())
        home = copy / "project" / ".agentv"
        if saved:
            (home / saved).parent.mkdir(parents=True)
            (home / saved).write_text("saved")
        node.kill()
    assert until(lambda: not (copy / "project" / "agent.py").exists() and not (home / "targets.yaml").exists())
    if saved.startswith("workspaces"):
        assert until(lambda: sorted(home.iterdir()) == [home / "repositories", home / "workspaces"])
        assert (home / saved).read_text() == "saved"
    else:
        assert until(lambda: not copy.exists())
