"""Amounts, durations and times of older versions and other programs, which cannot be one, in stored runs."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentv import EvalCase, EvaluatorConfig, evaluate
from agentv.cli.main import agentv
from agentv.storage.records.decode import ANSWERS, RESULTS
from agentv.types.errors import AgentvError
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import ProviderRequest, ProviderResponse
from agentv.types.usage import Usage

WRONG: list[Any] = [-5, 2e9, 10**400]


def answered(_request: ProviderRequest) -> ProviderResponse:
    return ProviderResponse("said", usage=Usage(input=3, output=4, total=7, requests=1), cost_usd=0.5)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of two cases."""
    monkeypatch.chdir(tmp_path)
    cases = [EvalCase(name, "hi", expected_outcome="x") for name in ("a", "b")]
    has = EvaluatorConfig("has", "contains", {"value": "said"})
    report = evaluate(cases, task=answered, evaluators=[has], folder=tmp_path / ".agentv")
    assert report.folder is not None
    return Path(report.folder)


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


@pytest.mark.parametrize("cost", WRONG, ids=["negative", "large", "400 digits"])
def test_a_cost_that_cannot_be_one_is_unknown_also_in_sums(run: Path, cost: Any) -> None:
    row, answer = lines(run, "results.jsonl")[0], lines(run, "answers.jsonl")[0]
    row["usage_by"]["target"]["cost_usd"] = cost
    read = RESULTS.of_line(json.dumps(row).encode())
    assert (read.cost_usd, read.target_cost_usd, read.target_usage and read.target_usage.total) == (None, None, 7)
    answer["calls"] = [{**answer["calls"][0], "cost_usd": cost}]
    stored = ANSWERS.of_line(json.dumps(answer).encode())
    assert (stored.cost_usd, stored.billed_usd, stored.calls[0].cost_usd) == (None, None, None)


@pytest.mark.parametrize("count", [-1, 10**16, 10**400], ids=["negative", "large", "400 digits"])
def test_a_usage_with_a_wrong_count_is_unknown(run: Path, count: Any) -> None:
    row, answer = lines(run, "results.jsonl")[0], lines(run, "answers.jsonl")[0]
    row["usage_by"]["target"]["output"] = answer["usage"]["output"] = count
    row["reasoning"] = "a text, not a count"
    read = RESULTS.of_line(json.dumps(row).encode())
    assert (read.target_usage, read.cost_usd, read.reasoning) == (None, 0.5, "a text, not a count")
    assert ANSWERS.of_line(json.dumps(answer).encode()).usage is None


@pytest.mark.parametrize("cost", WRONG, ids=["negative", "large", "400 digits"])
def test_reports_of_a_stored_run_do_not_add_it(run: Path, cost: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = lines(run, "results.jsonl")
    rows[0]["cost_usd"] = rows[0]["usage_by"]["target"]["cost_usd"] = cost
    (run / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    agentv.main(["report", run.name, "-o", "report.json"], standalone_mode=False)
    (target,) = json.loads(Path("report.json").read_text())["targets"]
    assert target["cost_usd"]["target"] is None
    for command in (["show", run.name], ["compare", run.name, run.name], ["trend"]):
        agentv.main(command, standalone_mode=False)
    assert "-" in capsys.readouterr().out


def answered_with_a_call(_request: ProviderRequest) -> ProviderResponse:
    message = Message("assistant", "said", tool_calls=(ToolCall("look", {"a": 1}, duration_ms=5.0),))
    return ProviderResponse("said", output_messages=(message,))


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


IMPOSSIBLE: dict[str, tuple[str, tuple[str | int, ...], Any]] = {
    "a time after 9999": ("results.jsonl", ("timestamp",), "9999-12-31T23:59:59-23:59"),
    "a time before 1": ("results.jsonl", ("timestamp",), "0001-01-01T00:00:00+23:59"),
    "a start before 1": ("answers.jsonl", ("started_at",), "0001-01-01T00:00:00+23:59"),
    "a run before 1": ("run.json", ("created_at",), "0001-01-01T00:00:00+23:59"),
    "a duration of 308 digits": ("results.jsonl", ("duration_ms",), 1e308),
    "a duration of 400 digits": ("results.jsonl", ("duration_ms",), 10**400),
    "an evaluator's duration": ("results.jsonl", ("evaluator_results", 0, "duration_ms"), -(10**400)),
    "a wait": ("answers.jsonl", ("calls", 0, "wait_ms"), 10**400),
    "a duration of a tool": ("answers.jsonl", ("output_messages", 0, "tool_calls", 0, "duration_ms"), 10**400),
    "a deep input of a tool": ("answers.jsonl", ("output_messages", 0, "tool_calls", 0, "input"), deep(700)),
}


@pytest.mark.parametrize(("name", "path", "value"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_commands_treat_impossible_values_as_unknown(
    name: str, path: tuple[str | int, ...], value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [EvalCase(each, "hi", expected_outcome="x") for each in ("a", "b")]
    has = EvaluatorConfig("has", "contains", {"value": "said"})
    folders = [
        Path(str(evaluate(cases, task=answered_with_a_call, evaluators=[has], folder=tmp_path / ".agentv").folder))
        for _ in range(2)
    ]
    whole = json.loads((folders[0] / name).read_text()) if name == "run.json" else lines(folders[0], name)[0]
    rest = [] if name == "run.json" else lines(folders[0], name)[1:]
    holder: Any = whole
    for key in path[:-1]:
        holder = holder[key]
    assert path[-1] in holder
    holder[path[-1]] = value
    (folders[0] / name).write_text("".join(json.dumps(line) + "\n" for line in (whole, *rest)))
    ids = [folder.name for folder in folders]
    reports = [["report", ids[0], "--format", kind] for kind in ("html", "md", "junit.xml", "csv", "json")]
    trace = ["report", ids[0], "--format", "yaml", "--include-trace"]
    shows = [["show", ids[0]], ["show", ids[0], "a"], ["show", ids[0], "--json"]]
    for command in (*shows, *reports, trace, ["compare", *ids], ["trend"], ["runs", "list"]):
        with suppress(AgentvError):  # a clear error is as good
            agentv.main(command, standalone_mode=False)
