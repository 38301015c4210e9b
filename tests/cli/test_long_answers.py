"""Answers of many megabytes take a small multiple of their size."""

import json
from pathlib import Path

import pytest
from tests.support.peak import Measured, measured

MEGABYTES = 20
AGENT = f"""
def ascii(request):
    return "0123456789 abcde\\n" * ({MEGABYTES}_000_000 // 17)

def wide(request):
    return "0123456789 abc✓\\n" * ({MEGABYTES}_000_000 // 18)

def short(request):
    return "abc"
"""
CASE = "  - {{id: c{number}, input: hi {number}, evaluators: [{{name: has, type: contains, value: {value}}}]}}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "agent.py").write_text(AGENT)
    targets = [
        {"name": name, "provider": "python", "callable": f"agent.py:{name}"} for name in ("ascii", "wide", "short")
    ]
    (tmp_path / "targets.yaml").write_text(json.dumps({"targets": targets}))
    return tmp_path


def run(project: Path, target: str, *, cases: int = 1, value: str = "abc", workers: int = 1) -> Measured:
    listed = "\n".join(CASE.format(number=number, value=value) for number in range(cases))
    (project / "suite.yaml").write_text(f"cases:\n{listed}\n")
    options = ("--target", target, "--workers", str(workers), "--display", "none", "--gate", "none")
    return measured("run", "suite.yaml", *options, cwd=project)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "bytes_per_character"), [("ascii", 1), ("wide", 2)])
def test_a_long_answer_takes_a_small_multiple_of_its_size(project: Path, target: str, bytes_per_character: int) -> None:
    least = run(project, "short").megabytes
    # The text itself, its bytes in UTF-8, and two copies at a time.
    most = MEGABYTES * (bytes_per_character + 3)
    for value in ("abc", "missing"):
        used = run(project, target, value=value)
        assert used.code == 0, used.output
        assert used.megabytes - least < most, used


@pytest.mark.slow
def test_long_answers_that_fail_do_not_stay_in_memory(project: Path) -> None:
    two, five = (run(project, "wide", cases=cases, value="missing") for cases in (2, 5))
    assert (two.code, five.code) == (0, 0), five.output
    assert five.megabytes - two.megabytes < MEGABYTES * 3  # of 165 MB for three more answers
