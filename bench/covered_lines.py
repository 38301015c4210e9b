"""A pytest plug-in that records which test runs which line: `pytest -p bench.covered_lines`.

`COVERED_LINES` names the folder for its data, which `read` returns. Each process of pytest-xdist writes its own files.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

FOLDER = "COVERED_LINES"


class CoveredLines:
    """Switches the context of coverage at each test; saves the durations of the tests that passed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds: dict[str, float] = {}
        self._passed: set[str] = set()
        self._coverage = Coverage(data_file=folder / f"lines-{os.getpid()}", source=["src"], config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the lines of one test with its fixtures."""
        self._coverage.switch_context(item.nodeid)
        started = time.perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.perf_counter() - started
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the tests that passed."""
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        """Save the lines and the durations."""
        self._coverage.stop()
        self._coverage.save()
        seconds = {test: self._seconds[test] for test in self._passed & self._seconds.keys()}
        (self._folder / f"seconds-{os.getpid()}.json").write_text(json.dumps(seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Start to record, in each process that runs tests."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", default=None):
        config.pluginmanager.register(CoveredLines(Path(os.environ[FOLDER])))


def read(folder: Path, root: Path) -> tuple[Mapping[str, float], Mapping[str, Mapping[int, set[str]]]]:
    """Return the seconds of each test, and the tests of each line of each file, whose path is relative to `root`."""
    seconds: dict[str, float] = {}
    for path in folder.glob("seconds-*.json"):
        seconds |= json.loads(path.read_bytes())
    tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in folder.glob("lines-*"):
        data = CoverageData(path)
        data.read()
        for file in data.measured_files():
            of_file = tests[str(Path(file).relative_to(root))]
            for line, contexts in data.contexts_by_lineno(file).items():
                of_file[line] |= seconds.keys() & contexts
    return seconds, tests
