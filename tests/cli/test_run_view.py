"""`agentv run --view` opens the viewer on the run, and keeps it open until Ctrl-C."""

import re
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.waiting import until

SUITE = """
target: here
evaluators: [{name: four, type: contains, value: "4"}]
cases: [{id: sum, input: What is 2 + 2?}]
"""
TARGETS = "targets: [{name: here, provider: cli, command: 'echo 4'}]"


def test_run_view_serves_the_run_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    command = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--view", "--display", "none"]
    errors = tmp_path / "errors"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BROWSER": "true"}
    with errors.open("w") as stream:
        process = subprocess.Popen(command, cwd=tmp_path, stderr=stream, env=environment)
        try:
            assert until(lambda: "until Ctrl-C" in errors.read_text() and "http://" in errors.read_text())
            (link,) = re.findall(r"http://\S+", errors.read_text())
            address = urlsplit(link)
            with closing(HTTPConnection(address.netloc)) as connection:
                connection.request("GET", f"{address.path}?{address.query}")
                assert connection.getresponse().status == 303
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
    with pytest.raises(ConnectionRefusedError), closing(HTTPConnection(address.netloc)) as connection:
        connection.connect()
