"""Repositories of workspaces that lie on the driver's machine: nodes with a copy of the project clone the same."""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.test_packed_projects import ADDRESS, rows_of
from tests.support.cluster import ProcessMachines, plan_of, run_on, stored_rows

from agentv.engine.cluster.packing import MAX_BYTES, check_packable, pack, unpack
from agentv.engine.cluster.workspaces import read_states, repositories_of
from agentv.types.errors import ConfigError

AGENT = """
import pathlib, subprocess
def answer(request):
    folder = pathlib.Path(request.workspace)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.txt"))
    repository = folder if (folder / ".git").exists() else folder / "library"
    commands = ("log --format=%H%s", "branch --format=%(refname)", "tag", "remote", "status --porcelain")
    said = [subprocess.check_output(["git", *each.split()], cwd=repository, text=True) for each in commands]
    (folder / "done.txt").write_text("done\\n")
    (repository / "words.txt").write_text("other words\\n")
    return "\\n".join(["A", *files, *said])
"""

TARGETS = """
targets:
  - {name: agent, provider: python, callable: "../agent.py:answer"}
  - {name: own, provider: python, callable: "../agent.py:answer", workspace: {git: GIT, ref: next}}
"""

SUITE = """
execution: {target: agent, workspace: {git: GIT}, evaluators: [{name: has, type: contains, value: A}]}
cases:
  - {id: of-suite, input: a question, expected_outcome: A}
  - {id: of-case, input: a question, expected_outcome: A, execution: {workspace: {git: GIT, ref: v1}}}
  - id: beside-others
    input: a question
    expected_outcome: A
    execution: {workspace: {repos: [{path: library, git: GIT, ref: "trunk~1"}]}}
"""

OF_TARGET = """
execution: {target: own, evaluators: [{name: has, type: contains, value: A}]}
cases:
  - {id: of-target, input: a question, expected_outcome: A}
"""

Folders = tuple[Path, Path]


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=name", "-c", "user.email=name@host")
    return subprocess.check_output(["git", *settings, "-C", str(folder), *words], text=True).strip()


def commit(folder: Path, text: str) -> None:
    (folder / "words.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)


def make_repository(folder: Path) -> Path:
    """Make a repository with the branches trunk (checked out), next and secret, and the tag v1."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "trunk")
    commit(folder, "one")
    git(folder, "tag", "v1")
    for branch in ("next", "secret"):
        git(folder, "checkout", "-q", "-b", branch)
        commit(folder, branch)
        git(folder, "checkout", "-q", "trunk")
    commit(folder, "two")
    return folder


def write_project(folder: Path, written: str) -> None:
    files = {
        ".agentv/targets.yaml": TARGETS,
        "agent.py": AGENT,
        "evals/suite.yaml": SUITE,
        "evals/target.yaml": OF_TARGET,
        ".gitignore": "inside/\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("GIT", json.dumps(written)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the project, whose temporary folder and home are in it as well."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    git(tmp_path, "init", "-q", "project")
    return tmp_path


def changed_meanwhile(machines: ProcessMachines, change: Callable[[], object]) -> Callable[..., ProcessMachines]:
    """Return machines that begin after `change` was called; the driver has read everything before."""

    def opened(*given: object) -> ProcessMachines:
        sent = machines(*given)  # type: ignore[arg-type]
        change()
        return sent

    return opened


OPTIONS: dict[str, Any] = {"backend": "ray", "ray_address": ADDRESS}


@pytest.mark.parametrize(
    ("written", "lies"),
    [
        ("../inside/shop", "project/inside/shop"),
        ("../../shop", "shop"),
        ("{place}/shop", "shop"),
        ("file://{place}/shop", "shop"),
        ("~/shop", "home/shop"),
    ],
)
def test_nodes_with_a_copy_clone_what_a_run_here_clones(place: Path, written: str, lies: str) -> None:
    project, repository = place / "project", make_repository(place / lies)
    write_project(project, written.format(place=place))
    here = asyncio.run(run_on(project, None, allow_paths=str(repository)))
    assert [(row.score, row.error) for row in stored_rows(here)] == [(1.0, None)] * 4
    of_here = rows_of(project)
    (run,) = (project / ".agentv" / "runs").iterdir()
    run.rename(place / "here")
    away = changed_meanwhile(ProcessMachines(2), lambda: repository.rename(place / "away"))
    there = asyncio.run(run_on(project, away, allow_paths=str(repository), **OPTIONS))
    assert there.verdict == here.verdict, there.notes
    assert rows_of(project) == of_here


@pytest.mark.parametrize("change", ["commit", "tag", "branch", "missing"])
def test_a_repository_that_differs_on_a_shared_disk_is_an_error_with_its_name(place: Path, change: str) -> None:
    repository = make_repository(place / "project" / "shop")
    write_project(place / "project", str(repository))

    def changed() -> None:
        match change:
            case "commit":
                commit(repository, "three")
            case "tag":
                git(repository, "tag", "v2")
            case "branch":
                git(repository, "checkout", "-q", "-b", "other")
            case _:
                repository.rename(place / "away")

    shared = changed_meanwhile(ProcessMachines(1), changed)
    said = f"node node-0: .*{repository}"
    with pytest.raises(ConfigError, match=said):
        asyncio.run(run_on(place / "project", shared, shared_path=str(place), **OPTIONS))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("../shop", r"there is no repository .*/project/shop"),
        ("../evals", r"the folder .*/project/evals is not a git repository"),
    ],
)
def test_what_is_not_a_repository_is_an_error_before_the_run(place: Path, written: str, said: str) -> None:
    write_project(place / "project", written)
    with pytest.raises(ConfigError, match=said):
        plan_of(place / "project", **OPTIONS)


def test_a_missing_ref_and_a_broken_repository_are_errors_before_the_run(place: Path) -> None:
    repository = make_repository(place / "project" / "shop")
    write_project(place / "project", str(repository))
    git(repository, "tag", "-d", "v1")
    plan = plan_of(place / "project", **OPTIONS)
    with pytest.raises(ConfigError, match=rf"the repository {repository} cannot be cloned: .*no commit called 'v1'"):
        check_packable(plan)
    (repository / ".git" / "HEAD").unlink()
    with pytest.raises(ConfigError, match=rf"the repository {repository} cannot be cloned: fatal: "):
        read_states(repositories_of(plan))


def test_repositories_count_towards_the_limit(place: Path) -> None:
    repository = make_repository(place / "shop")
    (repository / "large.bin").write_bytes(os.urandom(2_000_000))
    commit(repository, "large")
    write_project(place / "project", str(repository))
    with (place / "project" / "large.bin").open("wb") as file:
        file.truncate(MAX_BYTES - 1_000_000)
    plan = plan_of(place / "project", allow_paths=str(place), **OPTIONS)
    with pytest.raises(ConfigError, match=r"with the repositories of its workspaces has 201 MB, and at most 200 MB"):
        check_packable(plan)


def test_only_what_workspaces_need_is_sent(place: Path) -> None:
    repository = make_repository(place / "shop")
    git(repository, "remote", "add", "origin", "https://user:sk-a-token@host/shop.git")
    (repository / "notes.txt").write_text("never committed")
    write_project(place / "project", str(repository))
    packed = pack(plan_of(place / "project", allow_paths=str(place), **OPTIONS))
    assert b"sk-a-token" not in packed.tar
    (copy,) = (unpack(packed) / ".agentv" / "repositories").iterdir()
    assert sorted(git(copy, "log", "--all", "--format=%s").split()) == ["next", "one", "two"]
    assert git(copy, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").count("commit") == 3


def test_the_workspace_of_a_late_case_is_sent(place: Path) -> None:
    repository = make_repository(place / "project" / "shop")
    write_project(place / "project", str(repository))
    cases = "".join(f"  - {{id: case-{number}, input: a, expected_outcome: A}}\n" for number in range(1_000))
    late = "  - {id: late, input: a, expected_outcome: A, execution: {workspace: {git: GIT, ref: next}}}\n"
    suite = (SUITE.split("  -", maxsplit=1)[0] + cases + late).replace("GIT", str(repository))
    (place / "project" / "evals" / "suite.yaml").write_text(suite)
    (place / "project" / "evals" / "target.yaml").unlink()
    found = repositories_of(plan_of(place / "project", **OPTIONS))
    assert {each.ref for each in found} == {"HEAD", "next"}


def test_a_workspace_late_in_a_stream_is_an_error_of_its_row(place: Path) -> None:
    """A stream is not read to its end before the run."""
    repository = make_repository(place / "project" / "shop")
    write_project(place / "project", str(repository))
    for name in ("suite.yaml", "target.yaml"):
        (place / "project" / "evals" / name).unlink()
    (place / "project" / "agent.py").write_text("answer = lambda request: 'A'")
    evals = place / "project" / "evals"
    (evals / "stream.yaml").write_text(
        "execution: {target: agent, evaluators: [{name: has, type: contains, value: A}], workers: 8}\n"
    )
    workspace = {"git": str(repository), "ref": "next"}
    messages = [{"role": "user", "content": "a"}]
    cases: list[dict[str, object]] = [
        {"id": f"case-{n}", "input_messages": messages, "expected_outcome": "A"} for n in range(1_000)
    ]
    cases.append({**cases[0], "id": "late", "execution": {"workspace": workspace}})
    (evals / "stream.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    report = asyncio.run(run_on(place / "project", ProcessMachines(1), **OPTIONS))
    (failed,) = [row for row in stored_rows(report) if row.error is not None]
    assert (failed.eval_id, failed.error and failed.error.kind) == ("late", "config_error")
    assert f"workspace: {repository} was not sent to the node" in str(failed.error)


def test_a_kept_workspace_keeps_the_repository_that_it_was_cloned_from(place: Path) -> None:
    repository = make_repository(place / "shop")
    write_project(place / "project", str(repository))
    (place / "project" / "evals" / "target.yaml").unlink()
    suite = place / "project" / "evals" / "suite.yaml"
    suite.write_text(SUITE.split("  - {id: of-case", maxsplit=1)[0].replace("GIT}", f"{repository}, keep: always}}"))
    asyncio.run(run_on(place / "project", ProcessMachines(1), allow_paths=str(place), **OPTIONS))
    (kept,) = (place / "temporary").glob("agentv-*-project-*/.agentv/workspaces/*")
    assert git(kept, "log", "--format=%s") == "two\none"
