"""Pass rates without the mistakes of a judge that was calibrated: beside the raw ones, in every report."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.judged import JudgedProject, make_judged_project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> JudgedProject:
    """A run of a calibrated judge."""
    project = make_judged_project(tmp_path, monkeypatch, capsys)
    project.run()
    project.said()
    assert project.call("judge", "calibrate", "--labels", project.label())[0] == 0
    return project


def corrected(project: JudgedProject) -> list[Any]:
    found: list[Any] = project.json("report", "latest", "--json")["corrected"]
    return found


def test_the_corrected_rate_stands_beside_the_raw_one(project: JudgedProject) -> None:
    (rate,) = corrected(project)
    # 47 of 80 passed; of 48 that are good 43, of 32 that are bad 28 were rightly judged.
    assert (rate["judged"], rate["pass_rate"], rate["labels"]) == (80, 47 / 80, 80)
    assert rate["corrected_rate"] == pytest.approx((47 / 80 + 28 / 32 - 1) / (43 / 48 + 28 / 32 - 1))
    assert rate["corrected_rate"] == pytest.approx(48 / 80)  # the truth, since all of it was labelled
    assert rate["corrected_interval"]["low"] < rate["pass_rate_interval"]["low"]
    assert project.json("show", "latest", "--json")["corrected"] == [rate]


def test_the_line_is_the_same_on_every_screen(project: JudgedProject) -> None:
    line = "tone: agent    58.8 % of 80  47.8 to 68.9 %       60 %  41.9 to 76.8 %      80"
    shown = project.call("show", "latest")[1], project.call("report", "latest")[1]
    ran = project.call("run", project.suite, "--display", "plain")[1]
    assert all(line in text for text in (*shown, ran))
    project.call("report", "latest", "-o", "run.md", "-o", "run.html")
    assert "| `tone: agent` | 58.8 % of 80 | 47.8 to 68.9 % | 60 % |" in Path("run.md").read_text()
    assert "<h2>Corrected for judge errors</h2>" in Path("run.html").read_text().replace("'", "&#x27;")


def test_new_cases_of_the_same_judge_are_corrected(project: JudgedProject) -> None:
    project.cases = 120
    project.run()
    (rate,) = corrected(project)
    assert (rate["judged"], rate["labels"]) == (120, 80)


def test_a_judge_with_another_prompt_is_not_corrected(project: JudgedProject) -> None:
    project.evaluators = "{name: tone, type: llm_judge, temperature: 0.5}"
    project.run()
    assert corrected(project) == []
    assert "corrected" not in project.call("show", "latest")[1]


def test_too_few_labels_correct_nothing_and_say_so(project: JudgedProject) -> None:
    project.lines = project.lines[:8]
    project.call("judge", "calibrate", "--labels", project.label(), "--random-sample")
    (rate,) = corrected(project)
    assert (rate["corrected_rate"], rate["reason"]) == (None, "too few labels")
    assert "not corrected for errors of judge tone, target agent: too few labels" in project.call("show", "latest")[1]


def test_a_judge_that_is_no_better_than_chance_corrects_nothing(project: JudgedProject) -> None:
    for line in project.lines:
        line["score"] = 1 - line["score"]
    project.call("judge", "calibrate", "--labels", project.label())
    (rate,) = corrected(project)
    assert (rate["corrected_rate"], rate["reason"]) == (None, "the judge is no better than chance")


def test_without_a_calibration_nothing_is_said(project: JudgedProject) -> None:
    project.files()[0].unlink()
    assert corrected(project) == []


def test_a_broken_calibration_costs_no_run(project: JudgedProject) -> None:
    project.files()[0].write_text("{")
    code, out, _ = project.call("run", project.suite, "--display", "plain")
    assert code == 1
    assert "pass rates are not corrected" in out
    assert project.call("report", "latest", "-o", "run.md")[0] == 0
    assert "pass rates are not corrected" in Path("run.md").read_text()
    code, out, _ = project.call("show", "latest")
    assert code == 0
    assert "note: pass rates are not corrected" in out
    code, out, err = project.call("show", "latest", "--json")
    assert (code, json.loads(out)["corrected"]) == (0, [])
    assert "note: pass rates are not corrected" in err


def test_cases_with_criteria_expected_messages_and_files_are_known_again(project: JudgedProject) -> None:
    (project.folder / "policy.txt").write_text("Thirty days.")
    project.criteria = "criteria: [{name: tone, scale: likert5, weight: 2}, {name: kind, scale: [poor, fair, good]}]"
    project.write()
    text = (project.folder / project.suite).read_text()
    expected = (
        "expected_messages: [{role: assistant, content: [{type: text, value: Yes}, {type: file, value: policy.txt}]}]"
    )
    (project.folder / project.suite).write_text(text.replace("outcome: Is good", f"outcome: Is good, {expected}"))
    code, out, err = project.call("run", project.suite, "--display", "plain")
    assert code in (0, 1), out + err
    lines = [dict(line, score="5/5" if line["score"] else "1/5") for line in project.lines]
    project.lines = lines
    code, _, err = project.call("judge", "calibrate", "--labels", project.label())
    assert (code, err) == (0, "")
    (rate,) = corrected(project)
    assert rate["corrected_rate"] == pytest.approx(48 / 80)
