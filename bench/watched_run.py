"""Watch a run of 2,000 cases from its first result to its last in three browsers, and compare the end with `show`.

    ./run --group=browser python -m bench.watched_run

Each browser is a headless Chromium of its own with two pages of `agentv view`. While the run goes on, the number of
results that each page shows is read again and again; no page may go back, and all must arrive at what `agentv show`
says. The time of the processor is that of the viewer's process.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, field

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TOKEN = "bench"  # noqa: S105 - of a server on loopback that lives as long as the measurement
_WORKERS = 10
_HAS_ENDED = "() => !('live' in document.getElementById('content').dataset)"
_PAUSE_MS = 500
_END_MS = 120_000
_AGENTV = (sys.executable, "-m", "agentv")
_STATES = ("pass", "fail", "error")
_PAGES: Sequence[Sequence[str]] = (
    ("/r/{run}", "/r/{run}/rows"),
    ("/r/{run}/rows?state=pass", "/r/{run}/rows?state=fail"),
    ("/", "/r/{run}/rows?state=error"),
)
"""The pages of each browser."""


def main() -> None:
    """Run, watch, and print what was found; exit with 1 if a page is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.watched_run")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--delay-ms", type=int, default=300)
    options = parser.parse_args()
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        raise SystemExit("this needs Chromium (Debian: apt-get install chromium)")
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write_project(folder, options.cases, options.delay_ms)
        problems = _watch(folder, program)
    for problem in problems:
        print(f"WRONG: {problem}")
    raise SystemExit(1 if problems else 0)


class _Watched(Struct):
    """A page in a browser, and what it has shown."""

    path: str
    page: Any
    shown: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, url: str) -> None:
        """Open the page, and note from then on scripts that fail and replies that are errors."""
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("requestfailed", lambda request: self.errors.append(f"{request.url}: {request.failure}"))
        self.page.on("response", lambda reply: self._note_reply(reply.url, reply.status))
        self.page.goto(f"{url}/?token={_TOKEN}")
        self.page.goto(f"{url}{self.path}")

    def look(self) -> None:
        """Note the number of results that the page shows now."""
        self.shown.append(sum(self.counts().values()))

    def counts(self) -> dict[str, int]:
        """Return the numbers of results that the page shows, by state; empty if it shows none yet."""
        text = " ".join(self.page.inner_text("main").split())
        if self.path == "/":
            found = re.search(r"([\d.]+) % of (\d[\d,]*)(?: \+ (\d[\d,]*) error)?", text)
            return {} if found is None else {"judged": _number(found[2])}
        if "/rows" in self.path:
            found = re.search(r" of (\d[\d,]*) results?", text)
            return {} if found is None else {self.path.partition("state=")[2] or "all": _number(found[1])}
        found = re.search(r"results (\d[\d,]*) \(([^)]+)\)", text)
        parts = [] if found is None else re.findall(r"(\d[\d,]*) (\w+)", found[2])
        return {state: _number(count) for count, state in parts}

    def _note_reply(self, url: str, status: int) -> None:
        if status >= 400:  # noqa: PLR2004 - the first of the errors
            self.errors.append(f"{url}: {status}")


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _write_project(folder: Path, cases: int, delay_ms: int) -> None:
    """Write cases of which a third fails, and one of a hundred is an error."""
    ids = [f"case-{number}" for number in range(cases)]
    lines = (json.dumps({"id": each, "input": f"What is {each}?", "expected_outcome": "4"}) for each in ids)
    (folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "cases.yaml").write_text("evaluators: [{name: four, type: contains, value: '4'}]\n")
    answers = {each: "It is 4." if n % 3 else "I do not know." for n, each in enumerate(ids) if n % 100}
    target = {"name": "agent", "provider": "mock", "response": answers, "delay_ms": delay_ms}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    (folder / ".agentv").mkdir()


def _watch(folder: Path, program: str) -> list[str]:
    """Run and watch; print the figures, and return what is wrong."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of a group that most environments do not have

    with ExitStack() as stack:
        driver = stack.enter_context(sync_playwright())
        viewer = stack.enter_context(_process(folder, "view", "--no-open", "--token", _TOKEN))
        url = viewer.stdout.readline().removeprefix("Open ").partition("/?")[0] if viewer.stdout is not None else ""
        windows = [_window(stack, driver, program) for _ in _PAGES]
        began = time.monotonic()
        running = stack.enter_context(_process(folder, "run", "cases.jsonl", "--workers", str(_WORKERS)))
        run_id = _run_id(folder)
        watched = [
            _Watched(path.format(run=run_id), window.new_page())
            for window, paths in zip(windows, _PAGES, strict=True)
            for path in paths
        ]
        for each in watched:
            each.open(url)
        while running.poll() is None:
            for each in watched:
                each.look()
            watched[0].page.wait_for_timeout(_PAUSE_MS)
        ended = time.monotonic()
        for each in watched:
            each.page.wait_for_function(_HAS_ENDED, timeout=_END_MS)
            each.look()
        waited = time.monotonic() - ended
        cpu_s, memory_mb = _effort_of(viewer.pid)
        counts = _counts_of_show(folder, run_id)
        problems = [problem for each in watched for problem in _problems(each, counts)]
        looks, steps = (sum(map(len, each)) for each in zip(*((w.shown, set(w.shown)) for w in watched), strict=True))
        states = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
        print(f"{sum(counts.values()):,} results ({states}) in {ended - began:.0f} s, watched by {len(watched)} pages")
        print(f"{looks:,} looks saw {steps:,} numbers; the last page was up to date {waited:.1f} s after the end")
        print(f"viewer: {cpu_s:.1f} s of processor time, at most {memory_mb:.0f} MB; {len(problems)} problems")
        return problems


def _window(stack: ExitStack, driver: Any, program: str) -> Any:
    browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
    stack.callback(browser.close)
    return browser.new_context(viewport={"width": 1280, "height": 900})


@contextmanager
def _process(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a command of agentv; end it with the block, if it is still there."""
    silent = subprocess.DEVNULL if arguments[0] == "run" else subprocess.PIPE
    command = [*_AGENTV, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=silent, stderr=silent, text=True) as process:  # noqa: S603 - our own
        try:
            yield process
        finally:
            process.terminate()


def _run_id(folder: Path) -> str:
    """Return the id of the run, as soon as it has begun."""
    while not (found := list((folder / ".agentv" / "runs").glob("*/run.json"))):
        time.sleep(0.05)
    return found[0].parent.name


def _effort_of(pid: int) -> tuple[float, float]:
    """Return the processor time of a process in seconds, and its largest size in memory in MB."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    sizes = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", sizes)
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(peak[1]) / 1000 if peak else 0.0


def _counts_of_show(folder: Path, run_id: str) -> dict[str, int]:
    done = subprocess.run(  # noqa: S603 - our own
        [*_AGENTV, "show", run_id, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    found: Mapping[str, int] = json.loads(done.stdout)["counts"]
    return {state: found.get(state, 0) for state in _STATES}


def _problems(watched: _Watched, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what is wrong with a page: its last numbers, numbers that went back, and errors."""
    expected = {**counts, "all": sum(counts.values()), "judged": counts["pass"] + counts["fail"]}
    last = watched.counts()
    wrong = {state: count for state, count in last.items() if expected.get(state) != count}
    if wrong or not last:
        yield f"{watched.path} ends with {last or 'no number'}, not {expected}"
    if watched.shown != sorted(watched.shown):
        yield f"{watched.path} went back: {watched.shown}"
    if watched.shown[-1] == watched.shown[0]:
        yield f"{watched.path} showed its end from the beginning"
    yield from watched.errors


if __name__ == "__main__":
    main()
