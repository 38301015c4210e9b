"""The stored runs of tests/fixtures/runs give the outputs that stand in tests/fixtures/runs/expected, byte for byte.

`AGENTV_UPDATE_GOLDEN=1 ./run pytest tests/test_golden_runs.py` writes the expected outputs anew. That is right for a
deliberate change of words, which shows up below `text/`; see tests/fixtures/runs/README.md.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from agentv.cli.main import main

RUNS = Path(__file__).parent / "fixtures" / "runs"
EXPECTED = RUNS / "expected"
NAMES = sorted(path.parent.name for path in RUNS.glob("*/run.json"))
IS_UPDATE = os.environ.get("AGENTV_UPDATE_GOLDEN") == "1"


@dataclass(frozen=True)
class Output:
    """The output of a command for some runs: `data` for programs, or `text` for users."""

    kind: Literal["data", "text"]
    file: str
    """The name of the expected output."""
    arguments: tuple[str, ...]
    """The arguments of `agentv`. RUN is replaced by the first run, OTHER by the second."""
    runs: tuple[str, ...]
    exit_code: int = 0
    is_file: bool = False
    """The command writes the output into the working folder; what it prints are messages."""

    def expected(self, kind: str, file: str) -> Path:
        return EXPECTED / "-".join(self.runs) / kind / file

    def __str__(self) -> str:
        return f"{'-'.join(self.runs)}-{self.file}"


def data(file: str, *arguments: str, runs: tuple[str, ...], exit_code: int = 0, is_file: bool = False) -> Output:
    return Output("data", file, arguments, runs, exit_code, is_file)


def text(file: str, *arguments: str, runs: tuple[str, ...], exit_code: int = 0) -> Output:
    return Output("text", file, arguments, runs, exit_code)


REPORT_EXIT_CODES = {
    "batches": 1,
    "budget": 1,
    "changed": 1,
    "errors": 3,
    "evaluator-errors": 3,
    "first-version": 1,
    "judges": 1,
    "killed": 130,
    "labels": 1,
    "merged": 0,
    "plain": 1,
    "resumed": 0,
    "shard-1": 0,
    "shard-2": 0,
    "trials": 1,
    "workspaces": 1,
}
BRIEF = ("changed", "resumed", "shard-1", "shard-2")
"""Runs for a comparison or a merge, which add little of their own."""
PAGES = ("first-version", "judges", "trials")
"""Runs whose HTML page is compared: pages are large."""
LABELLED = ("labels",)
WITHOUT_SCORES = ("errors",)
PAIRS = (("plain", "changed"), ("labels", "budget"), ("shard-1", "merged"), ("killed", "merged"))
FALLING_PAIRS = (("plain", "changed"), ("labels", "budget"))
"""Pairs whose mean falls, which `compare --format agentv-ts` reports by its exit code."""


def outputs_of_run(name: str) -> list[Output]:
    runs = (name,)
    outputs = [
        data("report.json", "report", "RUN", "--json", runs=runs),
        data("report.jsonl", "report", "RUN", "-o", "-", "--format", "jsonl", runs=runs),
        data("list.json", "runs", "list", "--json", runs=runs),
        text("report.txt", "report", "RUN", "--exit-code", runs=runs, exit_code=REPORT_EXIT_CODES[name]),
        text("show.txt", "show", "RUN", runs=runs),
        text("list.txt", "runs", "list", runs=runs),
    ]
    return outputs if name in BRIEF else outputs + more_outputs_of_run(name)


def more_outputs_of_run(name: str) -> list[Output]:
    runs = (name,)
    outputs = [
        data(f"report.{ending}", "report", "RUN", "-o", "-", "--format", ending, runs=runs)
        for ending in ("csv", "junit.xml", "sarif", "yaml")
    ]
    outputs += [
        data("report-with-traces.jsonl", "report", "RUN", "-o", "-", "--include-trace", runs=runs),
        data("show.json", "show", "RUN", "--json", runs=runs),
        data("cases.json", "show", "RUN", "*", "--json", runs=runs),
        data("groups.json", "show", "RUN", "--by", "target", "--json", runs=runs),
        data("trend.json", "trend", "--runs", "--json", runs=runs),
        baseline_of(name),
        text("report.md", "report", "RUN", "-o", "-", "--format", "md", runs=runs),
        text("cases.txt", "show", "RUN", "*", runs=runs),
        text("groups.txt", "show", "RUN", "--by", "target", runs=runs),
    ]
    if name in PAGES:
        outputs.append(text("report.html", "report", "RUN", "-o", "-", "--format", "html", runs=runs))
    if name in LABELLED:
        outputs.append(data("calibration.json", "judge", "calibrate", "RUN", "--json", "--no-save", runs=runs))
        outputs.append(text("calibration.txt", "judge", "calibrate", "RUN", "--no-save", runs=runs))
    return outputs


def baseline_of(name: str) -> Output:
    saved = ("baseline", "save", "RUN")
    if name in WITHOUT_SCORES:
        return text("baseline.txt", *saved, runs=(name,), exit_code=4)
    return data("baseline.jsonl", *saved, runs=(name,), is_file=True)


def outputs_of_pair(runs: tuple[str, ...]) -> list[Output]:
    return [
        data("compare.json", "compare", "RUN", "OTHER", "--json", runs=runs),
        data(
            "compare-agentv.json",
            *("compare", "RUN", "OTHER", "--format", "agentv-ts"),
            runs=runs,
            exit_code=int(runs in FALLING_PAIRS),
        ),
        text("compare.txt", "compare", "RUN", "OTHER", runs=runs),
        text("compare.md", "compare", "RUN", "OTHER", "--format", "markdown", runs=runs),
    ]


TARGETS_OF_A_RUN = [
    data("targets.json", "compare", "RUN", "--targets", "steady", "flaky", "--json", runs=("trials",)),
    text("targets.txt", "compare", "RUN", "--targets", "steady", "flaky", runs=("trials",)),
]
OUTPUTS = [
    *(output for name in NAMES for output in outputs_of_run(name)),
    *(output for pair in PAIRS for output in outputs_of_pair(pair)),
    *TARGETS_OF_A_RUN,
]


def place_run(name: str, project: Path) -> str:
    """Copy a stored run into a project; return its id.

    The lock of a killed run stays behind: the process that it names may be another one on this machine.
    """
    run_id: str = json.loads((RUNS / name / "run.json").read_bytes())["run_id"]
    shutil.copytree(RUNS / name, project / ".agentv" / "runs" / run_id, ignore=shutil.ignore_patterns("lock"))
    return run_id


def check_expected(path: Path, printed: bytes) -> None:
    """Compare an output with the expected one. An output that is expected to be empty has no file."""
    if IS_UPDATE:
        path.unlink(missing_ok=True)
        if printed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(printed)
    assert printed == (path.read_bytes() if path.exists() else b"")


def without_folder(printed: bytes, folder: Path) -> bytes:
    return printed.replace(str(folder).encode(), b"/project")


@pytest.mark.parametrize("output", OUTPUTS, ids=str)
def test_stored_run_prints_what_it_printed(
    output: Output,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    ids = [place_run(name, tmp_path) for name in output.runs]
    names = dict(zip(("RUN", "OTHER"), ids, strict=False))
    monkeypatch.chdir(tmp_path)
    for variable in ("FORCE_COLOR", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "AGENTV_STORE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SystemExit) as left:
        main([names.get(argument, argument) for argument in output.arguments])
    printed, messages = capfdbinary.readouterr()
    if output.is_file:
        printed, messages = (tmp_path / output.file).read_bytes(), printed + messages
    assert (left.value.code or 0) == output.exit_code
    check_expected(output.expected(output.kind, output.file), without_folder(printed, tmp_path))
    check_expected(output.expected("text", f"{output.file}.messages"), without_folder(messages, tmp_path))


@pytest.mark.skipif(IS_UPDATE, reason="the expected outputs are being written")
def test_every_expected_output_is_compared() -> None:
    compared = {output.expected(output.kind, output.file) for output in OUTPUTS}
    compared |= {output.expected("text", f"{output.file}.messages") for output in OUTPUTS}
    stored = {path for path in EXPECTED.rglob("*") if path.is_file()}
    assert stored - compared == set()
    assert len(stored) >= len(OUTPUTS)
