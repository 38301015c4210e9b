"""The guide for plug-ins, run in an environment of its own: our wheel, and what the guide installs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.test_readme import FRESH, ROOT, blocks_of, commands_of, normalised

LANGUAGES = {"console", "toml"}


def uv(*arguments: str) -> None:
    program = os.environ.get("UV") or shutil.which("uv")
    assert program is not None, "this test needs uv"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the variables of an environment with only the wheel; its `pip` is uv's, which is faster."""
    folder = tmp_path / "env"
    uv("venv", "--quiet", str(folder))
    uv("build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "dist"), str(ROOT))
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    uv("pip", "install", "--quiet", "--python", str(folder), str(wheel))
    pip = folder / "bin" / "pip"
    program = os.environ.get("UV") or shutil.which("uv")
    pip.write_text(f'#!/bin/sh\nexec {program} pip "$@" --quiet --python {folder}\n')
    pip.chmod(0o755)
    passed = ("HOME", "TMPDIR", "UV_SYSTEM_CERTS", "UV_CACHE_DIR", "UV_OFFLINE", "UV_INDEX_URL", "SSL_CERT_FILE")
    kept = {name: os.environ[name] for name in passed if name in os.environ}
    return {**kept, "PATH": f"{folder / 'bin'}:/usr/bin:/bin", "LANG": "C.UTF-8", "COLUMNS": "100"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_guide_leads_from_an_empty_folder_to_an_installed_plugin(
    environment: dict[str, str], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    (work / ".agentv").mkdir(parents=True)
    for block in blocks_of(FRESH):
        if block.file:
            (work / block.file).parent.mkdir(parents=True, exist_ok=True)
            (work / block.file).write_text(block.text, "utf-8")
            continue
        assert block.language in LANGUAGES
        if block.language == "toml":
            assert block.text in (work / "plain-words" / "pyproject.toml").read_text("utf-8")
            continue
        for command, code, expected in commands_of(block.text):
            done = subprocess.run(
                ["bash", "-c", command], cwd=work, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
            if expected:
                assert normalised(done.stdout, work) == normalised(expected, work), command
    suites = list((work / "plain-words").glob(".agentv/runs/*/results.jsonl"))
    assert len(suites) == 1
