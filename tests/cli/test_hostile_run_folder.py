"""A run folder that is damaged or was tampered with: one clear error, nothing hangs, nothing is cut."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.carrying import Project

COMMANDS = (
    "resume latest",
    "retry --case a",
    "rescore latest",
    "show latest",
    "runs list",
    "runs prune --keep 0 --yes",
)
FILES = ("events.jsonl", "cases.jsonl", "answers.jsonl", "results.jsonl", "lock")


def spoiled(project: Project, name: str, spoil: Callable[[Path], object]) -> Path:
    project.call("run", "suite.yaml", "--display", "none")
    path = project.run / name
    path.unlink()
    spoil(path)
    return path


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(project: Project, name: str) -> None:
    spoiled(project, name, os.mkfifo)
    said = {command: project.call(*command.split()) for command in COMMANDS}
    assert all(code in (0, 3, 4) for code, _ in said.values()), said
    code, text = said["resume latest"]
    assert (code, "not a regular file" in text) == (3, True)


@pytest.mark.parametrize("name", FILES)
def test_a_link_in_place_of_a_file_leaves_the_other_file_as_it_is(project: Project, name: str) -> None:
    precious = project.folder / "precious"
    precious.write_text("a line\nand one that has no end")
    spoiled(project, name, lambda path: path.symlink_to(precious))
    for command in ("resume latest", "retry --case a", "rescore latest", "runs tag latest x"):
        assert project.call(*command.split())[0] in (0, 3, 4)
    if name != "events.jsonl":  # which is read first, and has no event in it
        assert "symbolic links are not allowed" in project.call("resume", "latest")[1]
    assert precious.read_text() == "a line\nand one that has no end"


@pytest.mark.parametrize("command", ["resume latest", "retry --case a", "rescore latest"])
def test_a_line_of_cases_that_cannot_be_read_is_named(project: Project, command: str) -> None:
    spoiled(project, "cases.jsonl", lambda path: path.write_bytes(b"\xff\xfe{{\n"))
    code, said = project.call(*command.split())
    assert (code, f"{project.run}/cases.jsonl:1: " in said) == (3, True), said
    assert project.stored("events.jsonl")[-1]["state"] == "finished"


@pytest.mark.parametrize("name", ["events.jsonl", "cases.jsonl", "answers.jsonl", "results.jsonl"])
def test_a_line_that_is_nested_too_deeply_is_named_without_a_word_of_python(project: Project, name: str) -> None:
    nested = b'{"slot": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n"
    spoiled(project, name, lambda path: path.write_bytes(nested))
    said = [project.call(*command.split())[1] for command in (*COMMANDS[:-1], "report latest", "show latest *")]
    assert any(f"{name}:1: JSON is nested too deeply" in each for each in said), said
    assert not any("recursion" in each for each in said), said


@pytest.mark.parametrize("number", [10**14, 2**63, 10**30, -1, -(10**30)])
def test_a_result_that_refers_to_no_stored_answer_takes_no_memory(project: Project, number: int) -> None:
    project.call("run", "suite.yaml", "--display", "none")
    path = project.run / "results.jsonl"
    record = json.loads(path.read_text().splitlines()[0])
    record["answer_ref"]["seq"] = number
    path.write_text(json.dumps(record) + "\n")
    for command in ("resume latest", "rescore latest", "report latest", "show latest *", "report latest --json"):
        code, said = project.call(*command.split())
        assert code in (0, 1, 3), (command, code, said)


OPTIONS = [
    ("workers", "many", "workers must be a whole number or 'auto', not 'many'"),
    ("trials", 1.5, "trials must be a whole number, not 1.5"),
    ("workers", True, "workers must be a whole number or 'auto', not True"),
    ("shard", 5, "shard must be a string, not 5"),
    ("case_globs", [1, None], "case_globs must be a list of strings, not [1, None]"),
    ("targets", 7, "targets must be a list of strings, not 7"),
    ("targets_file", 7, "targets_file must be a string, not 7"),
    ("expression", 7, "expression must be a string, not 7"),
    ("seed", [1], "seed must be a whole number, not [1]"),
    ("budget_usd", "x", "budget_usd must be a number, not 'x'"),
    ("baseline", 7, "baseline must be a string, not 7"),
    ("ray_address", 7, "ray_address must be a string, not 7"),
    ("shared_path", 7, "shared_path must be a string, not 7"),
    ("max_errors", None, "max_errors must be a whole number, not None"),
    ("seed", None, "seed must be a whole number, not None"),
    ("no_such", 1, "unknown option 'no_such'"),
]


@pytest.mark.parametrize(("name", "value", "message"), OPTIONS)
def test_options_of_a_run_that_are_none_are_named(project: Project, name: str, value: object, message: str) -> None:
    project.call("run", "suite.yaml", "--display", "none")
    path = project.run / "run.json"
    record = json.loads(path.read_text())
    record["plan"]["options"] = {name: value}
    path.write_text(json.dumps(record))
    code, said = project.call("resume", "latest")
    assert (code, f"the options of this run cannot be read: {message}" in said) == (4, True), said


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("folder", "a\0b", "records an invalid folder"),
        ("folder", "x" * 10_000, "records an invalid folder"),
        ("folder", 9, "does not record its eval files"),
        ("store", "mysql://x", "unknown store 'mysql'"),
        ("store", "***", "--store none"),
    ],
)
def test_an_invalid_plan_is_reported(project: Project, key: str, value: object, message: str) -> None:
    project.call("run", "suite.yaml", "--display", "none")
    path = project.run / "run.json"
    record = json.loads(path.read_text())
    record["plan"][key] = value
    path.write_text(json.dumps(record))
    code, said = project.call("resume", "latest")
    assert (code, message in said) == (4, True), said


def test_a_run_of_a_newer_agentv_is_named_with_what_to_do(project: Project) -> None:
    project.call("run", "suite.yaml", "--display", "none")
    path = project.run / "run.json"
    path.write_text(path.read_text().replace("agentv-run-1", "agentv-run-2"))
    for command in ("resume latest", "rescore latest", "show latest", "runs tag latest x"):
        code, said = project.call(*command.split())
        assert (code, f"{path}: schema 'agentv-run-2' is newer" in said, "upgrade agentv" in said) == (3, True, True)
    code, said = project.call("runs", "list")
    assert (code, "unreadable" in said, "upgrade agentv" in said) == (0, True, True)
