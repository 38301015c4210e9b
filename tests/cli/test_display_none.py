"""`--display none`: nothing on standard output; the verdict and errors of the store on standard error."""

import resource
import signal

import pytest
from tests.support.carrying import Project
from tests.support.command_line import call_agentv

from agentv.cli.main import main


def call(project: Project, *arguments: str) -> tuple[int, str, str]:
    project.write()
    return call_agentv(project.capsys, *arguments)


@pytest.mark.parametrize(
    ("command", "note"),
    [
        (("run", "suite.yaml"), ""),
        (("resume", "latest"), ""),
        (("retry", "latest", "--case", "a"), " 1 result was re-run; first answers count."),
    ],
)
def test_the_verdict_is_the_only_output(project: Project, command: tuple[str, ...], note: str) -> None:
    call(project, "run", "suite.yaml", "--display", "none")
    found = call(project, *command, "--display", "none")
    assert found == (0, "", f"PASS: 3 of 3 judged results passed (100 %).{note} Exit code 0.\n")


def test_a_failed_gate_is_printed(project: Project) -> None:
    code, out, errors = call(project, "run", "suite.yaml", "--display", "none", "--gate", "errors >= 1")
    assert (code, out) == (1, "")
    assert errors == "FAIL: errors is 0, not >= 1. Exit code 1.\n"


def test_standard_output_stays_free_for_an_export(project: Project) -> None:
    code, out, errors = call(project, "run", "suite.yaml", "--display", "none", "-o", "-")
    assert (code, len(out.splitlines())) == (0, 3)
    assert errors.startswith("PASS: ")


def test_an_error_of_the_store_is_printed(project: Project) -> None:
    (project.folder / "agent.py").write_text(
        "import resource\n"
        "def answer(request):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))\n"
        "    return 'an answer'\n"
    )
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        project.write()
        with pytest.raises(SystemExit) as left:
            main(["run", "suite.yaml", "--display", "none"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    said = project.capsys.readouterr()
    assert left.value.code == 3
    assert "store_error" in said.err
    assert "File too large" in said.err


def test_a_note_of_the_teams_store_is_printed(project: Project) -> None:
    (project.folder / "plug.py").write_text(STORE)
    (project.folder / ".agentv.yaml").write_text("plugins: [plug.py]\n")
    for display in ("none", "plain"):
        _, out, errors = call(project, "run", "suite.yaml", "--display", display, "--store", "lossy://here")
        assert ("the store lost its connection" in out + errors) is True
        assert ("the store lost its connection" in errors) is (display == "none")


STORE = '''
from agentv import store


class Shared:
    """A run that tells of a problem in its middle."""

    def __init__(self, inner):
        self._inner = inner
        self._tell = lambda message: None

    def report_to(self, report):
        self._tell = report

    def append(self, result):
        self._tell("the store lost its connection")
        return self._inner.append(result)

    def __getattr__(self, name):
        return getattr(self._inner, name)


@store("lossy")
class Lossy:
    """A store that loses its connection."""

    def __init__(self, url):
        self._url = url

    def share_run(self, open_folder):
        return Shared(open_folder())
'''
