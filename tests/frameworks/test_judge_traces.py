"""The tutorial on traces, with the real framework in an environment of its own, and the fake model server.

`./run python -m tests.frameworks.test_judge_traces` writes the outputs of its commands anew.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.frameworks.environments import MissingError, prepare, variables
from tests.support.fake_server import serving_fake
from tests.test_readme import JUDGE_TRACES, ROOT, blocks_of, commands_of, normalised

BY_HAND = ("pip install", "export ")


def environment(program: Path, url: str, folder: Path) -> Mapping[str, str]:
    """Return the environment of the tutorial's second terminal, in which OpenTelemetry is on."""
    made = {name: value for name, value in variables(url, folder).items() if name != "OTEL_SDK_DISABLED"}
    return {**made, "PATH": f"{program.parent}{os.pathsep}{made['PATH']}", "COLUMNS": "100"}


def outputs(program: Path, folder: Path) -> Iterator[tuple[str, int, str, subprocess.CompletedProcess[str]]]:
    """Write the files of the page and run its commands; yield each with what the page says, and what happened."""
    (folder / ".agentv").mkdir()
    with serving_fake() as server:
        variables_of_page = environment(program, server.url, folder)
        for block in blocks_of(JUDGE_TRACES):
            if block.file:
                (folder / block.file).write_text(block.text, "utf-8")
            elif block.language == "console":
                for command, code, expected in commands_of(block.text):
                    if not command.startswith(BY_HAND):
                        words = shlex.split(command)
                        done = subprocess.run(
                            words, cwd=folder, env=variables_of_page, capture_output=True, text=True, timeout=200,
                            check=False,
                        )  # fmt: skip
                        yield command, code, expected, done


def without_ids(output: str, folder: Path) -> str:
    """Return an output without what differs between runs, such as the ids of spans and sessions."""
    output = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b", "ID", output)
    return normalised(output.replace('"ID"', "ID"), folder)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_every_command_of_the_tutorial_gives_the_shown_output(tmp_path: Path) -> None:
    try:
        program = prepare("pydantic-ai-traces", tmp_path)
    except MissingError as error:
        pytest.skip(str(error))
    count = 0
    for command, code, expected, done in outputs(program, tmp_path):
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        if expected:
            assert without_ids(done.stdout, tmp_path) == without_ids(expected, tmp_path), command
        count += 1
    assert count >= 6


def write_outputs() -> None:
    """Write the current outputs of the commands to the page."""
    page = ROOT / JUDGE_TRACES
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, _, expected, done in outputs(prepare("pydantic-ai-traces", folder), folder):
            if expected:
                shown = done.stdout.replace(f"{folder}/", "").rstrip() + "\n"
                text = text.replace(expected, shown, 1)
            print(command, done.returncode, done.stderr, file=sys.stderr)
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    write_outputs()
