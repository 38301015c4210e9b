"""A long wait that a server requests is reported when it begins."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.carrying import Project
from tests.support.fake_server import serving_fake


@pytest.mark.parametrize("display", ["plain", "json"])
def test_retry_after_is_shown_before_the_wait(project: Project, display: str) -> None:
    with serving_fake(retry_after_s=86_400) as server:
        target = f"{{name: t, provider: openai, model: fake@429, base_url: '{server.url}/v1', api_key: k}}"
        (project.folder / "targets.yaml").write_text(f"targets: [{target}]\n")
        project.write()
        process = subprocess.Popen(
            [Path(sys.executable).with_name("agentv"), "run", "suite.yaml", "--display", display],
            cwd=project.folder, env={**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "86,400" in line)
        finally:
            process.kill()
            process.communicate()
    said = json.loads(line)["message"] if display == "json" else line
    assert "target 't'" in said
    assert "the server requests a delay of 86,400 s" in said
    assert "waiting 60 s" in said
