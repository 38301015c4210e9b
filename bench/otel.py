"""The cost of `--otel`: the time of a row with collectors that are healthy, dead, silent or refuse, and without one."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import ROOT
from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job
from bench.measuring import Effort
from bench.rows import AtMost, Row, row_of

ROWS = 10_000
_LEAST = 20
_NONE = "none"


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the time of a row between start and end of a run, and how long the process takes after it."""
    rows = max(_LEAST, effort.calls(ROWS))
    with ExitStack() as stack:
        urls = {
            _NONE: None,
            "healthy": stack.enter_context(_answering(200)),
            "dead": "http://127.0.0.1:9",
            "silent": stack.enter_context(_silent()),
            "405": stack.enter_context(_answering(405)),
            "503": stack.enter_context(_answering(503)),
        }
        times = _times(urls, rows, effort.rounds)
    without, after_without = times[_NONE]
    for name, (per_row, after) in times.items():
        if name != _NONE:
            yield row_of(f"a row of {rows:,}, {name} collector", per_row, beside="no collector", theirs=without)
            yield row_of(
                f"after the last row, {name} collector",
                after,
                beside="no collector",
                theirs=after_without,
                target=AtMost(3 + max(after_without)),
            )


def _times(urls: Mapping[str, str | None], rows: int, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return for each collector the seconds a row, and those after the run, in rounds that take turns."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in urls}
    with TemporaryDirectory() as folder:
        project = Path(folder, "project")
        write_job(Job(kind="echo", cases=rows), project)
        (project / ".agentv").mkdir()
        for number in range(rounds):
            for name, url in urls.items():
                per_row, after = _run(project, f"{name}-{number}", rows, url)
                times[name][0].append(per_row)
                times[name][1].append(after)
    return times


def _run(project: Path, name: str, rows: int, url: str | None) -> tuple[float, float]:
    options = () if url is None else (f"--otel={url}",)
    words = (sys.executable, "-m", "agentv", "run", "cases.jsonl", "--name", name, "--display", "none", *options)
    environment = {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run(words, cwd=project, capture_output=True, check=False, env=environment)  # noqa: S603 - ours
    ended_at = time.time()
    run = max((project / ".agentv" / "runs").iterdir())
    events = [json.loads(line) for line in (run / "events.jsonl").read_text("utf-8").splitlines()]
    moments = {event["type"]: datetime.fromisoformat(event["time"]).timestamp() for event in events}
    return (moments["ended"] - moments["started"]) / rows, ended_at - moments["ended"]


@contextmanager
def _silent() -> Iterator[str]:
    """Listen, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def _answering(status: int) -> Iterator[str]:
    """Answer every request with a status."""

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
