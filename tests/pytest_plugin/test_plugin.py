"""The pytest plug-in, in projects of its own and in the real pytest, with and without pytest-xdist."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
evalcases:
  - id: days
    expected_outcome: Says how long
    input_messages: [{role: user, content: "May I return it?"}]
    evaluators: [{name: days, type: contains, value: 30 days}]
  - id: money
    expected_outcome: Says that the money comes back
    input_messages: [{role: user, content: "Do I get my money back?"}]
    evaluators: [{name: money, type: contains, value: money}]
  - id: unjudged
    expected_outcome: Is polite
    input_messages: [{role: user, content: "May I return it?"}]
    evaluators: [{name: polite, type: llm_judge, target: mute}]
"""
TARGETS = """
targets:
  - {name: default, provider: mock, response: "Yes, within 30 days."}
  - {name: mute, provider: mock, response: "no verdict"}
  - {name: kind, provider: mock, response: '{"score": 1.0, "hits": ["polite"], "misses": [], "reasoning": "ok"}'}
  - {name: dead, provider: cli, command_template: "false", retry: {max_retries: 0}}
"""
TESTS = """
import agentv as av
import pytest

@pytest.mark.agentv("evals/refunds.yaml")
def test_refunds():
    pass

@pytest.mark.agentv("evals/refunds.yaml", target="dead", case="da*")
def test_dead(agentv):
    raise RuntimeError("the test of a failed case runs")

@pytest.mark.agentv("evals/refunds.yaml", case=["days"])
def test_result(agentv):
    assert agentv.result.candidate_answer == "Yes, within 30 days."

def test_checked(agentv):
    assert agentv.check("within 30 days", contains="30 days", llm_judge="Is polite", judge="kind").score == 1.0

def test_wrong(agentv):
    agentv.check("thirty days", prompt="How long?", expected="30 days", contains="30 days")

def test_no_judge(agentv):
    agentv.check("30 days", llm_judge="Is polite", judge="mute")

def test_expected_failure(agentv):
    with pytest.raises(AssertionError, match="missing: expected .30 days."):
        agentv.check("thirty days", contains="30 days")
    with pytest.raises(av.JudgeUnavailable):
        agentv.check("30 days", llm_judge="Is polite", judge="mute")

def test_ordinary():
    pass
"""
OUTCOMES = {
    "test_refunds[days]": "PASSED",
    "test_refunds[money]": "FAILED",
    "test_refunds[unjudged]": "ERROR",
    "test_dead[days]": "ERROR",
    "test_result[days]": "PASSED",
    "test_checked": "PASSED",
    "test_wrong": "FAILED",
    "test_no_judge": "JUDGE ERROR",
    "test_expected_failure": "PASSED",
    "test_ordinary": "PASSED",
}


class Session:
    """One pytest session in a project: its exit code and output."""

    def __init__(self, project: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments]
        given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AGENTV_"))}
        done = subprocess.run(
            command, cwd=project, env={**given, **(env or {})}, capture_output=True, text=True, timeout=100, check=False
        )
        self.code = done.returncode
        self.output = done.stdout + done.stderr

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each test, by name."""
        words = "PASSED|FAILED|JUDGE ERROR|ERROR"
        plain = re.findall(rf"^\S+::(\S+) ({words})", self.output, re.MULTILINE)
        of_workers = [
            (name, word)
            for word, name in re.findall(rf"^\[gw\d\] \[[ \d%]+\] ({words}) \S+::(\S+)", self.output, re.MULTILINE)
        ]
        return dict(plain or of_workers)


def rows(project: Path) -> list[list[dict[str, object]]]:
    """Return the rows of each run of a project."""
    files = sorted((project / ".agentv" / "runs").glob("*/results.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def make_project(folder: Path, tests: str = TESTS) -> Path:
    (folder / "evals").mkdir()
    (folder / ".git").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "evals" / "refunds.yaml").write_text(SUITE)
    (folder / "targets.yaml").write_text(TARGETS)
    (folder / "test_desk.py").write_text(tests)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_each_case_is_a_test_and_the_session_one_run(project: Path, options: tuple[str, ...]) -> None:
    session = Session(project, "-W", "error", *options)
    assert session.outcomes == OUTCOMES, session.output
    assert session.code == 1
    (run,) = rows(project)  # one run, whatever the number of processes
    assert sorted((str(row["eval_id"]), str(row["target"])) for row in run) == [
        ("days", "dead"),
        ("days", "default"),  # of two tests, called once
        ("money", "default"),
        ("test_checked", "check"),
        ("test_expected_failure", "check"),
        ("test_expected_failure", "check"),  # and again as skipped, since the test caught the failure
        ("test_expected_failure #2", "check"),  # an error, which no test can expect away
        ("test_no_judge", "check"),
        ("test_wrong", "check"),
        ("unjudged", "default"),
    ]
    assert "2 failed, 5 passed, 2 errors, 1 judge error" in session.output


def test_a_failure_shows_reasons_expected_and_actual(project: Path) -> None:
    output = Session(project, "-k", "money or wrong").output
    for line in (
        'missing: expected "money", got "Yes, within 30 days."',
        "question: Do I get my money back?",
        "expected: Says that the money comes back",
        "actual: Yes, within 30 days.",
        "question: How long?",
        "expected: 30 days",
        "actual: thirty days",
    ):
        assert line in output
    assert "agentv/pytest_plugin" not in output, "a traceback of the plug-in is shown"


def test_tests_without_a_verdict_end_the_session_with_exit_code_3(project: Path) -> None:
    for selected in ("test_no_judge or ordinary", "unjudged", "dead"):
        assert Session(project, "-k", selected).code == 3


def test_a_gate_that_fails_ends_the_session_with_exit_code_1(project: Path) -> None:
    session = Session(project, "-k", "test_checked or ordinary", "--agentv-gate", "mean >= 0.5")
    assert session.code == 0
    assert "PASS: mean" in session.output
    session = Session(project, "-k", "test_checked", "--agentv-gate", "errors >= 1")
    assert session.outcomes == {"test_checked": "PASSED"}
    assert session.code == 1
    assert "FAIL" in session.output


def test_options_override_the_marker_and_trials_make_one_test(project: Path) -> None:
    session = Session(project, "-k", "refunds and days", "--agentv-trials", "3", "--agentv-target", "kind")
    assert session.outcomes == {"test_refunds[days]": "FAILED"}
    (run,) = rows(project)
    assert [(row["target"], row["trial"]) for row in run] == [("kind", 0), ("kind", 1), ("kind", 2)]


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('"evals/refund.yaml"', "marker agentv: there is no evals/refund.yaml in "),
        ('"evals/refunds.yaml", target="defualt"', "there is no target 'defualt'"),
        ('"evals/refunds.yaml", case="x*"', "no case of evals/refunds.yaml matches case='x*' (3 loaded)"),
        ('"evals/refunds.yaml", case=["days", "mony"]', "no case of evals/refunds.yaml matches case='mony' (3 loaded)"),
        ('"evals/refunds.yaml", trials=0', "trials must be a whole number from 1, not 0"),
        ('"evals/refunds.yaml", cases="x"', "expected a path, and optionally target=, case= and trials="),
        ("", "expected a path, and optionally target=, case= and trials="),
    ],
)
def test_a_wrong_marker_is_an_error_of_the_collection(tmp_path: Path, marker: str, message: str) -> None:
    project = make_project(tmp_path, f"import pytest\n@pytest.mark.agentv({marker})\ndef test_it(): pass\n")
    session = Session(project)
    assert session.code == 2
    assert message in session.output
    assert "Traceback" not in session.output
    assert rows(project) == []


def test_a_marker_of_a_folder_warns_of_files_that_are_not_read(tmp_path: Path) -> None:
    test = "import pytest\n@pytest.mark.agentv('evals')\ndef test_it(agentv_case): pass\n"
    project = make_project(tmp_path, test)
    (project / "evals" / "typo.yaml").write_text("evalcase: [{id: a}]\n")
    output = " ".join(Session(project, "--collect-only").output.split())
    assert "marker agentv: skipped evals/typo.yaml: its cases are under 'evalcase'" in output


def test_wrong_checks_are_failures_that_say_what_to_do(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        "def test_name(agentv): agentv.check('x', contain='x')\n"
        "def test_none(agentv): agentv.check('x')\n"
        "def test_value(agentv): agentv.check('x', length=4)\n"
        "def test_object(agentv): agentv.check(object(), contains='x')\n"
        "def test_shape(agentv): agentv.check({'what': 1}, contains='x')\n",
    )
    session = Session(project)
    assert session.code == 1
    assert "Did you mean 'contains'?" in session.output
    assert "agentv.check needs at least one evaluator" in session.output
    assert set(session.outcomes.values()) == {"FAILED"}
    assert "agentv.check takes texts, numbers, lists and dicts" in session.output
    assert "the answer cannot be checked: " in session.output
    assert "length=4: write the settings as an object" in session.output


def test_an_answer_may_be_what_an_api_returned(tmp_path: Path) -> None:
    call = "{'id': 'c1', 'type': 'function', 'function': {'name': 'lookup', 'arguments': '{}'}}"
    message = f"{{'role': 'assistant', 'content': '30 days', 'tool_calls': [{call}]}}"
    project = make_project(
        tmp_path,
        f"ANSWER = {{'choices': [{{'message': {message}}}]}}\n"
        "def test_call(agentv):\n"
        "    calls = {'mode': 'any_order', 'minimums': {'lookup': 1}}\n"
        "    assert agentv.check(ANSWER, contains='30 days', tool_trajectory=calls).candidate_answer == '30 days'\n",
    )
    assert Session(project).outcomes == {"test_call": "PASSED"}


def test_workers_share_the_limit_of_a_target(project: Path) -> None:
    cases = [
        f"- {{id: c{n}, expected_outcome: a, input_messages: [{{role: user, content: q{n}}}], "
        "evaluators: [{name: alone, type: equals, value: alone}]}"
        for n in range(12)
    ]
    (project / "evals" / "busy.yaml").write_text("evalcases:\n  " + "\n  ".join(cases))
    (project / "targets.yaml").write_text(
        "targets: [{name: default, provider: python, callable: busy.py:answer, workers: 1}]"
    )
    (project / "busy.py").write_text(
        "import threading\nlock, pause = threading.Lock(), threading.Event()\n"
        "def answer(request):\n"
        "    if not lock.acquire(blocking=False): return 'crowded'\n"
        "    pause.wait(0.05)\n    lock.release()\n    return 'alone'\n"
    )
    (project / "test_desk.py").write_text(
        "import pytest\n@pytest.mark.agentv('evals/busy.yaml')\ndef test_busy(): pass\n"
    )
    session = Session(project, "-n", "3")
    assert session.code == 0, session.output
    assert [len(run) for run in rows(project)] == [12]


def test_files_with_different_workers_share_the_larger_limit(project: Path) -> None:
    for name, number in (("alone", 1), ("pair", 2)):
        (project / "evals" / f"{name}.yaml").write_text(
            f"execution:\n  workers: {number}\n  trials: {number}\n"
            "  evaluators: [{name: met, type: equals, value: met}]\n"
            f"evalcases: [{{id: {name}, expected_outcome: a, input_messages: [{{role: user, content: q}}]}}]\n"
        )
    (project / "targets.yaml").write_text("targets: [{name: default, provider: python, callable: pair.py:answer}]")
    (project / "pair.py").write_text(
        "import threading\npair = threading.Barrier(2)\n"
        "def answer(request):\n"
        "    if request.eval_case_id == 'pair': pair.wait(5)\n"
        "    return 'met'\n"
    )
    (project / "test_desk.py").write_text(
        "import pytest\n@pytest.mark.agentv('evals/alone.yaml')\ndef test_alone(): pass\n"
        "@pytest.mark.agentv('evals/pair.yaml')\ndef test_pair(): pass\n"
    )
    session = Session(project)
    assert session.code == 0, session.output


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_an_interrupt_ends_the_run_and_keeps_its_rows(project: Path, options: tuple[str, ...]) -> None:
    (project / "targets.yaml").write_text("targets: [{name: default, provider: python, callable: target.py:answer}]")
    (project / "target.py").write_text(
        "import os, signal, threading\n"
        "def answer(request):\n"
        "    if request.eval_case_id == 'days': return 'within 30 days'\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Event().wait(20)\n"
    )
    (project / "test_desk.py").write_text(
        "import pytest\n@pytest.mark.agentv('evals/refunds.yaml', case=['days', 'money'])\ndef test_refunds(): pass\n"
    )
    session = Session(project, *options)
    assert session.code == 2
    assert "INTERRUPTED: " in session.output
    assert "CancelledError" not in session.output
    (run,) = rows(project)
    assert {row["eval_id"] for row in run} <= {"days"}, run
    (folder,) = (project / ".agentv" / "runs").iterdir()
    assert '"state":"interrupted"' in (folder / "events.jsonl").read_text()


def test_an_interrupt_that_another_thread_gets_leaves_no_row(project: Path) -> None:
    """A lock does not wake the main thread for it: a target that waits would end, and be stored as an error."""
    (project / "targets.yaml").write_text("targets: [{name: default, provider: python, callable: target.py:answer}]")
    (project / "target.py").write_text(
        "import signal, threading\n"
        "def answer(request):\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "    threading.Event().wait(20)\n"
    )
    (project / "test_desk.py").write_text(
        "import pytest\n@pytest.mark.agentv('evals/refunds.yaml', case='money')\ndef test_refunds(): pass\n"
    )
    session = Session(project)
    assert session.code == 2, session.output
    assert [len(run) for run in rows(project)] == [0]


def test_an_interrupt_before_the_first_call_ends_the_session(project: Path) -> None:
    (project / "targets.yaml").write_text(
        "targets: [{name: default, provider: cli, command_template: 'echo 30 days', "
        "healthcheck: {type: command, command_template: python3 interrupt.py}}]"
    )
    (project / "evals" / "interrupt.py").write_text(
        "import os, signal, time\n"
        "os.kill(int(open('../pid').read()), signal.SIGINT)\n"
        "while not os.path.exists('../ending'): time.sleep(0.01)\n"
    )
    (project / "conftest.py").write_text(
        "import os, threading\n"
        "open('pid', 'w').write(str(os.getpid()))\n"
        "def pytest_keyboard_interrupt(excinfo):\n"
        "    threading.Timer(0.5, lambda: open('ending', 'w').close()).start()\n"
    )
    (project / "test_desk.py").write_text(
        "import pytest\n@pytest.mark.agentv('evals/refunds.yaml', case='days')\ndef test_refunds(): pass\n"
    )
    session = Session(project)
    assert session.code == 2, session.output
    assert [len(run) for run in rows(project)] == [0]


def test_the_module_can_be_named_without_autoload(project: Path) -> None:
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    session = Session(project, "-p", "agentv", "-k", "test_checked", env=env)
    assert session.outcomes == {"test_checked": "PASSED"}
    assert session.code == 0


ORDINARY = "import pytest\n" + "\n".join(
    f"@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_{name}(n): {body}"
    for name, body in [*((f"ok_{i}", "assert n") for i in range(8)), ("fails", "assert n != 2"), ("last", "pass")]
)
UNUSED = """
import sys
def test_nothing_of_agentv_is_imported():
    modules = {name for name in sys.modules if name.split(".")[0] in ("agentv", "msgspec", "pydantic", "yaml")}
    assert modules == {"agentv", "agentv.version", "agentv.pytest_plugin", "agentv.pytest_plugin.state"}
"""


def test_a_fixture_of_the_project_with_the_same_name_is_left_alone(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        "import pytest\n"
        "@pytest.fixture\ndef agentv(): return 'ours'\n"
        "def test_own(agentv): assert agentv == 'ours'\n"
        "@pytest.mark.parametrize('agentv', ['given'])\ndef test_given(agentv): assert agentv == 'given'\n"
        "@pytest.mark.agentv('evals/refunds.yaml', case='days')\ndef test_marked(): pass\n",
    )
    session = Session(project)
    assert session.outcomes == {"test_own": "PASSED", "test_given[given]": "PASSED", "test_marked[days]": "FAILED"}
    assert "a fixture of this project hides the fixture `agentv`" in session.output


CONTROLLER = """
import sys
def pytest_terminal_summary(terminalreporter):
    ours = sorted(name for name in sys.modules if name.split(".")[0] in ("agentv", "msgspec", "pydantic", "yaml"))
    terminalreporter.write_line(f"modules of the controller: {ours}")
"""


def test_workers_that_ask_for_nothing_cost_their_controller_no_imports(tmp_path: Path) -> None:
    project = make_project(tmp_path, ORDINARY)
    (project / "conftest.py").write_text(CONTROLLER)
    session = Session(project, "-n", "2")
    assert "29 passed" in session.output
    plugin = "'agentv.pytest_plugin', 'agentv.pytest_plugin.state', 'agentv.pytest_plugin.workers'"
    modules = f"['agentv', {plugin}, 'agentv.version']"
    assert f"modules of the controller: {modules}" in session.output


def test_ordinary_tests_are_not_changed(tmp_path: Path) -> None:
    project = make_project(tmp_path, ORDINARY)
    (project / "test_unused.py").write_text(UNUSED)
    with_plugin = Session(project)
    assert "30 passed" in with_plugin.output, with_plugin.output  # 29 of the ordinary ones, and the one on imports
    without = Session(project, "-p", "no:agentv", "--deselect", "test_unused.py")
    assert with_plugin.code == without.code == 1
    assert {name: word for name, word in with_plugin.outcomes.items() if "agentv" not in name} == without.outcomes
    assert rows(project) == []
    assert "agentv ==" not in with_plugin.output


def test_empty_answers_are_counted_in_a_note(tmp_path: Path) -> None:
    tests = "def test_empty(agentv): agentv.check(' ', regex={'pattern': 'sorry', 'expect': 'no_match'})\n"
    session = Session(make_project(tmp_path, tests))
    assert session.code == 0, session.output
    assert "note: 1 answer is empty" in session.output


@pytest.mark.parametrize(
    "options", [pytest.param((), id="one process"), pytest.param(("-n", "2"), id="xdist", marks=pytest.mark.nightly)]
)
def test_a_gate_without_a_judged_test_ends_the_session_with_exit_code_3(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    session = Session(tmp_path, "--agentv-gate", "pass_rate >= 90%", *options)
    assert session.code == 3
    assert "INCOMPLETE: no test was judged, so that no gate was checked: pass_rate >= 90%" in session.output


@pytest.mark.parametrize(("options", "code"), [(("--collect-only",), 0), (("-k", "nothing"), 5)])
def test_a_gate_of_a_session_without_tests_changes_no_exit_code(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    session = Session(tmp_path, "--agentv-gate", "pass_rate >= 90%", *options)
    assert session.code == code
    assert "no gate was checked" not in session.output


def test_a_gate_of_a_session_whose_tests_fail_keeps_their_exit_code(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): assert False\n")
    assert Session(tmp_path, "--agentv-gate", "pass_rate >= 90%").code == 1


def test_a_gate_that_cannot_be_parsed_is_an_error_before_any_test(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    session = Session(tmp_path, "--agentv-gate", "men > 0.9")
    assert session.code == 4
    assert "argument --agentv-gate: gate 'men > 0.9', column 1: " in session.output
    assert "passed" not in session.output


def test_a_wrong_number_of_trials_says_what_is_expected(tmp_path: Path) -> None:
    session = Session(tmp_path, "--agentv-trials", "x")
    assert "argument --agentv-trials: must be a whole number from 1, not 'x'" in session.output


@pytest.mark.parametrize(
    "options", [pytest.param((), id="one process"), pytest.param(("-n", "2"), id="xdist", marks=pytest.mark.nightly)]
)
def test_a_target_that_cannot_be_created_fails_its_tests(project: Path, options: tuple[str, ...]) -> None:
    missing = TARGETS.replace('mock, response: "Yes, within 30 days."', "python, callable: missing.py:answer")
    (project / "targets.yaml").write_text(missing)
    session = Session(project, "-k", "test_refunds or ordinary", *options)
    assert session.code == 3, session.output
    assert "INTERNALERROR" not in session.output
    assert session.outcomes == {
        "test_refunds[days]": "ERROR",
        "test_refunds[money]": "ERROR",
        "test_refunds[unjudged]": "ERROR",
        "test_ordinary": "PASSED",
    }
    assert "missing.py" in re.findall(r"^INCOMPLETE: .*", session.output, re.MULTILINE)[0]


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_case_waits_for_the_one_that_it_depends_on(project: Path, options: tuple[str, ...]) -> None:
    (project / "evals" / "steps.yaml").write_text(
        "target: dead\n"
        "evalcases:\n"
        "  - {id: first, expected_outcome: ok, input_messages: [{role: user, content: hi}],\n"
        "     evaluators: [{name: any, type: contains, value: Yes}]}\n"
        "  - {id: second, expected_outcome: ok, input_messages: [{role: user, content: hi}],\n"
        "     evaluators: [{name: any, type: contains, value: Yes}], execution: {depends_on: [first]}}\n"
    )
    (project / "conftest.py").write_text("def pytest_collection_modifyitems(items): items.reverse()\n")
    (project / "test_desk.py").write_text(
        "import pytest\n@pytest.mark.agentv('evals/steps.yaml')\ndef test_steps(): pass\n"
    )
    session = Session(project, *options)
    assert session.outcomes == {"test_steps[second]": "ERROR", "test_steps[first]": "ERROR"}, session.output
    (run,) = rows(project)
    kinds = {str(row["eval_id"]): row["error"]["kind"] for row in run}  # type: ignore[index]
    assert kinds["second"] == "dependency"
    assert kinds["first"] != "dependency"


MISTAKES = """
import pytest

@pytest.mark.parametrize("given", [
    {"contans": "y"},
    {"llm_judge": "Is polite", "judge": len},
    {"llm_judge": "Is polite", "judge": {"modl": "m"}},
])
def test_mistake(agentv, given):
    agentv.check("x", **given)

def test_judge_as_dict(agentv):
    said = '{"score": 1.0, "hits": [], "misses": [], "reasoning": "ok"}'
    agentv.check("x", llm_judge="Is polite", judge={"provider": "mock", "response": said})
"""


@pytest.mark.parametrize(
    "options", [pytest.param((), id="one process"), pytest.param(("-n", "1"), id="xdist", marks=pytest.mark.nightly)]
)
def test_a_mistake_in_a_check_is_shown_in_the_test_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    session = Session(make_project(tmp_path, MISTAKES), *options)
    assert session.outcomes["test_judge_as_dict"] == "PASSED", session.output
    for message in (
        "unknown evaluator type 'contans'",
        "judge must be the name of a target, provider:model or a dict with `provider`, not builtin_function_or_method",
        "a target given as an object needs a `provider`",
    ):
        assert message in session.output
    assert "1 passed" in session.output
    assert "site-packages" not in session.output
    assert "src/agentv" not in session.output


def stored_verdict(project: Path) -> tuple[int, str]:
    """Return exit code and sentence of the verdict that `agentv report` finds for the newest run."""
    command = [sys.executable, "-m", "agentv", "report", "latest", "-o", "report.json"]
    subprocess.run(command, cwd=project, capture_output=True, check=False)
    report = json.loads((project / "report.json").read_text())
    return report["exit_code"], report["verdict"]


EXPECTED_FAILURES = """
import pytest

def test_passes(agentv):
    agentv.check("30 days", contains="30 days")

@pytest.mark.xfail
def test_known(agentv):
    agentv.check("thirty days", contains="30 days")

def test_caught(agentv):
    with pytest.raises(AssertionError):
        agentv.check("thirty days", contains="30 days")

@pytest.mark.xfail
@pytest.mark.agentv("evals/refunds.yaml", case="money")
def test_known_case():
    pass
"""


@pytest.mark.parametrize(
    "options", [pytest.param((), id="one process"), pytest.param(("-n", "2"), id="xdist", marks=pytest.mark.nightly)]
)
def test_expected_failures_are_left_out_of_the_stored_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    project = make_project(tmp_path, EXPECTED_FAILURES)
    session = Session(project, *options)
    assert session.code == 0, session.output
    assert "PASS: 1 of 1 judged result passed (100 %)" in session.output
    assert stored_verdict(project)[0] == 0
    (run,) = rows(project)
    assert sorted(str(row["status"]) for row in run) == [
        "fail",
        "fail",
        "fail",
        "pass",
        "skipped",
        "skipped",
        "skipped",
    ]


def test_a_session_with_only_expected_failures_says_that_no_result_counts(tmp_path: Path) -> None:
    tests = (
        "import pytest\n"
        "def test_caught(agentv):\n"
        "    with pytest.raises(AssertionError): agentv.check('thirty days', contains='30 days')\n"
    )
    session = Session(make_project(tmp_path, tests))
    assert session.code == 0
    assert "NO GATE: no result counts; each was skipped, or its test expected that it does not pass." in session.output
    assert "INCOMPLETE" not in session.output


def test_failure_of_a_test_that_skips_for_another_reason_counts(tmp_path: Path) -> None:
    tests = (
        "import pytest\n"
        "def test_no_database(agentv):\n"
        "    with pytest.raises(AssertionError): agentv.check('thirty days', contains='30 days')\n"
        "    pytest.skip('no database here')\n"
    )
    project = make_project(tmp_path, tests)
    Session(project)
    assert stored_verdict(project)[0] == 1


def test_error_in_a_test_that_expects_a_failure_leaves_the_run_incomplete(tmp_path: Path) -> None:
    tests = (
        "import pytest\n"
        "def test_passes(agentv): agentv.check('30 days', contains='30 days')\n"
        "@pytest.mark.xfail\n@pytest.mark.agentv('evals/refunds.yaml', target='dead', case='days')\n"
        "def test_dead(): pass\n"
    )
    project = make_project(tmp_path, tests)
    Session(project)
    assert stored_verdict(project)[0] == 3


def test_test_of_a_skipped_case_is_skipped_with_the_reason(tmp_path: Path) -> None:
    tests = "import pytest\n@pytest.mark.agentv('evals/later.yaml')\ndef test_later(agentv): pass\n"
    project = make_project(tmp_path, tests)
    (project / "evals" / "later.yaml").write_text("evalcases: [{id: later, skip: needs a browser}]")
    session = Session(project, "-rs")
    assert "SKIPPED" in session.output
    assert "needs a browser" in session.output
    (run,) = rows(project)
    assert [row["status"] for row in run] == ["skipped"]


def test_gate_without_a_counted_result_ends_the_session_with_exit_code_3(project: Path) -> None:
    session = Session(project, "-k", "expected_failure", "--agentv-gate", "mean >= 0.5")
    assert session.outcomes == {"test_expected_failure": "PASSED"}
    assert session.code == 3, session.output


def test_case_that_one_test_expects_to_fail_and_another_does_not_is_a_failure(tmp_path: Path) -> None:
    both = EXPECTED_FAILURES + "\n@pytest.mark.agentv('evals/refunds.yaml', case='money')\ndef test_same(): pass\n"
    session = Session(make_project(tmp_path, both))
    assert session.code == 1
    assert "FAIL: 1 of 2 judged results passed (50 %)" in session.output


def test_run_of_a_session_whose_worker_died_is_incomplete(tmp_path: Path) -> None:
    tests = (
        "import os, pytest\n"
        "@pytest.mark.parametrize('n', range(20))\n"
        "def test_one(agentv, n):\n"
        "    if n == 9: os._exit(1)\n"
        "    agentv.check('30 days', contains='30 days')\n"
    )
    project = make_project(tmp_path, tests)
    session = Session(project, "-n", "1", "--max-worker-restart=0")
    assert session.code == 1, session.output
    sentence = "INCOMPLETE: worker gw0 of pytest-xdist died, and its tests have no result. 9 results are complete."
    assert sentence in session.output
    assert stored_verdict(project) == (3, sentence)
