"""Seed evaluation.md: commands as targets, batching, workers."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest


def suite_of(*ids: str, expected: str = "ok", workers: int | None = None) -> str:
    cases = [
        {
            "id": case_id,
            "expected_outcome": "Answers",
            "input_messages": [{"role": "user", "content": f"question {case_id}"}],
            "evaluators": [{"name": "answer", "type": "contains", "value": expected}],
        }
        for case_id in ids
    ]
    return json.dumps({"evalcases": cases, **({"execution": {"workers": workers}} if workers else {})})


def target_of(command: str, **settings: Any) -> str:
    return json.dumps({"targets": [{"name": "t", "provider": "cli", "command_template": command, **settings}]})


def script(text: str, *arguments: str) -> str:
    return " ".join(shlex.quote(part) for part in (sys.executable, "-c", text)) + "".join(f" {a}" for a in arguments)


# --- mock --------------------------------------------------------------------------------------------------------


def test_mock_provider_for_dry_run(run: Callable[..., Any]) -> None:
    targets = "targets: [{name: t, provider: mock, response: {a: ok a, b: ok b}, delay_ms: 20}]"
    done = run(suite_of("a", "b"), targets=targets)
    assert [row["candidate_answer"] for row in done.rows] == ["ok a", "ok b"]
    assert all(row["duration_ms"] >= 20 for row in done.rows)


# --- workers -----------------------------------------------------------------------------------------------------

# A call waits for two others: they meet only if three really run at the same time.
MEET = """
import threading
three = threading.Barrier(3)

def answer(request):
    try:
        three.wait(timeout=WAIT)
    except threading.BrokenBarrierError:
        return "alone"
    return "together"
"""


@pytest.mark.parametrize(
    ("options", "settings", "answer"),
    [
        (["--workers", "3"], {"workers": 1}, "together"),
        ([], {"workers": 3}, "together"),
        (["--workers", "1"], {"workers": 3}, "alone"),
        ([], {}, "alone"),
    ],
)
def test_configurable_concurrency(
    options: list[str], settings: dict[str, int], answer: str, run: Callable[..., Any]
) -> None:
    target = {"name": "t", "provider": "python", "callable": "agent.py:answer", **settings}
    wait_s = "10" if answer == "together" else "0.1"
    files = {"agent.py": MEET.replace("WAIT", wait_s)}
    done = run(suite_of("a", "b", "c"), *options, targets=json.dumps({"targets": [target]}), files=files)
    assert [row["candidate_answer"] for row in done.rows] == [answer] * 3


def test_error_isolation_in_parallel_mode(run: Callable[..., Any]) -> None:
    broken = script("import sys; sys.exit(3) if sys.argv[1] == 'b' else print('ok')", "{EVAL_ID}")
    done = run(suite_of("a", "b", "c", "d"), "--workers", "2", targets=target_of(broken, max_retries=0))
    statuses = {row["eval_id"]: row["status"] for row in done.rows}
    assert statuses == {"a": "pass", "b": "error", "c": "pass", "d": "pass"}


# --- batching ----------------------------------------------------------------------------------------------------

BATCH = """
import json, sys
cases = [json.loads(line) for line in open(sys.argv[1])] if sys.argv[3] == "batch" else [{"id": sys.argv[3]}]
open("starts.txt", "a").write(sys.argv[3] + "\\n")
if MODE == "breaks" and sys.argv[3] == "batch":
    sys.exit("no batches today")
answers = [{"id": case["id"], "text": "ok " + case["id"]} for case in reversed(cases)]
open(sys.argv[2], "w").write("".join(json.dumps(answer) + "\\n" for answer in answers))
"""


@pytest.mark.parametrize(("mode", "starts"), [("works", ["batch"]), ("breaks", ["batch", "a", "b", "c"])])
def test_enabled_for_batching_capable_provider(
    mode: str, starts: list[str], run: Callable[..., Any], tmp_path: Path
) -> None:
    command = script(BATCH.replace("MODE", repr(mode)), "{CASES_FILE}", "{OUTPUT_FILE}", "{EVAL_ID}")
    targets = target_of(command, provider_batching=True, max_retries=0)
    done = run(suite_of("a", "b", "c"), targets=targets)
    assert {row["eval_id"]: row["candidate_answer"] for row in done.rows} == {"a": "ok a", "b": "ok b", "c": "ok c"}
    assert tmp_path.joinpath("evals", "starts.txt").read_text().split() == starts


FILES_OF_A_BATCH = """
import json, sys
from pathlib import Path
eval_id, output, *files = sys.argv[1:]
open("starts.txt", "a").write(eval_id + "\\n")
answers = [{"id": Path(file).stem, "text": "ok " + Path(file).read_text()} for file in reversed(files)]
Path(output).write_text("".join(json.dumps(answer) + "\\n" for answer in answers))
"""


def test_enabled_for_batching_capable_provider_that_gets_the_files_of_all_cases(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    suite = json.loads(suite_of("a", "b", "c"))
    for case in suite["evalcases"]:
        case["input_messages"] = [{"role": "user", "content": [{"type": "file", "value": f"{case['id']}.txt"}]}]
    targets = target_of(script(FILES_OF_A_BATCH, "{EVAL_ID}", "{OUTPUT_FILE}", "{FILES}"), provider_batching=True)
    files = {f"evals/{case_id}.txt": f"order of {case_id}" for case_id in "abc"}
    done = run(json.dumps(suite), targets=targets, files=files)
    assert {row["eval_id"]: row["candidate_answer"] for row in done.rows} == {
        "a": "ok order of a",
        "b": "ok order of b",
        "c": "ok order of c",
    }
    assert tmp_path.joinpath("evals", "starts.txt").read_text().split() == ["batch"]


def test_enabled_for_batching_capable_provider_whose_reply_names_no_case(run: Callable[..., Any]) -> None:
    done = run(suite_of("a", "b"), targets=target_of("echo ok", provider_batching=True, max_retries=0))
    assert [(row["status"], row["candidate_answer"]) for row in done.rows] == [("error", ""), ("error", "")]
    assert "batch" in done.rows[0]["error"]["message"]


def test_fallback_when_provider_cannot_batch(run: Callable[..., Any], agentv: Callable[..., Any]) -> None:
    targets = "targets: [{name: t, provider: mock, response: ok, provider_batching: true}]"
    done = run(suite_of("a", "b"), "-v", targets=targets)
    assert [row["status"] for row in done.rows] == ["pass", "pass"]
    assert "batch" in done.output + done.errors
    assert agentv("check", "evals").code == 0


# --- commands ----------------------------------------------------------------------------------------------------

ECHO = """
import json, sys
prompt, guidelines, eval_id, attempt, output, *files = sys.argv[1:]
seen = {"prompt": prompt, "guidelines": guidelines, "eval_id": eval_id, "attempt": attempt, "files": files}
open(output, "w").write(json.dumps({"text": json.dumps({**seen, "output": output})}))
"""


def test_render_and_execute_template(run: Callable[..., Any], tmp_path: Path) -> None:
    message = {
        "role": "user",
        "content": [
            {"type": "text", "value": "it's; rm -rf $HOME"},
            {"type": "file", "value": "order.json"},
            {"type": "file", "value": "tone.instructions.md"},
        ],
    }
    case = {
        "id": "a",
        "expected_outcome": "Answers",
        "input_messages": [message],
        "evaluators": [{"name": "answer", "type": "contains", "value": "it's"}],
    }
    command = script(ECHO, "{PROMPT}", "{GUIDELINES}", "{EVAL_ID}", "{ATTEMPT}", "{OUTPUT_FILE}", "{FILES}")
    files = {"evals/order.json": '{"id": 7}', "evals/tone.instructions.md": "Be kind."}
    (row,) = run(json.dumps({"evalcases": [case]}), targets=target_of(command), files=files).rows
    seen = json.loads(row["candidate_answer"])
    assert "it's; rm -rf $HOME" in seen["prompt"]
    assert "Be kind." in seen["guidelines"]
    assert (seen["eval_id"], seen["attempt"]) == ("a", "0")
    assert str(tmp_path / "evals" / "order.json") in [str(Path(file).resolve()) for file in seen["files"]]
    assert not Path(seen["output"]).exists()


def test_render_and_execute_template_says_why_a_command_failed(run: Callable[..., Any]) -> None:
    command = script("import sys; sys.exit('the database is down')")
    (row,) = run(suite_of("a"), targets=target_of(command, max_retries=0)).rows
    assert row["error"]["kind"] == "target_exit"
    assert "1" in row["error"]["message"]
    assert "the database is down" in row["error"]["message"]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A web server that is well at /ok and ill anywhere else; with the paths it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/ok" else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}", asked
        httpd.shutdown()


def test_optional_health_check(run: Callable[..., Any], server: tuple[str, list[str]]) -> None:
    url, asked = server
    done = run(
        suite_of("a", "b"), targets=target_of(script("print('ok')"), healthcheck={"type": "http", "url": f"{url}/ok"})
    )
    assert [row["status"] for row in done.rows] == ["pass", "pass"]
    assert asked == ["/ok"]


@pytest.mark.parametrize(
    ("target", "own", "folder"),
    [({}, {}, "evals"), ({"cwd": "work"}, {}, "evals/work"), ({"cwd": "work"}, {"cwd": "probe"}, "evals/probe")],
)
def test_optional_health_check_runs_once_in_its_folder_before_the_first_request(
    target: dict[str, str], own: dict[str, str], folder: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    write = f"import os; open({str(log)!r}, 'a').write(%s)"
    probe = {"type": "command", "command_template": script(write % "os.getcwd() + os.linesep"), **own}
    answer = script(write % "'called' + os.linesep" + "; print('ok')")
    files = {"evals/work/notes.txt": "", "evals/probe/notes.txt": ""}
    done = run(suite_of("a", "b"), targets=target_of(answer, healthcheck=probe, **target), files=files)
    assert [row["status"] for row in done.rows] == ["pass", "pass"]
    assert log.read_text().splitlines() == [str((tmp_path / folder).resolve()), "called", "called"]


@pytest.mark.timeout(20)
def test_optional_health_check_that_takes_too_long_spends_no_case(run: Callable[..., Any], tmp_path: Path) -> None:
    answer = script("open('called.txt', 'w'); print('ok')")
    probe = {"type": "command", "command_template": "sleep 60", "timeout_seconds": 0.2}
    done = run(suite_of("a", "b"), targets=target_of(answer, healthcheck=probe))
    assert (done.code, done.rows) == (3, [])
    assert "healthcheck of target 't' failed" in done.output + done.errors
    assert list(tmp_path.rglob("called.txt")) == []


def test_optional_health_check_that_fails_spends_no_case(
    run: Callable[..., Any], server: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, _ = server
    answer = script("open('called.txt', 'w'); print('ok')")
    for healthcheck in (
        {"type": "http", "url": f"{url}/ill"},
        {"type": "command", "command_template": script("import sys; sys.exit(1)")},
    ):
        done = run(suite_of("a", "b"), targets=target_of(answer, healthcheck=healthcheck))
        assert done.code == 3
        assert list(tmp_path.rglob("called.txt")) == []


@pytest.fixture
def check(tmp_path: Path, agentv: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks a `cli` target with these settings."""

    def look(**settings: Any) -> Any:
        (tmp_path / "evals").mkdir(exist_ok=True)
        (tmp_path / "evals" / "suite.yaml").write_text(suite_of("a"))
        targets = {"targets": [{"name": "t", "provider": "cli", **settings}]}
        (tmp_path / "targets.yaml").write_text(json.dumps(targets))
        return agentv("check", "evals")

    return look


def test_required_template_fields(check: Callable[..., Any]) -> None:
    optional = {"filesFormat": "--file {path}", "cwd": ".", "timeoutSeconds": 5, "verbose": True}
    probe = {"type": "command", "commandTemplate": "true", "cwd": ".", "timeoutSeconds": 1}
    assert check(commandTemplate="echo hi", **optional, healthcheck=probe).code == 0
    for wrong in ({}, {"commandTemplate": ""}, {"commandTemplate": "echo", "comand": 1}):
        done = check(**wrong)
        assert done.code == 4
        assert "targets.yaml" in done.output + done.errors
    assert "command_template" in check().output + check().errors


def test_placeholder_substitution_rules(check: Callable[..., Any]) -> None:
    assert check(command_template="awk '{print}' {PROMPT_FILE} {lower}").code == 0
    done = check(command_template="agent {PROMT}")
    assert done.code == 4
    assert "PROMT" in done.output + done.errors
    assert "{PROMPT}" in done.output + done.errors


def test_health_check_schema(check: Callable[..., Any]) -> None:
    http = {"type": "http", "url": "http://localhost:1/", "timeoutSeconds": 2}
    assert check(command_template="echo", healthcheck=http).code == 0
    for wrong in (
        {"type": "tcp", "url": "http://localhost:1/"},
        {"type": "http"},
        {"type": "command"},
        {"type": "http", "url": "http://localhost:1/", "retries": 3},
    ):
        assert check(command_template="echo", healthcheck=wrong).code == 4, wrong
