"""Failure categories on the command line: shown, changed, proposed by a model, accepted, and exported."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.judged import JudgedProject, make_judged_project

PROPOSER = '''
"""Puts each note into the category of its first word."""

import json
import re


def propose(request):
    nonce = re.search(r'"nonce": "(\\w+)"', f"{request.system_prompt} {request.question}")[1]
    found = {}
    for number, note in re.findall(r"^(\\d+)\\. (.*)$", request.question, re.MULTILINE):
        found.setdefault(note.split()[0], []).append(int(number))
    listed = [{"name": name, "description": f"About {name}.", "notes": numbers} for name, numbers in found.items()]
    return json.dumps({"nonce": nonce, "categories": [*listed, {"name": "empty", "description": "", "notes": [999]}]})
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> JudgedProject:
    """A run whose answers are all labelled: 16 of 80 failed for being short, 16 for being late."""
    project = make_judged_project(tmp_path, monkeypatch, capsys)
    project.run()
    for number in range(project.cases):
        line: dict[str, Any] = {"eval_id": f"c-{number}", "criterion": "tone", "annotator": "anna", "verdict": "pass"}
        if number % 5 >= 3:
            line |= {"verdict": "fail", "note": f"{'short' if number % 5 == 3 else 'late'} answer {number}"}
        project.lines.append(line)
    targets = project.folder / "targets.yaml"
    targets.write_text(targets.read_text() + '  - {name: writer, provider: python, callable: "writer.py:propose"}\n')
    (project.folder / "writer.py").write_text(PROPOSER)
    return project


def shares(project: JudgedProject) -> dict[str, tuple[int, float]]:
    found = project.json("label", "categories", "--json")["categories"]
    return {each["category"]: (each["answers"], each["rate"]) for each in found}


def test_proposed_categories_count_when_they_are_accepted(project: JudgedProject) -> None:
    assert project.call("label", "--in", project.label())[0] == 0
    code, out, _ = project.call("generate", "categories", "--target", "writer", "--dry-run")
    assert (code, "1. short answer 3" in out) == (0, True)
    code, out, err = project.call("generate", "categories", "--target", "writer")
    assert code == 0, err
    assert "short (16 labels): About short.\n  short answer 3\n" in out
    assert "Proposed, not in effect." in out
    assert shares(project) == {}
    assert project.call("generate", "categories", "--accept", "--only", "lat")[0] == 4
    code, out, _ = project.call("generate", "categories", "--accept", "--only", "late")
    assert (code, "Accepted 1 of the proposed categories" in out) == (0, True)
    assert shares(project) == {"late": (16, 0.2)}
    assert project.json("generate", "categories", "--accept", "--json")["accepted"] is True
    assert shares(project) == {"late": (16, 0.2), "short": (16, 0.2)}
    code, _, err = project.call("generate", "categories", "--target", "writer")
    assert (code, "has no label with a note" in err) == (5, True)


def test_categories_are_renamed_and_merged_and_their_history_stays(project: JudgedProject) -> None:
    for line in project.lines:
        if "note" in line:
            line["category"] = line["note"].split()[0]
    project.call("label", "--in", project.label())
    code, out, _ = project.call("label", "categories")
    assert code == 0
    assert out.splitlines()[0] == "criterion tone: 80 labelled answers"
    assert project.call("label", "categories", "--rename", "late", "slow")[0] == 0
    assert project.call("label", "categories", "--merge", "slow", "--merge", "short", "--into", "form")[0] == 0
    assert shares(project) == {"form": (32, 0.4)}
    (history,) = Path().glob(".agentv/runs/*/categories.jsonl")
    changes = [json.loads(line) for line in history.read_text().splitlines()]
    assert [(each["type"], each["names"], each["name"]) for each in changes] == [
        ("renamed", ["late"], "slow"),
        ("merged", ["slow", "short"], "form"),
    ]
    for wrong in (("--rename", "slow", "x"), ("--merge", "form"), ("--rename", "form", " ")):
        assert project.call("label", "categories", *wrong)[0] == 4


def test_the_cases_of_a_category_become_an_eval_file_with_its_tag(project: JudgedProject) -> None:
    for line in project.lines:
        if "note" in line:
            line["category"] = line["note"].split()[0]
    project.call("label", "--in", project.label())
    code, out, err = project.call("runs", "export", "--category", "late", "-o", "late.yaml")
    assert (code, "Wrote late.yaml: 16 cases" in out) == (0, True), err
    assert "late" in Path("late.yaml").read_text()
    assert project.call("check", "late.yaml")[0] == 0
    code, _, err = project.call("runs", "export", "--category", "lat", "-o", "lat.yaml")
    assert (code, "no label has the category 'lat'; did you mean 'late'?" in err) == (4, True)
    assert project.call("runs", "export", "--category", "late", "--failed", "-o", "x.yaml")[0] == 4


def test_drawn_labels_of_a_run_are_corrected_on_every_screen(project: JudgedProject) -> None:
    lines, project.lines = project.lines, project.lines[:40]
    project.call("label", "--in", project.label())
    (rate,) = project.json("report", "latest", "--json")["corrected"]
    assert (rate["source"], rate["picked"], rate["labels"]) == ("labels", True, 40)
    _, _, err = project.call("judge", "calibrate", "latest")
    assert "calibration of tone not saved: the labelled answers were picked" in err
    assert project.files() == []
    project.lines = lines
    project.call("label", "--in", project.label())
    sentence = "tone: judge 58.8 %, people about 60 % (80 labels)"
    (rate,) = project.json("report", "latest", "--json")["corrected"]
    assert (rate["picked"], rate["corrected_rate"], rate["warnings"]) == (False, pytest.approx(0.6), [])
    assert sentence in project.call("report", "latest")[1]
    assert sentence in project.call("show", "latest")[1]
    project.call("report", "latest", "-o", "run.md", "-o", "run.html")
    assert sentence in Path("run.md").read_text()
    assert sentence in Path("run.html").read_text()
    project.call("judge", "calibrate", "latest")
    assert len(project.files()) == 1
