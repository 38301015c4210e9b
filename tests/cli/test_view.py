"""`agentv view` prints the address of the page it opens, and names what it cannot open."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.carrying import Project
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "there is no run 'none'"),
        (["--host", "build-server"], "--token=SECRET"),
        (["--host", "0.0.0.0", "--token", "x"], "no address that a browser can open"),
        (["--host", "no-such-host.invalid", "--token", "x"], "--host: the name cannot be resolved"),
        (["--token", ""], "--token is empty"),
        (["a", "b", "c"], "opens one run, or two to compare them"),
        (["--port", "66000"], "66000 is not in the range"),
    ],
)
def test_view_names_what_it_cannot_open(project: Project, arguments: list[str], message: str) -> None:
    code, output = project.call("view", "--no-open", *arguments)
    assert code == 4
    assert message in output


def test_view_names_a_port_that_is_in_use(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output = project.call("view", "--no-open", "--port", str(port))
    assert code == 4
    assert f"port {port} cannot be used" in output


@pytest.mark.parametrize(("runs", "path"), [(0, "/"), (1, "/r/{1}"), (2, "/compare/{0}..{1}")])
def test_view_opens_a_run_or_a_comparison(project: Project, runs: int, path: str) -> None:
    project.cases = {"a": "one"}
    (project.folder / "targets.yaml").write_text("targets: [{name: default, provider: mock, response: answer}]")
    for _ in range(2):
        assert project.call("run", "suite.yaml")[0] == 0
    ids = sorted(folder.name for folder in (project.folder / ".agentv" / "runs").iterdir())
    named = ["latest"] if runs == 1 else ids[:runs]
    with (project.folder / "output").open("w") as stream:
        command = [sys.executable, "-m", "agentv", "view", "--no-open", *named]
        process = subprocess.Popen(command, cwd=project.folder, stdout=stream)
        try:
            assert until(lambda: "Ctrl-C" in Path(stream.name).read_text())
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+(/[^?]*)\?token=", Path(stream.name).read_text())
            assert address == path.format(*ids)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
