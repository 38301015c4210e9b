"""`./run` finds uv or downloads it, or reports what is missing. With fakes for uv and python3: no network."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

RUN = Path(__file__).parent.parent / "run"
TOOLS = ("bash", "cat", "chmod", "dirname", "env", "mkdir", "mktemp", "mv", "readlink", "rm")
FAKE_UV = """#!/usr/bin/env bash
echo "args: $*"
echo "cwd: $PWD"
echo "certs: ${UV_SYSTEM_CERTS:-} venv: ${VIRTUAL_ENV:-none}"
exit 7
"""
# Answers `-c` as CAN says, makes "environments", and "installs" uv there with `-m pip`.
FAKE_PYTHON = """#!/usr/bin/env bash
case "$*" in
  -c*) exit CAN ;;
  "-m venv "*) mkdir -p "$3/bin"; cat "$0" > "$3/bin/python"; chmod +x "$3/bin/python" ;;
  "-m pip "*) cat > "${0%/*}/uv" <<'UV'
FAKE_UVUV
    chmod +x "${0%/*}/uv" ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with ./run, and bin/ with the programs of every system."""
    folder = tmp_path / "my project"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(RUN, folder / "run")
    for tool in TOOLS:
        found = shutil.which(tool, path="/usr/bin:/bin")
        assert found, tool
        (folder / "bin" / tool).symlink_to(found)
    return folder


def install(project: Path, name: str, text: str) -> None:
    path = project / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def call(
    script: Path, project: Path, cwd: Path, words: Sequence[str] = ("agentv", "run", "two words")
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(project / "bin"), "VIRTUAL_ENV": "/somewhere/else"}
    command = [str(script), *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_a_command_runs_in_the_callers_folder_with_the_projects_lock(project: Path, tmp_path: Path) -> None:
    install(project, "uv", FAKE_UV)
    done = call(project / "run", project, tmp_path)
    assert done.stdout == (
        f"args: run --locked --inexact --project {project} --no-default-groups agentv run two words\n"
        f"cwd: {tmp_path}\ncerts: 1 venv: none\n"
    )
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        ("pytest -k agentv", "pytest -k agentv"),
        ("python -m agentv", "python -m agentv"),
        ("--extra=text agentv run", "--extra=text --no-default-groups agentv run"),
        ("--extra=text pytest", "--extra=text pytest"),
        ("", ""),
    ],
)
def test_only_agentv_does_without_the_developers_tools(words: str, passed: str, project: Path, tmp_path: Path) -> None:
    install(project, "uv", FAKE_UV)
    first = call(project / "run", project, tmp_path, words.split()).stdout.splitlines()[0]
    assert first == f"args: run --locked --inexact --project {project} {passed}".rstrip()


def test_a_link_to_it_finds_the_project(project: Path, tmp_path: Path) -> None:
    install(project, "uv", FAKE_UV)
    link = tmp_path / "go"
    link.symlink_to(project / "run")
    assert f"--project {project} " in call(link, project, tmp_path).stdout


def test_without_uv_one_is_fetched_once(project: Path, tmp_path: Path) -> None:
    install(project, "python3", FAKE_PYTHON.replace("CAN", "0").replace("FAKE_UV", FAKE_UV))
    first = call(project / "run", project, tmp_path)
    assert f"args: run --locked --inexact --project {project}" in first.stdout
    assert "fetching it" in first.stderr
    assert [path.name for path in (project / ".uv").iterdir()] == ["uv"]
    (project / "bin" / "python3").unlink()
    second = call(project / "run", project, tmp_path)
    assert (second.stdout, second.stderr) == (first.stdout, "")


@pytest.mark.parametrize("python", [None, "1"])
def test_what_is_missing_is_said(python: str | None, project: Path, tmp_path: Path) -> None:
    if python:
        install(project, "python3", FAKE_PYTHON.replace("CAN", python))
    done = call(project / "run", project, tmp_path)
    assert done.returncode == 1
    assert ("python3-venv" if python else "neither uv nor python3") in done.stderr
    assert "Install uv" in done.stderr
