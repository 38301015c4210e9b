"""The pytest plug-in: cases of eval files as tests, and `agentv.check` in any test (docs/how-to/pytest.md).

pytest imports this module in every project that has agentv installed. This module and `state` therefore import only
the standard library and pytest. The rest is imported when the first test uses the marker or the fixture `agentv`,
except `workers`, which a session with pytest-xdist always imports.
"""

from argparse import ArgumentTypeError
from collections.abc import Generator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

from agentv.pytest_plugin.state import FIXTURE, JUDGE_ERROR, MARKER, SESSION, SessionState

if TYPE_CHECKING:
    from agentv.pytest_plugin.fixture import AgentvFixture
    from agentv.pytest_plugin.workers import WorkerServer

_FIXTURE: "pytest.StashKey[AgentvFixture]" = pytest.StashKey()
_MARKER_LINE = (
    "agentv(path, target=None, case=None, trials=None): run each case of an eval file as a test; "
    "target and case are a name or a list, case may have wildcards"
)
FAILED_PART = "agentv_kind"
"""The attribute of an exception, and of its report, that says what failed if not the test: target, judge or run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plug-in."""
    group = parser.getgroup("agentv", "cases of agentv")
    group.addoption(
        "--agentv-target", action="append", metavar="NAME", help="Run cases against this target; repeatable."
    )
    group.addoption("--agentv-trials", type=_at_least_one, metavar="N", help="Run every case N times.")
    group.addoption(
        "--agentv-gate",
        action="append",
        type=_gate,
        metavar="EXPR",
        help="Condition for exit code 0 besides the tests, e.g. 'pass_rate >= 90%%'; repeatable.",
    )


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def _gate(text: str) -> str:
    """Return a gate if it can be parsed, also if no test will need it; `none` turns all gates off."""
    from agentv.scoring.gates.gates import GateError, parse_gate  # noqa: PLC0415 - only for sessions with a gate

    if text != "none":
        try:
            parse_gate(text)
        except GateError as error:
            raise ArgumentTypeError(error.line) from None
    return text


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, and begin to count failures."""
    config.addinivalue_line("markers", _MARKER_LINE)
    config.stash[SESSION] = state = SessionState()
    config.pluginmanager.register(AgentvSession(state), "agentv-session")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> None:
    """Let each marked function use the fixture, which runs its case, even if the function has no argument `agentv`."""
    if isinstance(obj, FunctionType) and (_has_marker(obj) or collector.get_closest_marker(MARKER) is not None):
        pytest.mark.usefixtures(FIXTURE)(obj)


def _has_marker(function: FunctionType) -> bool:
    return any(mark.name == MARKER for mark in function.__dict__.get("pytestmark", ()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each case that the markers of a function select."""
    marks = list(metafunc.definition.iter_markers(MARKER))
    if not marks:
        return
    from agentv.pytest_plugin.marked import marked_cases  # noqa: PLC0415 - only for marked tests

    cases = marked_cases(marks, metafunc.definition)
    metafunc.parametrize(FIXTURE, cases, ids=[marked.case.id for marked in cases], indirect=True, scope="function")


@pytest.fixture
def agentv(request: pytest.FixtureRequest) -> "AgentvFixture":
    """Check answers: `agentv.check(answer, contains="…")`. In a marked test, `agentv.result` is the case's result."""
    from agentv.pytest_plugin.fixture import AgentvFixture  # noqa: PLC0415 - only for tests that use it

    fixture = AgentvFixture(request.node)
    request.node.stash[_FIXTURE] = fixture
    marked = getattr(request, "param", None)
    if marked is not None:
        fixture.run_case(marked)
    return fixture


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail a marked test whose case did not pass, before its function is called."""
    fixture = item.stash.get(_FIXTURE, None)
    if fixture is not None:
        fixture.assert_passed()
    elif FIXTURE in getattr(getattr(item, "callspec", None), "params", ()) and item.get_closest_marker(MARKER):
        pytest.fail("a fixture of this project hides the fixture `agentv`, so that the case was not run", pytrace=False)


# Early releases of pytest 7 allow a pluggy without `wrapper`. First in, last out: after pytest has handled xfail.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Generator[None, Any, None]:
    """Record in a report that a target, a judge or the run failed, not the test; and settle its rows."""
    report = (yield).get_result()
    fixture = item.stash.get(_FIXTURE, None)
    if fixture is not None:
        fixture.note_outcome(report)
    if call.excinfo is not None and report.failed:
        kind = getattr(call.excinfo.value, FAILED_PART, None)
        if kind is not None:
            setattr(report, FAILED_PART, kind)  # pytest-xdist sends the attributes of a report to its controller


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Put tests whose judge failed in `agentv.check` into a category of their own, not among the failed tests."""
    if getattr(report, FAILED_PART, None) == "judge" and report.when == "call":
        return JUDGE_ERROR, "J", ("JUDGE ERROR", {"red": True})
    return None


class AgentvSession:
    """The hooks of one pytest session that need its state."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.workers: WorkerServer | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failed tests, and separately tests that failed because of a target, a judge or the run."""
        self.state.has_tests = True
        if report.failed:
            if getattr(report, FAILED_PART, None) is None:
                self.state.failed += 1
            else:
                self.state.without_verdict += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Record that a worker of pytest-xdist died."""
        if error:
            self.state.lost = f"worker {node.gateway.id} of pytest-xdist died, and its tests have no result"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a worker of pytest-xdist the address of its controller, whose run all workers share."""
        if self.workers is None:
            from agentv.pytest_plugin.workers import WorkerServer  # noqa: PLC0415 - only with pytest-xdist

            self.workers = WorkerServer(node.config, self.state)
        node.workerinput[MARKER] = self.workers.address

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the run, and set the exit code of the session from the outcome of its tests and its run."""
        if self.workers is not None:
            self.workers.close()
        if self.state.row_source is not None:
            from agentv.pytest_plugin.ending import end_run  # noqa: PLC0415 - only if a row was requested

            session.exitstatus = end_run(self.state, session, int(exitstatus))
        elif self._unmeasured_gates(session.config) and exitstatus == pytest.ExitCode.OK:
            from agentv.scoring.gates.run_verdict import INCOMPLETE  # noqa: PLC0415 - only for sessions with a gate

            session.exitstatus = INCOMPLETE

    def _unmeasured_gates(self, config: pytest.Config) -> list[str]:
        """Return the gates of a session of which no test was judged; none if no test was run."""
        is_worker = hasattr(config, "workerinput")
        return config.getoption("agentv_gate") or [] if self.state.has_tests and not is_worker else []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the judge errors, the verdict and the folder of the run."""
        if self.state.ended is not None:
            from agentv.pytest_plugin.ending import print_ending  # noqa: PLC0415 - only after a run

            print_ending(terminalreporter, self.state.ended)
        elif gates := self._unmeasured_gates(terminalreporter.config):
            terminalreporter.write_sep("=", "agentv")
            terminalreporter.write_line(
                f"INCOMPLETE: no test was judged, so that no gate was checked: {', '.join(gates)}"
            )
