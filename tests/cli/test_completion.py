import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("agentv"))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([PROGRAM, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_command_and_how_to_install_it(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert f"_AGENTV_COMPLETE={shell}_complete" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("# To install: ")


def test_the_shell_in_use_is_the_default() -> None:
    assert run("completion", SHELL="/usr/bin/zsh").stdout == run("completion", "zsh").stdout


def test_an_unknown_shell_is_refused_with_those_that_are_known() -> None:
    done = run("completion", SHELL="/bin/sh")
    assert done.returncode == 4
    assert "cannot detect the shell; name one of bash, fish, zsh." in done.stderr


def test_commands_are_completed() -> None:
    done = run(_AGENTV_COMPLETE="bash_complete", COMP_WORDS="agentv co", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,convert", "plain,compare", "plain,completion"]


def test_the_services_of_an_export_are_completed() -> None:
    done = run(_AGENTV_COMPLETE="bash_complete", COMP_WORDS="agentv score --export ", COMP_CWORD="3")
    assert done.stdout.splitlines() == ["plain,langfuse", "plain,phoenix"]


def test_the_script_comes_as_json_too() -> None:
    shown = json.loads(run("completion", "fish", "--json").stdout)
    assert (shown["schema"], shown["shell"]) == ("agentv-completion-1", "fish")
    assert run("completion", "fish").stdout.startswith(shown["script"])
