"""How suspected regressions are called again: uncached, by targets that batch, and on other machines."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engine.test_target_answer_cache import HAS, JUDGE, case, target
from tests.support.cluster import ProcessMachines, run_on, stored_rows
from tests.support.fake_server import serving_fake

from agentv import EvaluatorConfig, evaluate
from agentv.types.results import RunReport

GATES = ("confirmed_regressions <= 0",)
NEVER = EvaluatorConfig("has", "contains", {"value": "never said"})


def test_neither_target_nor_judge_answers_a_re_run_from_the_cache(tmp_path: Path) -> None:
    with serving_fake(keep_requests=True) as server:
        called: dict[str, Any] = {"target": target(server), "folder": tmp_path, "cache": "on"}
        evaluate([case("a")], evaluators=[HAS], name="before", gates="none", **called)
        evaluate([case("a")], evaluators=[NEVER, JUDGE], gates="none", **called)  # its calls are cached now
        made = len(server.calls)
        report = evaluate([case("a")], evaluators=[NEVER, JUDGE], gates=GATES, baseline="before", **called)
        assert [row.cached for row in stored_rows(report)] == [True, False, False]
        assert len(server.calls) == made + 2 * 2
        assert report.exit_code == 1


BATCHES = """
import json, pathlib, sys
number = len(open("calls").readlines()) if pathlib.Path("calls").exists() else 0
ids = [pathlib.Path(file).stem for file in sys.argv[1:]]
print(*ids, file=open("calls", "a"))
broken = open("broken").read().split() if pathlib.Path("broken").exists() else []
for each in ids:
    print(json.dumps({"id": each, "text": "no" if each in broken else "answer " + each}))
"""


def batching_run(folder: Path, **options: Any) -> RunReport:
    command = {"command": f"{sys.executable} agent.py {{FILES}}", "cwd": str(folder)}
    settings = {"name": "batch", "provider": "cli", "provider_batching": True, **command}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [settings]}))
    return evaluate(folder / "suite.yaml", target="batch", **options)


def test_a_target_that_answers_in_batches_is_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)  # where the runs are stored
    (tmp_path / "agent.py").write_text(BATCHES)
    cases = []
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
        content = [{"type": "text", "value": "read it"}, {"type": "file", "value": f"{name}.txt"}]
        checks = [{"name": "has", "type": "equals", "value": f"answer {name}"}]
        message = {"role": "user", "content": content}
        cases.append({"id": name, "expected_outcome": "x", "input_messages": [message], "evaluators": checks})
    (tmp_path / "suite.yaml").write_text(json.dumps({"evalcases": cases}))
    assert batching_run(tmp_path, name="before").exit_code == 0
    (tmp_path / "broken").write_text("a c")
    report = batching_run(tmp_path, baseline="before", gates=GATES)
    assert report.exit_code == 1, report.verdict.sentence
    assert [case.result.eval_id for case in report.verdict.gates[0].cases] == ["a", "c"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:2] == ["a b c", "a b c"]
    assert sorted(" ".join(calls[2:]).split()) == ["a", "a", "c", "c"]


AGENT = """
import pathlib
async def answer(request):
    here = pathlib.Path(__file__).parent
    with (here / "calls").open("a") as calls:
        calls.write(request.eval_case_id + "\\n")
    broken = (here / "broken").read_text().split() if (here / "broken").exists() else []
    return "no" if request.eval_case_id in broken else "answer"
"""


@pytest.mark.parametrize("segments", [False, True])
def test_re_runs_are_made_on_other_machines(tmp_path: Path, segments: bool) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        'targets:\n  - {name: t, provider: python, workers: 2, callable: "../agent.py:answer"}\n'
    )
    message = "{role: user, content: q}"
    cases = "".join(f"  - {{id: {name}, expected_outcome: x, input_messages: [{message}]}}\n" for name in "abcd")
    head = "execution: {target: t, evaluators: [{name: has, type: contains, value: answer}]}\nevalcases:\n"
    (tmp_path / "suite.yaml").write_text(head + cases)
    asyncio.run(run_on(tmp_path, None, name="before"))
    (tmp_path / "broken").write_text("b")
    (tmp_path / "calls").unlink()
    options: dict[str, Any] = {"segments": str(tmp_path / "parts")} if segments else {}
    report = asyncio.run(run_on(tmp_path, ProcessMachines(2), baseline="before", gates=GATES, **options))
    assert report.exit_code == 1, report.verdict.sentence
    assert sorted((tmp_path / "calls").read_text().split()) == ["a", "b", "b", "b", "c", "d"]
    assert [row.eval_id for row in stored_rows(report) if row.rerun == "confirm"] == ["b", "b"]
    (named,) = report.verdict.gates[0].cases
    assert (named.result.eval_id, named.question, named.reruns) == ("b", "q", 2)
