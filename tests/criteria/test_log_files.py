"""The files that a command on logs reads, of those that were named, and what it reports of the others."""

import gzip
from pathlib import Path

import pytest

from agentv.engine.logs.files import LogFiles, log_files
from agentv.types.errors import ConfigError

LINE = '{"id": "1", "prompt": "Where?", "response": "Here."}\n'


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()


def write(*names: str, text: str = LINE) -> None:
    for name in names:
        Path("logs", name).write_text(text)


def notes_of(found: LogFiles) -> list[str]:
    return [note.text for note in found.notes]


@pytest.mark.parametrize(
    "files",
    [
        ["logs/a.jsonl", "logs/a.jsonl"],
        ["logs/a.jsonl", "logs"],
        ["logs", "logs/a.jsonl"],
        ["logs", "./logs"],
        ["logs/a.jsonl", "same.jsonl"],
    ],
)
def test_a_file_that_is_named_twice_is_read_once(files: list[str]) -> None:
    write("a.jsonl")
    Path("same.jsonl").symlink_to("logs/a.jsonl")
    found = log_files(files)
    assert [Path(path).resolve() for path in found.paths] == [Path("logs/a.jsonl").resolve()]
    [note] = notes_of(found)
    assert note.startswith("read once, although named more than once: 1 file (")


def test_standard_input_and_equal_files_are_not_the_same() -> None:
    write("a.jsonl", "b.jsonl")
    assert log_files(["-", "logs/a.jsonl", "-", "logs/b.jsonl"]) == LogFiles(("-", "logs/a.jsonl", "-", "logs/b.jsonl"))


def test_rotated_logs_of_a_folder_are_read() -> None:
    names = ["f.jsonl", "f.jsonl.1", "f.jsonl-20261201", "f.2026-12-01.jsonl", "f.ndjson.2026-12-01T10:00"]
    write(*names)
    Path("logs", "f.jsonl.2.gz").write_bytes(gzip.compress(LINE.encode()))
    found = log_files(["logs"])
    assert sorted(found.paths) == sorted(f"logs/{name}" for name in [*names, "f.jsonl.2.gz"])
    assert found.notes == ()


def test_files_of_a_folder_that_may_be_logs_but_are_not_read_are_noted() -> None:
    write("a.jsonl", "e.log", "t.txt", "x.csv", "old.jsonl.bak")
    write("README.md", "plain.log", ".hidden.log", text="Nothing to read\n")
    found = log_files(["logs"])
    assert found.paths == ("logs/a.jsonl",)
    [note] = notes_of(found)
    assert note == (
        "not read, because their names are not those of logs: 4 files (logs/e.log, logs/old.jsonl.bak, logs/t.txt and "
        "1 more); to read such a log, name it instead of its folder"
    )
    named = log_files(["logs", "logs/e.log", "logs/old.jsonl.bak", "logs/t.txt", "logs/x.csv"])
    assert (len(named.paths), named.notes) == (5, ())


def test_a_folder_with_nothing_to_read_is_an_error_that_names_other_files() -> None:
    write("e.log")
    with pytest.raises(ConfigError, match=r"logs: is a folder without .* and without logs, .*; not read: logs/e\.log"):
        log_files(["logs"])


def test_empty_logs_among_others_are_noted() -> None:
    write("a.jsonl")
    write("b.jsonl", text="\n")
    write("c.jsonl", text="")
    assert notes_of(log_files(["logs"])) == ["empty: 2 files (logs/b.jsonl, logs/c.jsonl)"]
    assert notes_of(log_files(["logs/c.jsonl"])) == []  # reported as one without lines
