"""Runs in folders of network file systems that lack locks or other calls: they work, or report what is missing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "fixtures" / "network_folder.c"
COMPILER = shutil.which("cc")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or COMPILER is None, reason="needs Linux (LD_PRELOAD) and a C compiler (cc)"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("library") / "network_folder.so"
    subprocess.run([COMPILER or "", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True, timeout=60)
    return made


def call(folder: Path, library: Path, fault: str, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "LD_PRELOAD": str(library), "FAULT": fault}
    command = [sys.executable, "-m", "agentv", *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=60)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    target = {"name": "t", "provider": "mock", "response": "hi"}
    (tmp_path / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    check = {"name": "same", "type": "equals", "value": "hi"}
    message = {"role": "user", "content": "hi"}
    case = {"id": "a", "input_messages": [message], "expected_outcome": "x", "evaluators": [check]}
    (tmp_path / "s.yaml").write_text(json.dumps({"evalcases": [case]}))
    return tmp_path


def test_a_folder_that_cannot_be_synced_holds_runs(project: Path, library: Path) -> None:
    code, said = call(project, library, "no sync of folders", "run", "s.yaml", "--target", "t")
    assert code == 0, said
    assert call(project, library, "no sync of folders", "show", "latest")[0] == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("no locks", "cannot be locked: No locks available; its folder must be on a file system with locks"),
        ("stale names", "cannot write run.json in"),
    ],
)
def test_a_run_that_cannot_be_stored_reports_the_reason(fault: str, reason: str, project: Path, library: Path) -> None:
    code, said = call(project, library, fault, "run", "s.yaml", "--target", "t")
    assert (code, reason in said) == (3, True), said
    assert "Traceback" not in said
    assert "another process" not in said
