"""`agentv doctor` lists the coding agents that are installed, and starts none."""

import json
import os
import subprocess
import sys
from pathlib import Path

from msgspec.structs import fields as struct_fields

from agentv.providers import PROVIDERS
from agentv.registry import Spec


def findings(cwd: Path, path: str) -> dict[str, dict[str, str]]:
    command = [sys.executable, "-m", "agentv", "doctor", "--json"]
    env = {"PATH": path, "HOME": str(cwd)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)
    return {found["about"]: found for found in json.loads(done.stdout)["findings"]}


def install(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\ntouch {folder}/started\n")
        (folder / name).chmod(0o755)


def test_a_program_or_extra_that_is_not_installed_is_optional(tmp_path: Path) -> None:
    found = findings(tmp_path, str(tmp_path))
    missing = [each["health"] for each in found.values() if each["found"].startswith("not installed")]
    assert set(missing) == {"optional"}
    assert found["agent codex"]["health"] == "optional"


def test_installed_agents_are_listed_with_their_paths_and_not_started(tmp_path: Path) -> None:
    install(tmp_path / "bin", "codex", "claude", "gemini", "code")
    found = findings(tmp_path, f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for name, provider in (("codex", "codex"), ("claude", "claude"), ("code", "vscode"), ("gemini", "cli")):
        agent = found[f"agent {name}"]
        assert agent["health"] == "ok"
        assert str(tmp_path / "bin" / name) in agent["found"]
        assert f"provider: {provider}" in agent["found"]
    assert not (tmp_path / "bin" / "started").exists()


def test_known_agents_that_are_missing_are_listed_with_how_to_install_them(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    found = findings(tmp_path, str(tmp_path / "bin"))
    for name in ("codex", "claude", "copilot", "pi"):
        assert found[f"agent {name}"]["found"] == "not installed"
        assert "Only if you need it: " in found[f"agent {name}"]["remedy"]
    assert "agent gemini" not in found


def test_a_program_that_cannot_be_executed_is_not_installed(tmp_path: Path) -> None:
    install(tmp_path / "bin", "codex")
    (tmp_path / "bin" / "codex").chmod(0o644)
    assert findings(tmp_path, str(tmp_path / "bin"))["agent codex"]["found"] == "not installed"


def test_the_listed_program_is_the_one_that_the_settings_start() -> None:
    executables = {spec.name: executable_of(spec) for spec in PROVIDERS.specs.values() if spec.program is not None}
    assert {name: program for name, program in executables.items() if program is not None} == {
        name: PROVIDERS.get(name).program for name in ("codex", "claude", "copilot", "pi")
    }


def executable_of(spec: Spec) -> object:
    fields = {field.name: field.default for field in struct_fields(spec.load_settings())}
    return fields.get("executable")
