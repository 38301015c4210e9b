import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from agentv.cli.tools.plugins import describe, render_settings
from agentv.registry import EvaluatorSpec


@dataclass(frozen=True)
class Settings:
    value: str | tuple[str, ...] = field(metadata={"help": "what to look for"})
    mode: Literal["any", "all"] = field(default="any", metadata={"help": "how many"})
    limit: float | None = None


SPEC = EvaluatorSpec("finder", "finds things", settings=Settings, factory=Settings, aliases=("find",), cost="paid")


def agentv(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentv", "plugins", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def test_settings_are_listed_with_type_default_and_meaning() -> None:
    assert render_settings(SPEC) == (
        "finder, find: finds things (may cost money)\n"
        "  value  string or list of strings  required  what to look for\n"
        '  mode   any | all                  "any"     how many\n'
        "  limit  number                     none"
    )


def test_json_says_the_same() -> None:
    described = describe(SPEC)
    assert (described["name"], described["aliases"], described["cost"]) == ("finder", ["find"], "paid")
    assert described["settings"][1] == {"name": "mode", "type": "any | all", "default": '"any"', "help": "how many"}


def test_everything_is_listed_with_its_aliases(tmp_path: Path) -> None:
    done = agentv(cwd=tmp_path)
    assert done.returncode == 0
    assert "  code_judge, code" in done.stdout
    assert "\nproviders\n" in done.stdout


def test_a_named_plugin_shows_its_settings(tmp_path: Path) -> None:
    done = agentv("contains", cwd=tmp_path)
    assert done.stdout.startswith("contains: ")
    assert "  value" in done.stdout


def test_the_projects_own_plugins_are_listed(tmp_path: Path) -> None:
    (tmp_path / ".agentv.yaml").write_text("plugins: [mine.py]\n")
    (tmp_path / "mine.py").write_text(
        'from agentv import evaluator\n@evaluator("mine")\ndef mine(context, *, limit: int = 3):\n    """Is mine."""\n'
    )
    done = agentv("--json", "--import", "mine", cwd=tmp_path)
    (mine,) = json.loads(done.stdout)["evaluators"]
    assert mine["summary"] == "Is mine."
    assert mine["settings"] == [{"name": "limit", "type": "whole number", "default": "3", "help": ""}]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_unknown_name_is_refused_with_the_nearest(form: tuple[str, ...], tmp_path: Path) -> None:
    done = agentv("contain", *form, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "Did you mean 'contains'?" in done.stderr
