"""Standard output that is full, closed or no longer read: nothing is lost without a word, and no traceback is shown."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
evalcases:
  - {id: first, expected_outcome: x, input_messages: [{role: user, content: hi}]}
  - {id: second, expected_outcome: x, input_messages: [{role: user, content: hi}]}
execution:
  evaluators: [{name: greets, type: contains, value: VALUE}]
"""
TARGETS = (
    "targets: [{name: mock, provider: mock, response: hi}, {name: loud, provider: python, callable: 'loud.py:answer'}]"
)
LOUD = """
import os, subprocess, sys
def answer(request):
    print("printed by the target")
    os.write(1, b"written by the target\\n")
    subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
    return "hi"
"""
AGENTV = f"{sys.executable} -m agentv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE.replace("VALUE", "hi"))
    (tmp_path / "failing.yaml").write_text(SUITE.replace("VALUE", "bye"))
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "loud.py").write_text(LOUD)
    return tmp_path


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, capture_output=True, text=True, check=False
    )


def stored_rows(folder: Path) -> list[str]:
    (run,) = (folder / ".agentv" / "runs").iterdir()
    return [json.loads(line)["slot"]["eval_id"] for line in (run / "results.jsonl").read_text().splitlines()]


RUN = f"{AGENTV} run suite.yaml --target mock"


@pytest.mark.parametrize(
    "options", ["-o - --display none", "-o - --display plain", "--display plain", "--json", "-o x.jsonl"]
)
def test_output_that_a_full_disk_loses_is_an_error_and_the_run_is_kept(folder: Path, options: str) -> None:
    ended = shell(folder, f"{RUN} {options} >/dev/full")
    assert ended.returncode == 3
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    assert stored_rows(folder) == ["first", "second"]


def test_a_file_lost_by_a_full_disk_is_reported_after_the_verdict(folder: Path) -> None:
    (folder / "log").symlink_to("/dev/full")
    ended = shell(folder, f"{RUN} --log-file log")
    assert ended.returncode == 3
    assert "PASS: 2 of 2 judged results passed (100 %). Exit code 0." in ended.stdout
    assert ended.stderr == "error: --log-file log: cannot be written: No space left on device. Exit code 3.\n"


def test_an_export_whose_folder_disappears_is_reported_after_the_verdict(folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import shutil\ndef answer(request):\n    shutil.rmtree('out', True)\n    return 'hi'"
    )
    ended = shell(folder, f"mkdir out; {AGENTV} run suite.yaml --target loud -o out/rows.jsonl")
    assert ended.returncode == 3
    assert "PASS: 2 of 2" in ended.stdout
    assert "Wrote" not in ended.stdout
    assert ended.stderr == "error: -o out/rows.jsonl: cannot be written: No such file or directory. Exit code 3.\n"


def test_a_failed_gate_stays_the_verdict_when_an_export_is_lost_too(folder: Path) -> None:
    ended = shell(folder, f"{AGENTV} run failing.yaml --target mock -o - --display none >/dev/full")
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr


@pytest.mark.parametrize(("suite", "code"), [("suite", 0), ("failing", 1)])
@pytest.mark.parametrize("output", [">&-", "| (exec <&-; true)"])
@pytest.mark.parametrize("display", ["plain", "json", "none"])
def test_a_closed_screen_does_not_change_the_verdict(
    folder: Path, display: str, output: str, suite: str, code: int
) -> None:
    ended = shell(folder, f"{AGENTV} run {suite}.yaml --target mock --display {display} {output}")
    assert ended.returncode == code
    verdict = r"(PASS|FAIL): \d of 2 judged results passed \(\d+ %\)\. Exit code \d\.\n" if display == "none" else ""
    assert re.fullmatch(verdict, ended.stderr)
    assert stored_rows(folder) == ["first", "second"]


@pytest.mark.parametrize("output", [">&-", "| (exec <&-; true)"])
def test_an_export_to_a_closed_standard_output_is_lost(folder: Path, output: str) -> None:
    ended = shell(folder, f"{RUN} -o - --display none {output}")
    assert ended.returncode == 3
    assert ended.stderr.startswith(
        "PASS: 2 of 2 judged results passed (100 %). Exit code 0.\nerror: -o -: cannot be written: "
    )
    assert stored_rows(folder) == ["first", "second"]


@pytest.mark.parametrize("command", ["show", "show latest first", "show --json", "runs list", "doctor", "--help"])
@pytest.mark.parametrize("output", [">&-", "| (exec <&-; true)"])
def test_commands_end_quietly_when_the_pipe_is_closed(folder: Path, command: str, output: str) -> None:
    shell(folder, RUN)
    ended = shell(folder, f"{AGENTV} {command} {output}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_check_keeps_its_exit_code_when_the_pipe_is_closed(folder: Path) -> None:
    (folder / "suite.yaml").write_text("evalcases: 3")
    ended = shell(folder, f"{AGENTV} check suite.yaml | (exec <&-; true)")
    assert (ended.returncode, ended.stderr) == (4, "")


def test_a_command_whose_output_is_lost_on_a_full_disk_says_so(folder: Path) -> None:
    ended = shell(folder, f"{AGENTV} doctor >/dev/full")
    assert ended.returncode == 3
    assert ended.stderr == "error: standard output cannot be written: No space left on device. Exit code 3.\n"


def test_a_closed_standard_error_is_no_hindrance(folder: Path) -> None:
    ended = shell(folder, f"{RUN} -o - 2>&- <&-")
    assert ended.returncode == 0
    assert [json.loads(line)["eval_id"] for line in ended.stdout.splitlines()] == ["first", "second"]


@pytest.mark.parametrize("options", ["-o -", "--json"])
def test_what_the_users_code_prints_stays_out_of_what_programs_read(folder: Path, options: str) -> None:
    (folder / ".agentv.yaml").write_text("plugins: [plugin.py]")
    (folder / "plugin.py").write_text("print('printed by a plug-in')")
    ended = shell(folder, f"{AGENTV} run suite.yaml --target loud {options}")
    assert ended.returncode == 0
    assert all(isinstance(json.loads(line), dict) for line in ended.stdout.splitlines())
    for said in ("printed by a plug-in", "printed by the target", "written by the target", "printed by a child"):
        assert said in ended.stderr


def test_files_are_written_where_the_command_was_started(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / ".agentv.yaml").write_text("plugins: [plugin.py]")
    (folder / "plugin.py").write_text("import os; os.chdir('elsewhere')")
    ended = shell(folder, f"{RUN} -o rows.jsonl --log-file log.jsonl")
    assert ended.returncode == 0, ended.stderr
    assert (folder / "rows.jsonl").exists()
    assert (folder / "log.jsonl").exists()
    assert list((folder / "elsewhere").iterdir()) == []


def test_an_empty_run_leaves_no_folder_and_does_not_become_latest(folder: Path) -> None:
    shell(folder, RUN)
    ended = shell(folder, f"{RUN} --case nothing")
    assert ended.returncode == 5
    assert ended.stdout.endswith("NOTHING SELECTED: no case matches --case 'nothing' (2 loaded). Exit code 5.\n")
    assert stored_rows(folder) == ["first", "second"]


def test_a_run_whose_disk_is_full_is_listed_as_failed(folder: Path) -> None:
    (folder / "loud.py").write_text("def answer(request):\n    return 'hi' * 20_000\n")
    ended = shell(folder, f"ulimit -f 20; {AGENTV} run suite.yaml --target loud")
    assert ended.returncode == 3
    assert "INCOMPLETE: store_error: cannot write answers.jsonl in " in ended.stdout
    assert ended.stdout.endswith("then continue with: agentv resume. Exit code 3.\n")
    assert shell(folder, f"{AGENTV} runs list").stdout.split()[1] == "failed"


def test_an_unwritable_run_folder_is_reported_with_a_remedy(folder: Path) -> None:
    (folder / ".agentv").mkdir()
    (folder / ".agentv" / "runs").write_text("a file")
    ended = shell(folder, RUN)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == (
        f"error: cannot open a run in {folder.resolve()}/.agentv/runs: Not a directory. Runs are stored in the nearest "
        ".agentv folder; make it writable, or create one in your working directory: mkdir .agentv\n"
    )


def test_a_plug_in_that_cannot_be_imported_is_a_wrong_file_and_named(folder: Path) -> None:
    (folder / ".agentv.yaml").write_text("plugins: [plugin.py]")
    (folder / "plugin.py").write_text("import not_there_at_all")
    ended = shell(folder, RUN)
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "plugin.py" in ended.stderr
    assert "No module named 'not_there_at_all'" in ended.stderr


def test_a_target_that_cannot_be_imported_is_reported_by_its_file(folder: Path) -> None:
    (folder / "loud.py").write_text("import not_there_at_all")
    ended = shell(folder, f"{AGENTV} run suite.yaml --target loud")
    assert ended.returncode == 4
    assert ended.stderr.startswith("error: cannot load 'loud.py': ModuleNotFoundError")
    assert f"; packages must be installed for {sys.executable}, which runs agentv" in ended.stderr
