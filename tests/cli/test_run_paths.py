"""The eval files that `agentv run` finds, and its work before the first call."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.carrying import Project

from agentv.cli.running.run import exit_on_interrupt


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize("has_evals", [True, False])
def test_a_folder_without_eval_files_stands_for_none_and_not_for_evals(
    project: Project, has_evals: bool, options: tuple[str, ...]
) -> None:
    (project.folder / "empty").mkdir()
    if has_evals:
        (project.folder / "evals").mkdir()
        project.suite = "evals/suite.yaml"
    code, said = project.call("run", "empty", *options)
    if options:
        assert (code, "results planned: 0" in said) == (0, True)
    else:
        assert (code, "NOTHING SELECTED" in said) == (5, True)
    assert project.calls() == []


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("paths", [("",), ("suite.yaml", "")])
def test_an_empty_path_is_refused_and_does_not_stand_for_the_folder(
    project: Project, command: str, paths: tuple[str, ...]
) -> None:
    code, said = project.call(command, *paths)
    assert (code, project.calls()) == (4, [])
    assert "error: a path is empty, as an unset variable of a shell is; " in said


@pytest.mark.parametrize("has_case_target", [False, True])
def test_a_target_that_is_named_twice_answers_each_case_once(project: Project, has_case_target: bool) -> None:
    targets = project.folder / "targets.yaml"
    targets.write_text(targets.read_text().replace("name: t", "name: default"))
    arguments = ["suite.yaml", "--target", "default", "--target", "default"]
    if has_case_target:  # the suite's target is the default one, which its case names
        arguments = ["named.yaml"]
        file = project.folder / "named.yaml"
        file.write_text(f"""
evaluators: [{project.evaluators}]
evalcases: [{{id: a, input: question a, execution: {{targets: [default]}}}}, {{id: b, input: b}}, {{id: c, input: c}}]
""")
    code, said = project.call("run", *arguments)
    assert (code, sorted(project.calls())) == (0, ["a", "b", "c"]), said
    assert said.splitlines()[-1].startswith("PASS: 3 of 3 judged results passed")


def commit(folder: Path, name: str) -> str:
    """Make a repository of a folder, and return its commit."""
    who = ("-c", f"user.name={name}", "-c", f"user.email={name}@host.example")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", name)):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_state_of_git_is_that_of_a_linked_eval_files_repository(project: Project) -> None:
    shared, link = project.folder / "shared", project.folder / "mine" / "suite.yaml"
    for folder in (shared, link.parent):
        folder.mkdir()
    project.suite = "shared/suite.yaml"
    project.write()
    (link.parent / "notes").write_text("mine")
    link.symlink_to(shared / "suite.yaml")
    expected = commit(shared, "shared")
    assert commit(link.parent, "mine") != expected
    project.call("run", "mine/suite.yaml", "--targets", "targets.yaml")
    assert project.calls() != []
    assert json.loads((project.run / "run.json").read_text())["git"]["commit"] == expected


INTERRUPTED = """
import os, signal, sys
from agentv.cli.running.run import exit_on_interrupt
with exit_on_interrupt():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    finally:
        print("unwound")
"""


def test_an_interrupt_before_the_run_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_who_ignores_interrupts_goes_on_and_afterwards_all_is_as_before() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with exit_on_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with exit_on_interrupt():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
