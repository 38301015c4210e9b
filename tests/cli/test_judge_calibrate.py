"""`agentv judge calibrate`: a judge's verdicts held against people's labels."""

import json
import os
from pathlib import Path

import pytest
from tests.support.judged import JudgedProject, make_judged_project

CARD = """\
The judge agrees with human labels on 88.8 % of 80 answers.

agreement                                     value         95 % CI  answers  cases
same verdict                                 88.8 %      80 to 94 %       80     80
sensitivity (judge passes what people pass)  89.6 %  77.8 to 95.5 %       48     48
specificity (judge fails what people fail)   87.5 %    71.9 to 95 %       32     32
Cohen's kappa                                  0.77    0.58 to 0.88       80     80

              humans pass  humans fail
judge passes           43            4
judge fails             5           28

100 % of pairs of annotators agree (20 answers with several labels), which limits the \
agreement of a judge. Krippendorff's alpha of verdicts: 1.00.

tag   same verdict         95 % CI   sensitivity   specificity  kappa
even  87.5 % of 40  73.9 to 94.5 %  87.5 % of 24  87.5 % of 16   0.74
odd     90 % of 40    76.9 to 96 %  91.7 % of 24  87.5 % of 16   0.79
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> JudgedProject:
    return make_judged_project(tmp_path, monkeypatch, capsys)


def labelled(project: JudgedProject) -> JudgedProject:
    project.run()
    project.said()
    project.said("ben", cases=20)
    assert project.call("label", "latest", "--in", project.label())[0] == 0
    return project


def test_the_card_says_how_far_the_judge_agrees_with_people(project: JudgedProject) -> None:
    code, out, err = labelled(project).call("judge", "calibrate", "--by", "tag")
    assert (code, err) == (0, "")
    head, _, rest = out.partition("Disagreements: 9")
    assert "\n".join(head.splitlines()[1:]) == CARD
    assert "c-0 · agent: judge 0.20 not passed, humans 1.00" in rest
    assert "  │ judge: <script>alert(1)</script>\n" in rest
    assert "[31m" not in rest
    assert "\x1b" not in rest


def test_grouping_by_tag_needs_a_tag(project: JudgedProject) -> None:
    project.tags = ("", "")
    code, _, err = labelled(project).call("judge", "calibrate", "--by", "tag")
    assert (code, "no labelled case has a tag to group by" in err) == (4, True)
    assert project.files() == []


def test_the_page_and_the_markdown_hold_what_the_judge_said_as_text(project: JudgedProject) -> None:
    code, _, _ = labelled(project).call("judge", "calibrate", "-o", "card.html", "-o", "card.md")
    page, markdown = (Path(name).read_text() for name in ("card.html", "card.md"))
    assert code == 0
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "script-src &#x27;none&#x27;" in page
    assert "judge: `<script>alert(1)</script>" in markdown


def test_the_measured_mistakes_are_kept_for_this_judge_and_prompt(project: JudgedProject) -> None:
    output = labelled(project).json("judge", "calibrate", "--json")
    (file,) = project.files()
    (card,) = output["cards"]
    kept = json.loads(file.read_text())
    assert (output["schema"], card["calibration"]) == ("agentv-judge-card-1", str(file))
    assert kept["schema"] == "agentv-calibration-1"
    assert kept["confusion"] == card["confusion"]
    assert kept["sensitivity"]["value"] == pytest.approx(card["sensitivity"]["value"])
    assert len(kept["setups"]) == 1
    before = file.read_bytes()
    project.call("judge", "calibrate")
    assert [each.read_bytes() for each in project.files()] == [before]


def test_labels_of_another_criterion_make_a_calibration_no_newer(project: JudgedProject) -> None:
    labelled(project).json("judge", "calibrate", "--json")
    (file,) = project.files()
    before = json.loads(file.read_text())["labelled_at"]
    project.lines = []
    project.said(cases=1, criterion="politeness")
    assert project.call("label", "latest", "--in", project.label())[0] == 0
    project.json("judge", "calibrate", "--evaluator", "tone", "--criterion", "tone", "--json")
    assert json.loads(file.read_text())["labelled_at"] == before


def test_another_prompt_is_another_calibration(project: JudgedProject) -> None:
    labelled(project).call("judge", "calibrate")
    project.evaluators = "{name: tone, type: llm_judge, temperature: 0.5}"
    project.run()
    project.call("judge", "calibrate", "--labels", project.label())
    assert len(project.files()) == 2


def test_a_judge_that_was_edited_since_the_run_gets_no_calibration(project: JudgedProject) -> None:
    labelled(project)
    project.evaluators = "{name: tone, type: llm_judge, temperature: 0.5}"
    project.write()
    code, out, err = project.call("judge", "calibrate")
    assert (code, project.files()) == (0, [])
    assert "The judge agrees with human labels" in out
    assert "calibration not saved: 80 labelled answers of 80 were scored by a different 'tone'" in err


def test_labels_of_a_file_are_taken_and_not_kept(project: JudgedProject) -> None:
    project.run()
    project.said()
    code, out, _ = project.call("judge", "calibrate", "--labels", project.label(), "--no-save")
    assert (code, project.files()) == (0, [])
    assert "of 80 answers" in out
    assert project.call("judge", "calibrate")[0] == 4


def test_few_labels_give_no_interval_and_say_what_is_missing(project: JudgedProject) -> None:
    project.run()
    project.said(cases=8)
    _, out, _ = project.call("judge", "calibrate", "--labels", project.label(), "--random-sample")
    assert "same verdict                                 87.5 %        -        8" in out
    assert "fewer than 20 cases: no intervals of agreement and kappa" in out
    assert "fewer than 10 cases that people pass, or that they fail: no rate is corrected" in out
    (file,) = project.files()
    kept = json.loads(file.read_text())
    assert (kept["sensitivity"], kept["specificity"]) == (None, None)


def test_a_criterion_with_another_name_is_named_on_the_command_line(project: JudgedProject) -> None:
    project.run()
    project.said(criterion="correct")
    code, _, err = project.call("judge", "calibrate", "--labels", project.label())
    assert code == 4
    assert "no selected evaluator scores a labelled criterion; labelled criteria: 'correct'" in err
    assert "--evaluator tone --criterion correct" in err
    options = ("--evaluator", "tone", "--criterion", "correct")
    output = project.json("judge", "calibrate", "--labels", project.label(), "--json", *options)
    assert [(card["criterion"], card["answers"]) for card in output["cards"]] == [("correct", 80)]


def test_an_unknown_evaluator_is_reported_with_a_suggestion(project: JudgedProject) -> None:
    project.run()
    project.said()
    code, _, err = project.call("judge", "calibrate", "--labels", project.label(), "--evaluator", "tune")
    assert (code, err) == (4, "error: unknown evaluator 'tune'; known: tone. Did you mean 'tone'?\n")


def test_scores_on_a_scale_give_a_weighted_kappa(project: JudgedProject) -> None:
    project.criteria = "criteria: [{name: tone, scale: likert5}]"
    project.run()
    for number in range(80):
        score = f"{(5 if number % 2 else 4) if number % 5 < 3 else 1 + number % 2}/5"
        fields = {"eval_id": f"c-{number}", "criterion": "tone", "annotator": "anna", "score": score}
        project.lines.append(fields)
    (card,) = project.json("judge", "calibrate", "--labels", project.label(), "--json")["cards"]
    assert card["weighted_kappa"]["interval"]["low"] < card["weighted_kappa"]["value"] < 1


def test_a_label_without_a_match_is_reported_with_a_remedy(project: JudgedProject) -> None:
    project.run()
    project.said(score=4)
    code, _, err = project.call("judge", "calibrate", "--labels", project.label())
    assert code == 4
    assert "define 'tone' under `criteria`, with its scale" in err


def test_a_file_in_no_known_format_is_refused_before_anything_is_read(project: JudgedProject) -> None:
    code, _, err = project.call("judge", "calibrate", "-o", "card.pdf")
    assert code == 4
    assert "must end in .html or .md" in err


def test_the_working_directory_stays(project: JudgedProject) -> None:
    labelled(project)
    inner = project.folder / "inner"
    inner.mkdir()
    os.chdir(inner)
    project.call("judge", "calibrate", "-o", "card.md")
    assert (inner / "card.md").exists()
