"""Whole runs from files: what ends a run, what does not, and what is reported."""

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentv import (
    ConfigError,
    EvalCase,
    EvaluatorConfig,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    RunReport,
    evaluate,
    load_suite,
)
from agentv.scoring.keys.identity import (
    JUDGE_PROMPTS_VERSION,
    digest,
    evaluator_to_json,
    keys_of,
    score_key,
    target_key,
)
from agentv.types.events import RowFinished, RunEnded, RunEvent
from agentv.types.failures import Failure
from agentv.types.targets import ResolvedTarget

CASE = "{id: %s, expected_outcome: x, input_messages: [{role: user, content: hi}]}"
HAS_X = "execution: {evaluators: [{name: has, type: contains, value: x}]}"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunReport]:
    (tmp_path / ".git").mkdir()

    def go(targets: str, *cases: str, files: dict[str, str] | None = None, **options: Any) -> RunReport:
        lines = "\n".join(f"  - {CASE % case}" for case in cases or ("a",))
        (tmp_path / "suite.yaml").write_text(f"{HAS_X}\nevalcases:\n{lines}\n")
        (tmp_path / "targets.yaml").write_text(f"targets: [{targets}]")
        for name, text in (files or {}).items():
            (tmp_path / name).write_text(text)
        return evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", **options)

    return go


def cli_target(code: str, **settings: Any) -> str:
    command = f"{sys.executable} -c '{code}'".replace('"', '\\"')
    more = "".join(f", {key}: {json.dumps(value)}" for key, value in settings.items())
    return f'{{name: t, provider: cli, command_template: "{command}"{more}}}'


def stored(report: RunReport, name: str) -> list[dict[str, Any]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / name).read_text().splitlines()]


def test_a_failing_healthcheck_ends_the_run_before_any_case_is_spent(run: Callable[..., RunReport]) -> None:
    report = run(cli_target("print(1)", healthcheck={"type": "command", "command_template": "false"}))
    assert (report.exit_code, report.results) == (3, ())
    assert "healthcheck of target 't' failed" in report.verdict.sentence


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (", retry_timeouts: true", ("11", 1, None)),
        (", retry: {retry_timeouts: true}", ("11", 1, None)),
        ("", ("", 0, "target_timeout")),
    ],
)
def test_a_command_that_timed_out_runs_again_only_with_retry_timeouts(
    run: Callable[..., RunReport], tmp_path: Path, key: str, expected: tuple[str, int, str | None]
) -> None:
    # A shell starts within the second that it has, also on a busy machine.
    (tmp_path / "agent.sh").write_text('if [ "$1" = 1 ]; then echo 11; else exec tail -f /dev/null; fi')
    target = (
        "{name: t, provider: cli, command_template: 'sh agent.sh {ATTEMPT}', "
        f"timeout_seconds: 1, max_retries: 1, retry_initial_delay_ms: 1{key}}}"
    )
    (row,) = run(target, gates="none").results
    kind = None if row.error is None else row.error.kind
    assert (row.candidate_answer.strip(), row.attempt, kind) == expected


def test_every_try_of_a_call_is_kept_with_its_kind(run: Callable[..., RunReport]) -> None:
    target = (
        "{name: t, provider: mock, response: x, fail_every: 1, error: HTTP 503, max_retries: 2, initial_delay_ms: 1}"
    )
    report = run(target)
    (answer,) = stored(report, "answers.jsonl")
    assert answer["error"]["kind"] in ("server_error", "transport")
    assert {call["kind"] for call in answer["calls"]} == {answer["error"]["kind"]}


def test_provider_without_batches_is_noted_and_called_case_by_case(run: Callable[..., RunReport]) -> None:
    report = run("{name: t, provider: mock, response: x, provider_batching: true}", "a", "b")
    assert report.exit_code == 0
    assert any("cannot batch" in note for note in report.notes)


def test_the_same_case_id_in_two_suites_makes_two_rows(run: Callable[..., RunReport], tmp_path: Path) -> None:
    run("{name: t, provider: mock, response: x}")
    (tmp_path / "second.yaml").write_text((tmp_path / "suite.yaml").read_text())
    report = evaluate(tmp_path, folder=tmp_path / ".agentv")
    assert sorted(row.slot.suite for row in report.results) == ["second.yaml", "suite.yaml"]


def test_a_bad_line_far_down_a_stream_is_a_row_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    good = '{"id": "c%d", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}'
    lines = [good % number for number in range(1200)]
    lines[1100] = '{"id": "c1100", "expected_outcom": "x"}'
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    (tmp_path / "data.yaml").write_text(HAS_X)
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: x}]")
    report = evaluate(tmp_path / "data.jsonl", folder=tmp_path / ".agentv")
    assert (report.exit_code, len(report.results)) == (4, 1200)
    (bad,) = (row for row in report.results if row.error)
    assert bad.error is not None
    assert (bad.error.kind, bad.line) == ("config_error", 1101)
    assert "expected_outcom" in bad.error.message


def test_workers_bound_how_many_rows_are_worked_on_at_once() -> None:
    busy, most = 0, 0

    async def task(_request: ProviderRequest) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(5):
            await asyncio.sleep(0)
        busy -= 1
        return "x"

    cases = [EvalCase(f"c{n}", "?") for n in range(20)]
    has_x = EvaluatorConfig("has", "contains", {"value": "x"})
    evaluate(cases, task=task, evaluators=[has_x], workers=3)
    assert most == 3
    most = 0
    evaluate(cases, task=task, evaluators=[has_x])
    assert most == 1


def test_twenty_transport_failures_in_a_row_stop_the_target() -> None:
    calls = itertools.count()

    class Unreachable:
        kind = "unreachable"

        async def invoke(self, _request: ProviderRequest) -> ProviderResponse:
            next(calls)
            raise ProviderError(Failure("transport", "connection refused"))

    cases = [EvalCase(f"c{n}", "?") for n in range(30)]
    report = evaluate(cases, target=Unreachable(), evaluators=[EvaluatorConfig("h", "contains", {"value": "x"})])
    assert next(calls) == 20
    errors = [row.error for row in report.results if row.error]
    assert len(errors) == 30
    assert {error.kind for error in errors} == {"transport"}
    assert errors[-1].message.startswith("not called: target 'target' was stopped")


def test_a_secret_of_the_target_never_reaches_a_file(run: Callable[..., RunReport], tmp_path: Path) -> None:
    code = 'import os; print("x", os.environ["AGENT_TOKEN"])'
    (tmp_path / ".env").write_text("AGENT_TOKEN=very-secret-token\n")
    target = cli_target(code).removesuffix("}") + ", env: {AGENT_TOKEN: '${{ AGENT_TOKEN }}'}}"
    report = run(target)
    assert report.results[0].candidate_answer.strip() == "x ***"
    assert report.folder is not None
    for path in Path(report.folder).iterdir():
        if path.is_file():
            assert "very-secret-token" not in path.read_text(), path.name


def test_answers_are_kept_before_they_are_judged(run: Callable[..., RunReport]) -> None:
    report = run("{name: t, provider: mock, response: x}", "a", "b", trials=2)
    answers, rows, cases = (stored(report, f"{name}.jsonl") for name in ("answers", "results", "cases"))
    assert [(row["slot"]["eval_id"], row["slot"]["trial"]) for row in answers] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    assert [row["answer_ref"]["seq"] for row in rows] == [row["seq"] for row in answers]
    assert [row["answer_key"] for row in rows] == [row["answer_key"] for row in answers]
    assert len({row["answer_key"] for row in answers}) == 4
    assert [case["eval_id"] for case in cases] == ["a", "b"]


def test_reordering_and_renaming_changes_no_key(run: Callable[..., RunReport], tmp_path: Path) -> None:
    def keys(report: RunReport) -> dict[str, tuple[str, str]]:
        return {row.eval_id: (row.answer_key, row.score_keys["has"]) for row in report.results}

    target = "{name: t, provider: mock, response: x}"
    before = keys(run(target, "a", "b"))
    run(target, "b", "c", "a")
    (tmp_path / "suite.yaml").rename(tmp_path / "renamed.yaml")
    after = keys(evaluate(tmp_path / "renamed.yaml", folder=tmp_path / ".agentv"))
    assert {name: after[name] for name in before} == before
    changed = keys(run(target.replace("response: x", "response: xy"), "a"))
    assert changed["a"] != before["a"]


def test_a_changed_judge_script_changes_its_score_key_and_no_answer_key(tmp_path: Path) -> None:
    judge = tmp_path / "judge.py"
    case = EvalCase("a", "hi")
    config = EvaluatorConfig("j", "code_judge", {"script": [sys.executable, "judge.py"]}, base_dir=str(tmp_path))

    def keys(score: float) -> tuple[str, str]:
        judge.write_text(f"print('{{\"score\": {score}}}')")
        (row,) = evaluate([case], task=lambda _request: "x", evaluators=[config]).results
        return row.answer_key, row.score_keys["j"]

    first, second = keys(1), keys(0.5)
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_the_version_of_the_judge_prompts_is_in_the_score_keys_of_judges_alone() -> None:
    judge = {"provider": "mock", "response": '{"score": 1}'}
    configs = [EvaluatorConfig("j", "llm_judge", {"target": judge}), EvaluatorConfig("r", "contains", {"value": "x"})]
    case = EvalCase("a", "hi", expected_outcome="Says x")
    (row,) = evaluate([case], task=lambda _request: "x", evaluators=configs).results
    judge_key = target_key(ResolvedTarget("mock", "mock", None, {"response": judge["response"]}))

    def expected_key(config: EvaluatorConfig, *parts: str) -> str:
        setup = digest([evaluator_to_json(config), [], list(parts)])
        return score_key(answer=row.answer_key, expectation=keys_of(case, ()).expectation, setup_digest=setup)

    assert row.score_keys["r"] == expected_key(configs[1])
    assert row.score_keys["j"] == expected_key(configs[0], judge_key, f"judge prompts {JUDGE_PROMPTS_VERSION}")


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"deeper": value}
    return value


def calls(given: Any) -> dict[str, Any]:
    return {"text": "x", "output_messages": [{"role": "assistant", "tool_calls": [{"tool": "t", "input": given}]}]}


HAS = EvaluatorConfig("has", "contains", {"value": "x"})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda: calls(deep(600)), "unexpected_shape"),
        (lambda: calls({"n": float("nan")}), None),
        (lambda: {"text": "x", "output_messages": [{"role": "assistant", "content": {1: "x"}}]}, None),
        (lambda: ProviderResponse("x", cost_usd=float("nan")), None),
        (lambda: ProviderResponse(7), "unexpected_shape"),  # type: ignore[arg-type]  # what plug-ins do
        (lambda: ProviderResponse("x", output_messages=("no message",)), "unexpected_shape"),  # type: ignore[arg-type]
        (lambda: 12, "unexpected_shape"),
        (lambda: (_ for _ in ()).throw(asyncio.CancelledError), "plugin_error"),
        (lambda: (_ for _ in ()).throw(SystemExit), "plugin_error"),
        (lambda: "\ud800 x" + "y" * 300_000, None),
    ],
    ids=["deep", "nan", "int key", "nan cost", "no text", "no message", "no answer", "cancels", "exits", "surrogate"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_hostile_answer_costs_its_own_row_at_most(
    tmp_path: Path, answer: Callable[[], Any], kind: str | None, is_async: bool
) -> None:
    def plain(request: ProviderRequest) -> Any:
        return answer() if request.eval_case_id == "c1" else "x"

    async def waiting(request: ProviderRequest) -> Any:
        return plain(request)

    cases = [EvalCase(f"c{n}", "?") for n in range(4)]
    task = waiting if is_async else plain
    report = evaluate(cases, task=task, evaluators=[HAS], folder=tmp_path, max_retries=0)
    assert report.state == "finished"
    found = {row.eval_id: None if row.error is None else row.error.kind for row in report.results}
    assert found == {"c0": None, "c1": kind, "c2": None, "c3": None}
    assert len(stored(report, "results.jsonl")) == 4


@pytest.mark.parametrize(
    "output",
    [
        lambda: (_ for _ in ()).throw(asyncio.CancelledError),
        lambda: (_ for _ in ()).throw(TimeoutError("db connection timed out")),
        lambda: None,
        lambda: "1.0",
    ],
    ids=["cancels", "own timeout", "nothing", "text"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_hostile_evaluator_costs_its_own_rows_at_most(output: Callable[[], Any], is_async: bool) -> None:
    class Sync:
        kind = name = "own"

        def evaluate(self, _context: Any) -> Any:
            return output()

    class Async:
        kind = name = "own"

        async def evaluate(self, _context: Any) -> Any:
            return output()

    cases = [EvalCase(f"c{n}", "?") for n in range(3)]
    report = evaluate(cases, task=lambda _request: "x", evaluators=[HAS, Async() if is_async else Sync()])
    assert [row.status for row in report.results] == ["error"] * 3
    assert report.exit_code == 3
    error = report.results[0].evaluator_results[1].error
    assert error is not None
    assert "within" not in error.message, "its own time-out is not our deadline"


def test_a_judge_that_no_evaluator_asks_needs_no_key(run: Callable[..., RunReport]) -> None:
    target = "{name: t, provider: mock, response: x, judge_target: j}"
    judge = "{name: j, provider: openai, model: m, api_key: '${{ NOT_SET }}'}"
    report = run(f"{target}, {judge}", target="t")
    assert report.exit_code == 0


def test_a_judges_failing_healthcheck_ends_the_run_before_any_case_is_spent(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    judge = cli_target("print(1)", healthcheck={"type": "command", "command_template": "false"})
    targets = "{name: a, provider: mock, response: x, judge_target: t}, " + judge
    run("{name: a, provider: mock, response: x}")
    (tmp_path / "suite.yaml").write_text(f"evalcases:\n  - {CASE % 'a'}\n")
    (tmp_path / "targets.yaml").write_text(f"targets: [{targets}]")
    report = evaluate(tmp_path / "suite.yaml", target="a", folder=tmp_path / ".agentv")
    assert (report.exit_code, report.results) == (3, ())


def test_a_provider_that_ignores_its_deadline_is_cut_off() -> None:
    class Hangs:
        kind = "hangs"

        async def invoke(self, _request: ProviderRequest) -> ProviderResponse:
            await asyncio.Event().wait()
            return ProviderResponse("x")

    case = EvalCase("a", "?")
    (row,) = evaluate([case], target=Hangs(), evaluators=[HAS], timeout_s=0.01).results
    assert row.error is not None
    assert row.error.kind == "deadline"


def test_secrets_are_redacted_in_calls_judges_and_evaluators(tmp_path: Path, run: Callable[..., RunReport]) -> None:
    (tmp_path / ".env").write_text("AGENT_TOKEN=very-secret-token\n")
    code = 'import os, sys; sys.exit("cannot log in with " + os.environ["AGENT_TOKEN"])'
    report = run(cli_target(code).removesuffix("}") + ", env: {AGENT_TOKEN: '${{ AGENT_TOKEN }}'}}")
    assert "cannot log in with ***" in str(stored(report, "answers.jsonl")[0]["calls"])
    judge = "import sys; sys.exit('no judge for very-secret-token')"
    config = EvaluatorConfig("j", "code_judge", {"script": [sys.executable, "-c", judge]})
    again = evaluate(
        tmp_path / "suite.yaml", target="t", evaluators=[config], folder=tmp_path / ".agentv", max_retries=0
    )
    assert again.results
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: t, provider: cli, command_template: 'echo x', env: {AGENT_TOKEN: '${{ AGENT_TOKEN }}'}}]"
    )
    (row,) = evaluate(tmp_path / "suite.yaml", evaluators=[config], folder=tmp_path / ".agentv").results
    assert "very-secret-token" not in repr(row)
    assert "no judge for ***" in repr(row)


def test_each_suite_reads_the_variables_beside_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: '${{ WHO }}'}]")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").write_text(f"WHO=answer-of-{name}\n")
        (tmp_path / name / "suite.yaml").write_text(f"{HAS_X}\nevalcases:\n  - {CASE % 'a'}\n")
    report = evaluate(tmp_path, folder=tmp_path / ".agentv", gates="none")
    answers = {row.slot.suite: row.candidate_answer for row in report.results}
    assert answers == {"one/suite.yaml": "answer-of-one", "two/suite.yaml": "answer-of-two"}


def test_suites_that_share_a_target_share_its_workers(tmp_path: Path) -> None:
    busy, most = 0, 0

    async def task(_request: ProviderRequest) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(5):
            await asyncio.sleep(0)
        busy -= 1
        return "x"

    (tmp_path / ".git").mkdir()
    for number in range(4):
        (tmp_path / f"s{number}.yaml").write_text(f"{HAS_X}\nevalcases:\n  - {CASE % 'a'}\n  - {CASE % 'b'}\n")
    report = evaluate(tmp_path, task=task, folder=tmp_path / ".agentv")
    assert (len(report.results), most) == (8, 1)


def test_a_suite_at_hand_finds_the_targets_and_gates_of_its_folder(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    run("{name: t, provider: mock, response: x}")
    (tmp_path / ".agentv.yaml").write_text("gates: ['mean >= 0.5']")
    report = evaluate(load_suite(tmp_path / "suite.yaml"), target="t")
    assert report.verdict.gates[0].expression == "mean >= 0.5"


def test_observer_with_hears_gets_only_those_events(tmp_path: Path) -> None:
    class Watching:
        def __init__(self) -> None:
            self.events: list[str] = []

        def notify(self, event: RunEvent) -> None:
            self.events.append(type(event).__name__)

        def close(self) -> None:
            """Do nothing: nothing is open."""

    class Choosing(Watching):
        event_types = (RowFinished, RunEnded)

    choosing, watching = Choosing(), Watching()
    case = EvalCase("a", "?")
    evaluate([case], task=lambda _request: "x", evaluators=[HAS], observers=[choosing, watching], folder=tmp_path)

    assert choosing.events == ["RowFinished", "RunEnded"]
    assert watching.events == ["RunStarted", "RowBegun", "AnswerArrived", "RowFinished", "RunEnded"]


def test_observer_with_any_attribute_gets_every_event(tmp_path: Path) -> None:
    events: list[str] = []

    class Obliging:
        def notify(self, event: RunEvent) -> None:
            events.append(type(event).__name__)

        def __getattr__(self, name: str) -> "Obliging":
            return self

        def close(self) -> None:
            """Do nothing: nothing is open."""

    observer = Obliging()
    case = EvalCase("a", "?")
    evaluate([case], task=lambda _request: "x", evaluators=[HAS], observers=[observer], folder=tmp_path)

    assert events == ["RunStarted", "RowBegun", "AnswerArrived", "RowFinished", "RunEnded"]


def test_observer_with_a_closed_pipe_is_removed(tmp_path: Path) -> None:
    events: list[str] = []

    class Gone:
        def notify(self, event: RunEvent) -> None:
            events.append(type(event).__name__)
            if isinstance(event, RowFinished):
                raise BrokenPipeError

        def close(self) -> None:
            """Do nothing: nothing is open."""

    cases = [EvalCase(name, "?") for name in "abc"]
    report = evaluate(cases, task=lambda _request: "x", evaluators=[HAS], observers=[Gone()], folder=tmp_path)

    assert events == ["RunStarted", "RowBegun", "AnswerArrived", "RowFinished"]
    assert len(report.results) == 3


def test_an_expected_outcome_from_python_may_be_more_than_a_text(tmp_path: Path) -> None:
    case = EvalCase("a", "?", expected_outcome={"answer": 4})  # type: ignore[arg-type]  # what people hand over
    report = evaluate([case], task=lambda _request: "x", evaluators=[HAS], folder=tmp_path)

    assert report.results[0].error is None


def test_observers_are_closed_once(tmp_path: Path) -> None:
    class Watching:
        def __init__(self) -> None:
            self.closed = 0

        def notify(self, event: Any) -> None:
            pass

        def close(self) -> None:
            self.closed += 1

    watching = Watching()
    case = EvalCase("a", "?")
    evaluate([case], task=lambda _request: "x", evaluators=[HAS], observers=[watching], folder=tmp_path)
    assert watching.closed == 1


BATCH_AGENT = """
import json, pathlib, sys
cases, out, run = map(pathlib.Path, sys.argv[1:4])
(kept,) = (run / "runs").iterdir()
stored = len((kept / "cases.jsonl").read_text().splitlines())
answers = [json.loads(line) for line in cases.read_text().splitlines()]
out.write_text("".join(json.dumps({"id": case["id"], "text": f"x {stored}"}) + "\\n" for case in answers))
"""


def test_batch_is_saved_before_scoring_and_stops_with_fail_fast(run: Callable[..., RunReport], tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(BATCH_AGENT)
    command = f"{sys.executable} agent.py {{CASES_FILE}} {{OUTPUT_FILE}} {tmp_path / '.agentv'}"
    target = f"{{name: t, provider: cli, command_template: '{command}', provider_batching: true}}"
    report = run(target, "a", "b", "c", evaluators=[EvaluatorConfig("no", "contains", {"value": "zzz"})], fail_fast=1)
    assert report.exit_code == 1
    assert [row.candidate_answer for row in report.results] == ["x 3"]
    assert len(stored(report, "answers.jsonl")) == 3


def test_tags_of_suite_and_case_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    case = "{id: a, tags: [smoke], expected_outcome: x, input_messages: [{role: user, content: hi}]}"
    (tmp_path / "suite.yaml").write_text(f"tags: [smoke]\n{HAS_X}\nevalcases:\n  - {case}\n")
    (row,) = evaluate(tmp_path / "suite.yaml", task=lambda _request: "x", folder=tmp_path / ".agentv").results
    assert row.tags == ("smoke",)


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"trials": -1}, {"sample": 0}, {"timeout_s": 0}, {"only": "cheap"}, {"max_errors": -1}]
)
def test_options_that_no_run_can_be_made_with_are_refused(options: dict[str, Any]) -> None:
    case = EvalCase("a", "?")
    with pytest.raises(ConfigError, match=next(iter(options))):
        evaluate([case], task=lambda _request: "x", evaluators=[HAS], **options)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_cannot_weigh_is_refused(weight: float) -> None:
    case = EvalCase("a", "?")
    with pytest.raises(ConfigError, match=r"\$.weight  must be (at least 0|a finite number)"):
        evaluate(
            [case], task=lambda _request: "x", evaluators=[EvaluatorConfig("a", "contains", {"value": "x"}, weight)]
        )


def test_late_line_of_a_stream_is_checked_before_the_run(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    line = '{"id": "c%d", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}], %s}'
    judge = '"evaluators": [{"name": "j", "type": "llm_judge", "target": "%s"}]'
    lines = [line % (number, judge % ("nosuch" if number == 31 else "t")) for number in range(60)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    (tmp_path / "data.yaml").write_text("description: judged")
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: x}]")
    with pytest.raises(ConfigError, match="nosuch"):
        evaluate(tmp_path / "data.jsonl", folder=tmp_path / ".agentv")


def test_request_is_saved_with_the_answer(run: Callable[..., RunReport]) -> None:
    report = run("{name: t, provider: mock, response: x}")
    assert stored(report, "answers.jsonl")[0]["request"] == {"question": "hi"}
    assert report.results[0].agent_provider_request == {"question": "hi"}
