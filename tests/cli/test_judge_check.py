"""`agentv judge check`: a run's judges called again on its stored answers."""

import json
import re
from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake
from tests.support.judged import JudgedProject, make_judged_project

ALWAYS_A = """
import json

def judge(request):
    nonce = request.metadata["nonce"]
    return json.dumps({"nonce": nonce, "reasoning": "it came first", "better": "A"})
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> JudgedProject:
    project = make_judged_project(tmp_path, monkeypatch, capsys)
    project.cases = 30
    project.run()
    return project


def run_files(project: JudgedProject) -> dict[str, bytes]:
    (folder,) = (project.folder / ".agentv" / "runs").iterdir()
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".jsonl"}


def judge_calls(project: JudgedProject) -> int:
    return (project.folder / "judge_calls").stat().st_size


def test_a_steady_judge_is_consistent_and_the_run_is_unchanged(project: JudgedProject) -> None:
    before, calls = run_files(project), judge_calls(project)
    code, out, err = project.call("judge", "check", "--repeats", "3")
    assert code == 0
    assert err == "repeating tone on 30 answers, 3 times each: about 90 calls, cost unknown\n"
    assert "For 100 % of 30 answers, all 3 calls gave the same verdict." in out
    assert "Inconsistent verdicts: 0" in out
    assert judge_calls(project) == calls + 90
    assert run_files(project) == before


def test_a_wavering_judge_is_found_out_with_what_it_said(project: JudgedProject) -> None:
    (project.folder / "wavers").touch()
    (check,) = project.json("judge", "check", "--repeats", "4", "--json")["checks"]
    assert check["same_verdict"]["value"] < 0.9
    assert check["score_deviation"] > 0
    assert check["alpha"] < 1
    assert {len(each["scores"]) for each in check["judged"]} == {4}
    _, out, _ = project.call("judge", "check", "--repeats", "4", "-o", "check.html", "-o", "check.md")
    page = Path("check.html").read_text()
    assert "Inconsistent verdicts" in out
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert "\x1b" not in out
    assert "0.20: `<script>" in Path("check.md").read_text()


def test_what_was_found_is_kept_beside_the_rows(project: JudgedProject) -> None:
    output = project.json("judge", "check", "--json")
    (file,) = (project.folder / ".agentv" / "runs").glob("*/judge-check.json")
    assert json.loads(file.read_text()) == output
    assert output["schema"] == "agentv-judge-check-1"
    assert project.call("report", "latest")[0] == 0


def test_a_sample_is_drawn_by_its_seed(project: JudgedProject) -> None:
    def cases(seed: str) -> set[str]:
        output = project.json("judge", "check", "--repeats", "1", "--sample", "5", "--seed", seed, "--json")
        return {each["eval_id"] for each in output["checks"][0]["judged"]}

    assert len(cases("1")) == 5
    assert cases("1") == cases("1")
    assert cases("1") != cases("2")


def test_trials_of_a_case_stay_apart(project: JudgedProject) -> None:
    project.call("run", project.suite, "--trials", "2", "--display", "none")
    (check,) = project.json("judge", "check", "--repeats", "2", "--json")["checks"]
    assert check["answers"] == 60
    assert {each["trial"] for each in check["judged"]} == {0, 1}
    assert check["same_verdict"]["cases"] == 30


def test_a_judge_that_always_prefers_the_first_answer_flips_with_the_order(project: JudgedProject) -> None:
    project.evaluators = "{name: better, type: pairwise, against: prompt}"
    project.write()
    (project.folder / "partial.py").write_text(ALWAYS_A)
    targets = project.folder / "targets.yaml"
    targets.write_text(targets.read_text().replace("judge.py:judge", "partial.py:judge"))
    code, out, err = project.call("run", project.suite, "--display", "plain")
    assert code in (0, 1), out + err
    (check,) = project.json("judge", "check", "--repeats", "1", "--json")["checks"]
    assert (check["position_flips"]["value"], check["position_flips"]["of"]) == (1.0, 30)
    _, out, _ = project.call("judge", "check", "--repeats", "1")
    assert re.search(r"verdicts that change when answers are swapped +100 % +88.6 to \S+ % +30", out)


def test_an_answer_whose_case_was_edited_is_left_out(project: JudgedProject) -> None:
    text = (project.folder / project.suite).read_text()
    (project.folder / project.suite).write_text(text.replace("question 7}", "something else}"))
    code, out, err = project.call("judge", "check", "--repeats", "1")
    assert code == 0
    assert "29 answers, with 1 call each" in out
    assert "skipped 1 answer whose case or target was edited since" in err


def test_a_budget_stops_at_the_first_call_without_a_cost(project: JudgedProject) -> None:
    calls = judge_calls(project)
    code, out, err = project.call("judge", "check", "--budget-usd", "1")
    assert (code, judge_calls(project)) == (2, calls + 1)
    assert "the budget of $1 cannot be enforced: a call of target 'judge' has no known cost" in out + err


def test_an_evaluator_without_a_judge_is_refused(project: JudgedProject) -> None:
    code, _, err = project.call("judge", "check", "--evaluator", "tune")
    assert code == 4
    assert "evaluator 'tune' called no judge; evaluators with a judge: tone" in err
    project.evaluators = "{name: has, type: contains, value: good}"
    project.run()
    code, _, err = project.call("judge", "check")
    assert code == 4
    assert "no evaluator called a judge" in err


def test_a_model_judge_is_called_again_over_the_network(project: JudgedProject) -> None:
    with serving_fake() as server:
        (project.folder / "targets.yaml").write_text(
            "targets:\n"
            '  - {name: agent, provider: python, callable: "agent.py:answer", judge_target: judge}\n'
            "  - {name: judge, provider: openai, model: gpt-4o-mini, api_key: none, "
            f"base_url: {server.url}/v1}}\n"
        )
        assert project.call("run", project.suite, "--display", "none")[0] in (0, 1)
        code, out, err = project.call("judge", "check", "--repeats", "2", "--sample", "10", "--budget-usd", "1")
        assert code == 0, err
        assert "about 20 calls, about " in err
        assert "For 100 % of 10 answers, both calls gave the same verdict." in out
        code, _, err = project.call("judge", "check", "--repeats", "2", "--budget-usd", "0.0004")
        assert code == 2
        assert "stopped before the end: " in err
