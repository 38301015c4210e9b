"""`agentv label agreement`: how far the annotators of a run agree."""

import json
import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.command_line import Call, command_line
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_result, make_run

from agentv import krippendorff_alpha
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.records.answer import AnswerRef

TONE = {"name": "tone", "description": "", "scale": "likert5", "weight": 1.0}
LABELS = """eval_id,target,criterion,score,annotator
refund-7,agent-v1,tone,4/5,anna
refund-7,agent-v1,tone,4,ben
refund-7,agent-v2,tone,2/5,anna
refund-7,agent-v2,tone,3/5,ben
refund-7,agent-v3,tone,5/5,anna
refund-7,agent-v1,right,85 %,anna
refund-7,agent-v1,right,yes,ben
refund-7,agent-v2,right,no,anna
refund-7,agent-v2,right,0,ben
"""


KIND = {"name": "kind", "description": "", "scale": "custom", "weight": 1.0}


def store_run(folder: Path, tags: tuple[str, ...]) -> None:
    """Store a run in which three targets answered a case with these tags."""
    store = RunFolder(runs_folder(folder / ".agentv"), RUN.run_id, clock=at_noon)
    store.begin(make_run())
    store.append_case(make_case(criteria=(TONE, KIND), tags=tags))
    for target in ("agent-v1", "agent-v2", "agent-v3"):
        slot = replace(make_result().slot, target=target)
        answer = store.append_answer(make_answer(slot=slot))
        store.append(make_result(slot=slot, answer_ref=AnswerRef(answer.seq or 0), tags=tags))
    store.close("finished")
    (folder / "said.csv").write_text(LABELS)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    return command_line(capsys)


@pytest.fixture
def call(command: Call, tmp_path: Path) -> Call:
    """Return the command line on a run in which three targets answered a case."""
    store_run(tmp_path, tags=("refund",))
    return command


@pytest.fixture
def untagged(command: Call, tmp_path: Path) -> Call:
    """Return the command line on such a run of a case without tags."""
    store_run(tmp_path, tags=())
    return command


def test_agreement_of_imported_labels_by_criterion(call: Call) -> None:
    assert call("label", "latest", "--in", "said.csv")[0] == 0
    code, out, _ = call("label", "agreement", "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown["schema"] == "agentv-agreement-1"
    tone, right = shown["agreement"]
    assert (tone["criterion"], tone["metric"], tone["annotators"], tone["answers"]) == (
        "tone",
        "ordinal",
        ["anna", "ben"],
        2,
    )
    assert tone["alpha"]["value"] == krippendorff_alpha([(0.75, 0.75), (0.25, 0.5)], metric="ordinal")
    assert right["alpha"]["value"] == krippendorff_alpha([(0.85, 1.0), (0.0, 0.0)], metric="interval")
    assert right["cohen_kappa"] == [{"annotators": ["anna", "ben"], "answers": 2, "value": pytest.approx(1 / 3)}]


def test_agreement_of_a_file_on_the_screen_and_in_a_report(call: Call) -> None:
    code, out, _ = call("label", "agreement", "latest", "--labels", "said.csv", "--by", "tag", "-o", "agreement.md")
    assert code == 0
    assert "Krippendorff" not in out
    for word in ("criterion", "alpha", "Fleiss' kappa", "Cohen's kappa", "tone", "right", "anna, ben"):
        assert word in out
    assert "fewer than 20 cases" in out
    assert "Cohen's kappa" in Path("agreement.md").read_text()
    for text in (out, Path("agreement.md").read_text()):
        assert [line.split()[:2] for line in plain_rows(text) if line.split()[1:2] == ["refund"]] == [
            ["tone", "refund"],
            ["right", "refund"],
        ]


def plain_rows(text: str) -> list[str]:
    """Return the lines of a table on the screen or in Markdown, without the signs of Markdown."""
    return [re.sub(r"[`|]", " ", line).strip() for line in text.splitlines()]


def test_grouping_by_tag_needs_a_tag(untagged: Call) -> None:
    code, _, err = untagged("label", "agreement", "--labels", "said.csv", "--by", "tag")
    assert (code, "no labelled case has a tag to group by" in err) == (4, True)


def test_the_file_of_labels_may_be_standard_input(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = call("label", "agreement", "--labels", "said.csv", "--json")
    with Path("said.csv").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert call("label", "agreement", "--labels", "-", "--json") == expected


@pytest.mark.parametrize("metric", ["ordinal", "interval"])
def test_a_custom_scale_has_no_order(call: Call, metric: str) -> None:
    Path("said.csv").write_text(LABELS + "refund-7,agent-v1,kind,fact,anna\nrefund-7,agent-v1,kind,joke,ben\n")
    code, _, err = call("label", "agreement", "--labels", "said.csv", "--metric", metric)
    assert code == 4
    assert err.splitlines()[-2:] == [
        "error: refund-7, kind, anna: 'fact' is on a custom scale, which has no order",
        "use --metric nominal for labels that have no order, or choose a --criterion",
    ]
    call("label", "--in", "said.csv")
    assert call("label", "agreement", "--metric", metric)[0] == 4
    assert call("label", "agreement", "--metric", "nominal")[0] == 0
    for labels in ((), ("--labels", "said.csv")):
        code, out, _ = call("label", "agreement", *labels, "--metric", metric, "--criterion", "tone")
        assert (code, "kind" in out) == (0, False)


def test_a_label_off_the_scale_is_refused_with_the_nominal_metric_too(call: Call) -> None:
    Path("said.csv").write_text(LABELS.replace("2/5", "rude"))
    code, _, err = call("label", "agreement", "--labels", "said.csv", "--metric", "nominal")
    assert (code, "said.csv:4:1  $  'rude' cannot be read on the scale likert5" in err) == (4, True)


def test_an_unreadable_label_of_a_file_is_named_with_its_line(call: Call) -> None:
    Path("said.csv").write_text(LABELS.replace("85 %", "maybe").replace(",no,", ",7/5,"))
    code, _, err = call("label", "agreement", "--labels", "said.csv")
    assert code == 4
    assert "said.csv:7:1  $  'maybe' cannot be read; it must be a number from 0 to 1, 4/5, 85 %, yes, no" in err
    assert "said.csv:9:1  $  '7/5' cannot be read" in err


def test_an_unreadable_label_of_a_run_is_named_with_its_case(call: Call) -> None:
    call("label", "--in", "said.csv")
    (file,) = Path().glob(".agentv/runs/*/labels.jsonl")  # an older version stored any label
    file.write_text(file.read_text().replace('"85 %"', '"maybe"'))
    code, _, err = call("label", "agreement")
    assert code == 4
    assert "refund-7, right, anna: 'maybe' cannot be read" in err
    assert "--metric nominal" in err
    assert call("label", "agreement", "--metric", "nominal")[0] == 0


def test_any_text_is_a_category_of_a_file_with_the_nominal_metric(call: Call) -> None:
    Path("said.csv").write_text(LABELS.replace("85 %", "maybe"))
    assert call("label", "--in", "said.csv")[0] == 4
    assert call("label", "agreement", "--labels", "said.csv", "--metric", "nominal")[0] == 0


def test_a_run_without_labels_and_an_unknown_criterion_are_refused(call: Call) -> None:
    code, _, err = call("label", "agreement")
    assert (code, "no labels found for run" in err) == (4, True)
    code, _, err = call("label", "agreement", "--labels", "said.csv", "--criterion", "tune")
    assert code == 4
    assert "no label has the criterion 'tune'; labelled criteria: 'tone', 'right'" in err


def test_labels_are_still_imported_without_a_subcommand(call: Call) -> None:
    code, out, _ = call("label", "--in", "said.csv")
    assert (code, "Imported 9 scores of 2 annotators" in out) == (0, True)
    code, out, _ = call("label", "--help")
    assert code == 0
    assert "agreement" in out
