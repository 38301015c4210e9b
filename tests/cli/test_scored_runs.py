"""`agentv score` writes a run: every command that takes runs takes it, with the numbers of the way through `replay`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from statsmodels.regression.linear_model import OLS
from tests.support.command_line import Call, command_line

from agentv.engine.criteria.inputs import input_of
from agentv.messages.logs.reading import LoggedAnswer, read_logged
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun
from agentv.types.records.run import CaseRecord

CONFIG = """
evaluators:
  - {type: contains, name: polite, value: please, case_sensitive: false}
  - {type: length, name: short, max: 4, unit: words, weight: 3}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "judges.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def agentv(folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    assert folder.exists()

    return command_line(capsys)


def log(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def stored(folder: Path) -> StoredRun:
    """Return the latest run."""
    return StoredRun(list_run_folders(folder / ".agentv")[-1])


def score(agentv: Call, name: str, *options: str) -> tuple[int, str, str]:
    return agentv("score", f"{name}.jsonl", "--config", "judges.yaml", "--name", name, "--gate", "none", *options)


CALL = {"model": "m-1", "durationMs": 250, "usage": {"input": 3, "output": 4}, "costUsd": 0.01, "tags": ["shop"]}


def test_a_line_becomes_case_answer_and_row(folder: Path, agentv: Call) -> None:
    given = {"id": "q-1", "sessionId": "s", "prompt": "Where?", "response": "Wait, please.", "groundTruth": "Soon."}
    log(folder / "v1.jsonl", {**given, **CALL, "timestamp": 1_763_899_200_000, "metadata": {"lang": "en"}})
    assert score(agentv, "v1")[0] == 0
    run = stored(folder)
    (case,), (answer,), (row,) = run.cases(), run.answers(), run.results()
    assert (run.run.name, case.suite, case.eval_id, case.session_id) == ("v1", "judges.yaml", "q-1", "s")
    assert (case.question, case.reference_answer, case.tags) == ("Where?", "Soon.", ("shop",))
    assert (answer.text, answer.cost_usd, answer.duration_ms) == ("Wait, please.", 0.01, 250)
    assert answer.origin is not None
    assert (answer.origin.file, answer.origin.line, answer.ended_at.year) == ("v1.jsonl", 1, 2025)
    assert (row.slot.target, row.status, row.session_id) == ("v1", "pass", "s")
    assert row.metadata == {"lang": "en", "model": "m-1"}
    assert [each.name for each in row.evaluator_results] == ["polite", "short"]


def test_the_same_question_is_the_next_trial_of_its_case(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *[{"prompt": "Where?", "response": f"There {n}."} for n in range(3)], {"response": "No."})
    score(agentv, "v1", "--workers", "1")
    rows = list(stored(folder).results())
    assert len({row.eval_id for row in rows[:3]}) == 1
    assert [row.slot.trial for row in rows] == [0, 1, 2, 0]
    assert rows[3].eval_id == "v1.jsonl:4"  # without a question it is a case of its own


def test_a_field_of_the_line_names_its_target(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", {"id": "a", "response": "x", "model": "m-1"}, {"id": "b", "response": "y"})
    said = score(agentv, "v1", "--target-field", "model", "--workers", "1")[1]
    assert [row.slot.target for row in stored(folder).results()] == ["m-1", "v1"]
    assert "1 line has no 'model'; the line's 'target', or else the file's name, is used instead" in said


def test_a_pipe_need_not_be_stored(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", {"response": "x"})
    said = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--no-store")[1]
    assert "1 of 1" in said
    assert "Saved to" not in said
    assert not (folder / ".agentv").exists()
    code, _, problem = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--no-store", "--name", "x")
    assert (code, "--no-store and --name exclude each other" in problem) == (4, True)


def test_a_stored_run_gives_the_verdict_that_was_shown(folder: Path, agentv: Call) -> None:
    lines = [
        {"id": f"q-{n % 4}", "sessionId": f"s-{n % 3}", "response": "Wait, please." if n % 2 else "No."}
        for n in range(9)
    ]
    log(folder / "v1.jsonl", *lines, {"id": "broken"})
    code, said, _ = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--gate", "mean >= 0.2 with 95%")
    assert code == 3
    report = json.loads(agentv("report", "latest", "--json")[1])
    assert report["verdict"] in said
    assert f"{report['targets'][0]['pass_rate'] * 100:.3g} % of 9" in said


def test_answers_to_one_case_are_a_cluster_of_the_shown_interval(folder: Path, agentv: Call) -> None:
    lines = [{"id": f"q-{n % 3}", "response": "Wait, please." if n % 3 else "No."} for n in range(30)]
    log(folder / "v1.jsonl", *lines)
    said = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--gate", "mean >= 0.9 with 95%")[1]
    verdict: str = json.loads(agentv("report", "latest", "--json")[1])["verdict"]
    assert verdict in said


CRITERIA = """
criteria: [{name: polite, scale: likert5}, {name: brief, weight: 3}]
evaluators:
  - {type: contains, value: please, criterion: polite}
  - {type: length, max: 4, unit: words, criterion: brief}
gates: ["criterion(polite).pass_rate >= 60%", "criterion(brief).mean >= 0.9"]
"""


def test_named_criteria_on_scales_are_results_of_a_row(folder: Path, agentv: Call) -> None:
    (folder / "judges.yaml").write_text(CRITERIA)
    texts = ("Wait, please.", "No.", "Wait here a little longer, please.")
    log(folder / "v1.jsonl", *[{"id": f"{n}", "response": text} for n, text in enumerate(texts)])
    code, said, _ = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--workers", "1")
    assert (code, "criterion(brief).mean is 0.6667" in said) == (1, True)
    rows = list(stored(folder).results())
    assert [row.score for row in rows] == [1.0, 0.75, 0.25]
    scales = [(each.criterion_name, each.scale, each.score) for each in rows[1].evaluator_results[0].results]
    assert scales == [("polite", "likert5", 1)]
    code, shown, _ = agentv("report", "latest", "--exit-code")
    assert (code, "criterion(brief).mean is 0.6667" in shown) == (1, True)
    assert agentv("show", "latest", "--by", "criterion")[1].count("66.7 %") == 2


def test_results_are_grouped_by_any_key(folder: Path, agentv: Call) -> None:
    lines = [{"id": f"{n}", "response": "Wait, please.", "model": f"m-{n % 2}", "ts": 1_763_899_200} for n in range(4)]
    log(folder / "v1.jsonl", *lines)
    output = json.loads(score(agentv, "v1", "--by", "metadata.model", "--by", "week", "--json")[1])
    assert sorted((each["by"], each["name"], each["judged"]) for each in output["groups"]) == [
        ("metadata.model", "m-0", 2),
        ("metadata.model", "m-1", 2),
        ("week", "2025-W47", 4),
    ]


def test_a_key_that_no_line_has_is_reported_with_those_that_there_are(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *[{"id": f"{n}", "response": "Wait, please.", "model": "m"} for n in range(2)])
    note = "Note: no line has 'metadata.modle' to group by; the metadata has the keys: model"
    assert note in score(agentv, "v1", "--by", "modle")[1].splitlines()
    for command in (["show", "v1"], ["report", "v1"], ["compare", "v1", "v1"]):
        code, _, err = agentv(*command, "--by", "modle")
        assert (code, "'metadata.modle' to group by; the metadata has the keys: model; or use one of" in err) == (
            4,
            True,
        )


def test_the_place_of_a_line_leads_to_its_case(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", {"id": "q-1", "response": "Wait."}, {"id": "q-2", "response": "Wait, please."})
    assert " v1.jsonl:1  " in score(agentv, "v1")[1]
    code, _, err = agentv("show", "v1", "v1.jsonl:1")
    assert code == 4
    assert err.endswith(" has no case 'v1.jsonl:1'. That line is the case 'q-1'.\n")


def test_a_report_groups_by_any_key_in_every_format(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *[{"id": f"{n}", "response": "Wait, please.", "model": f"m-{n % 2}"} for n in range(4)])
    score(agentv, "v1")
    code, said, _ = agentv("report", "v1", "--by", "model")
    assert (code, said.splitlines()[0].split()[0]) == (0, "metadata.model")
    assert agentv("report", "v1", "--by", "model", "-o", "v1.html", "-o", "v1.md", "-o", "v1.json")[0] == 0
    for name in ("v1.html", "v1.md", "v1.json"):
        assert "m-1" in (folder / name).read_text()
        assert "metadata.model" in (folder / name).read_text()


@pytest.mark.parametrize("command", ["report", "show", "trend"])
def test_commands_on_runs_take_it(folder: Path, agentv: Call, command: str) -> None:
    log(folder / "v1.jsonl", {"id": "a", "prompt": "Where?", "response": "Wait, please."})
    score(agentv, "v1")
    code, said, _ = agentv(command, *(["v1"] if command != "trend" else []))
    assert (code, "1.00" in said) == (0, True)


def test_people_label_its_answers_by_id(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", {"id": "a", "response": "Wait, please."})
    score(agentv, "v1")
    log(folder / "people.jsonl", {"eval_id": "a", "criterion": "polite", "score": 1, "annotator": "p"})
    assert agentv("label", "v1", "--in", "people.jsonl")[0] == 0
    assert [label.slot.eval_id for label in stored(folder).labels()] == ["a"]


SUITE = f"""
execution:
{CONFIG.replace(chr(10), chr(10) + "  ")}
evalcases: {{file: cases.jsonl}}
"""


@pytest.mark.parametrize("lines", [100, pytest.param(2_000, marks=pytest.mark.nightly)])
def test_numbers_are_those_of_the_way_through_replay(folder: Path, agentv: Call, lines: int) -> None:
    """Judging logs, and replaying them through a run, gives the same numbers to the last digit."""
    said = ("Wait, please.", "No.", "Please be patient with us today.", "Here you are, please, dear customer.")
    for name, shift in (("v1", 0), ("v2", 1)):
        log(
            folder / f"{name}.jsonl",
            *(
                {
                    "id": f"q-{n}",
                    "sessionId": f"s-{n // 3}",
                    "prompt": f"Question {n}?",
                    "response": said[(n * 7 + n // 5 + shift * (n % 3)) % len(said)],
                    "metadata": {"model": f"m-{n % 2}"},
                }
                for n in range(lines)
            ),
        )
    for name in ("v1", "v2"):
        score(agentv, name, "--workers", "1")
    log(
        folder / "cases.jsonl",
        *(
            {
                "id": f"q-{n}",
                "conversation_id": f"s-{n // 3}",
                "input_messages": [{"role": "user", "content": f"Question {n}?"}],
                "metadata": {"model": f"m-{n % 2}"},
            }
            for n in range(lines)
        ),
    )
    (folder / "suite.yaml").write_text(SUITE)
    for name in ("v1", "v2"):
        (folder / "targets.yaml").write_text(f"targets: [{{name: t, provider: replay, file: {name}.jsonl}}]")
        assert agentv("run", "suite.yaml", "--name", f"replayed-{name}", "--gate", "none")[0] == 0
    for formats in (["--by", "metadata.model"], [], ["--unpaired"]):
        scored, replayed = (
            json.loads(agentv("compare", *runs, *formats, "--format", "json")[1])
            for runs in (("v1", "v2"), ("replayed-v1", "replayed-v2"))
        )
        assert numbers(scored) == numbers(replayed)
    for name in ("v1", "v2"):
        scored, replayed = (json.loads(agentv("report", each, "--json")[1]) for each in (name, f"replayed-{name}"))
        for key in ("counts", "evaluators"):
            assert numbers(scored[key]) == numbers(replayed[key])
        same = ("pass_rate", "mean_score", "pass_rate_interval", "mean_interval", "counts")
        assert [scored["targets"][0][key] for key in same] == [replayed["targets"][0][key] for key in same]


def test_weeks_that_share_no_question_are_independent_samples_of_sessions(folder: Path, agentv: Call) -> None:
    weeks: dict[str, list[tuple[int, float]]] = {}
    for week, (name, polite) in enumerate((("v1", 3), ("v2", 2))):
        lines = [
            {
                "sessionId": f"{name}-{n // 4}",
                "prompt": f"Question {n} of week {week}?",
                "response": "No." if (n // 4) % polite == 0 or n % 7 == 0 else "Wait, please.",
            }
            for n in range(60)
        ]
        log(folder / f"{name}.jsonl", *lines)
        score(agentv, name)
        weeks[name] = [
            (week * 100 + n // 4, 0.75 if line["response"] == "No." else 1.0) for n, line in enumerate(lines)
        ]
    found = json.loads(agentv("compare", "v1", "v2", "--format", "json")[1])
    measured = found["measures"][0]
    assert (found["paired"], measured["clusters_before"], measured["clusters_after"]) == (False, 15, 15)
    rows = [(after, *row) for after, week in enumerate(weeks.values()) for row in week]
    design = np.array([[1.0, after] for after, _, _ in rows])
    groups = np.array([session for _, session, _ in rows])
    fit = OLS(np.array([value for *_, value in rows]), design).fit(cov_type="cluster", cov_kwds={"groups": groups})
    assert measured["difference"] == pytest.approx(float(fit.params[1]))
    half = (measured["interval"]["high"] - measured["interval"]["low"]) / 2
    # Student's quantile lies between that of all sessions and that of the sessions of one week.
    assert 1.96 < half / float(fit.bse[1]) < 2.3


def test_costs_that_were_not_logged_are_compared_with_nothing(folder: Path, agentv: Call) -> None:
    given = {"id": "q-1", "prompt": "Where?", "response": "Wait, please."}
    log(folder / "v1.jsonl", {**given, "costUsd": 0.5})
    log(folder / "v2.jsonl", given)
    for name in ("v1", "v2"):
        score(agentv, name)
    assert [(row.cost_usd, row.target_cost_usd) for row in stored(folder).results()] == [(None, None)]
    found = json.loads(agentv("compare", "v1", "v2", "--format", "json")[1])
    assert [each["measure"] for each in found["measures"] if each["measure"] == "cost_usd"] == []


def numbers(value: Any) -> Any:
    """Return all numbers of a report, in order, without those of time and cost."""
    if isinstance(value, dict):
        if value.get("measure") in ("latency_s", "cost_usd", "tokens"):
            return []
        items = {key: each for key, each in value.items() if key not in ("detail", "line")}
        return [found for each in items.values() for found in numbers(each)]
    if isinstance(value, list):
        return [found for each in value for found in numbers(each)]
    return [value] if isinstance(value, int | float) else []


def test_cases_of_a_scored_run_become_an_eval_file(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", {"id": "a", "prompt": "Where?", "response": "No."}, {"id": "b", "response": "No."})
    score(agentv, "v1")
    assert agentv("runs", "export", "v1", "--case", "a", "-o", "kept.yaml")[0] == 0
    assert agentv("check", "kept.yaml")[0] == 0
    code, _, problem = agentv("runs", "export", "v1", "--case", "b", "-o", "other.yaml")
    assert (code, "case 'b' has no question" in problem) == (4, True)


LINES: list[dict[str, Any]] = [
    {"id": "a", "prompt": "Where?", "response": "Wait, please.", "context": {"k": [1]}, "metadata": {"n": 1}},
    {"id": "b", "sessionId": "s", "response": "No.", "groundTruth": {"answer": ["Yes"]}, **CALL},
    {"id": "a", "sessionId": "t", "prompt": "Where else?", "response": "There.", "agentId": "x", "metadata": {"n": 2}},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, please."}]},
]


def test_resume_scores_the_lines_that_were_added(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *LINES[:2])
    score(agentv, "v1")
    log(folder / "v1.jsonl", *LINES)
    code, said, _ = agentv("resume", "v1")
    assert code == 0
    assert "4 of 4" in said
    rows = list(stored(folder).results())
    assert [(row.line, row.slot.trial) for row in sorted(rows, key=lambda row: row.line)] == [
        (1, 0),
        (2, 0),
        (3, 1),
        (4, 0),
    ]


def test_rescore_judges_the_stored_answers_by_the_present_configuration(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *LINES)
    score(agentv, "v1")
    before = {(row.slot.eval_id, row.slot.trial): row for row in stored(folder).results()}
    (folder / "v1.jsonl").unlink()
    assert "4 results unchanged" in agentv("rescore", "v1")[1]
    (folder / "judges.yaml").write_text(CONFIG.replace("max: 4", "max: 1"))
    assert agentv("rescore", "v1")[0] == 0
    rows = list(stored(folder).results())
    assert len(rows) == len(LINES)
    for row in rows:
        old = before[row.slot.eval_id, row.slot.trial]
        assert (row.generation, row.answer_ref) == (old.generation + 1, old.answer_ref)
        assert (row.session_id, row.metadata, row.tags) == (old.session_id, old.metadata, old.tags)
        polite, _ = row.evaluator_results
        assert polite == old.evaluator_results[0]  # its setup is unchanged
    assert {row.score for row in rows} == {0.25, 0.75}


def test_the_target_field_names_the_target_also_without_a_run(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", {"prompt": "a", "response": "please", "model": "small"}, {"prompt": "b", "response": "no"})
    options = ("--no-store", "--target-field", "model", "--by", "target")
    said = agentv("score", "v1.jsonl", "--config", "judges.yaml", "--gate", "none", *options)[1]
    groups = said.partition("\ntarget ")[2].splitlines()[1:3]
    assert [line.split()[0] for line in groups] == ["small", "v1"]
    assert "1 line has no 'model'; the line's 'target', or else the file's name, is used instead" in said


def test_meaning_as_the_only_evaluator_is_noted(folder: Path, agentv: Call) -> None:
    config = "evaluators: [{type: semantic_similarity, model: {provider: openai, model: m, api_key: k, base_url: URL}}]"
    (folder / "alone.yaml").write_text(config.replace("URL", "http://127.0.0.1:1"))
    log(folder / "v1.jsonl", {"prompt": "a", "response": ""})
    said = agentv("score", "v1.jsonl", "--config", "alone.yaml", "--no-store")[1]
    assert "sees neither a negation nor a changed number" in said
    assert "sees neither a negation nor a changed number" in agentv("check", "alone.yaml")[1]


def test_results_that_are_appended_while_results_are_read_are_not_read(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *LINES)
    score(agentv, "v1")
    run = stored(folder)
    rows = run.results()
    next(rows)
    lines = (run.folder / "results.jsonl").read_text()
    with (run.folder / "results.jsonl").open("a") as file:
        file.write(lines.replace('"generation":0', '"generation":1'))
    assert [row.generation for row in rows] == [0] * (len(LINES) - 1)


def test_a_stored_answer_is_the_input_that_was_logged(folder: Path, agentv: Call) -> None:
    log(folder / "v1.jsonl", *LINES)
    score(agentv, "v1", "--workers", "1")
    run = stored(folder)
    cases: dict[str, CaseRecord] = {}
    for case in run.cases():
        cases.setdefault(case.eval_id, case)
    for line, answer in zip(LINES, run.answers(), strict=True):
        read = read_logged(line)
        assert isinstance(read, LoggedAnswer)
        found = input_of(cases[answer.slot.eval_id], answer)
        same = replace(found, id=read.given.id, target=None, timestamp=None)
        assert replace(same, metadata=read.given.metadata) == read.given


def test_retry_judges_answers_again_whose_judge_failed(folder: Path, agentv: Call) -> None:
    (folder / "own.py").write_text(
        "from pathlib import Path\n"
        "def judge(context):\n"
        "    if context['candidate_answer'] == 'No.' and not Path('mended').exists():\n"
        "        raise RuntimeError('down')\n"
        "    return 1.0\n"
    )
    (folder / "judges.yaml").write_text("evaluators: [{type: code_judge, name: own, python: 'own.py:judge'}]")
    log(folder / "v1.jsonl", *LINES)
    assert score(agentv, "v1")[0] == 3
    (folder / "mended").touch()
    assert agentv("retry", "v1")[0] == 0
    rows = {row.line: row for row in stored(folder).results()}
    assert [rows[line].generation for line in (1, 2, 3, 4)] == [0, 1, 0, 0]
    assert {row.status for row in rows.values()} == {"pass"}


def test_a_judge_of_a_scored_run_is_calibrated_and_checked(folder: Path, agentv: Call) -> None:
    (folder / "targets.yaml").write_text(
        "targets: [{name: mocked, provider: mock, response: "
        """'{"score": 0.9, "hits": [], "misses": [], "reasoning": "ok"}'}]"""
    )
    (folder / "judges.yaml").write_text("judge: mocked\nevaluators: [{type: llm_judge, name: tone}]\n")
    log(folder / "v1.jsonl", *[{"id": f"{n}", "prompt": "Where?", "response": f"There {n}."} for n in range(4)])
    assert score(agentv, "v1")[0] == 0
    labels = [{"eval_id": f"{n}", "criterion": "tone", "score": 1, "annotator": "p"} for n in range(4)]
    log(folder / "people.jsonl", *labels)
    assert agentv("label", "v1", "--in", "people.jsonl")[0] == 0
    code, _, problems = agentv("judge", "calibrate", "v1")
    assert (code, "not saved" in problems) == (0, False)
    code, said, _ = agentv("judge", "check", "v1", "--repeats", "2", "--yes", "--json")
    assert code == 0
    assert '"answers": 4' in said


@pytest.mark.parametrize("words", [("rescore", "v1"), ("retry", "v1", "--case", "*"), ("resume", "v1")])
def test_a_scored_run_refuses_a_cluster(folder: Path, agentv: Call, words: tuple[str, ...]) -> None:
    log(folder / "v1.jsonl", *LINES)
    score(agentv, "v1")
    code, out, said = agentv(*words, "--backend", "ray")
    assert (code, out, said) == (
        4,
        "",
        "error: stored answers are scored on this machine; --backend ray cannot be used\n",
    )
