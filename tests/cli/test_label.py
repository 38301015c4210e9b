"""`agentv label`: human scores, stored with the run whose answers they rate."""

import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.command_line import Call, command_line
from tests.support.stored import RUN, at_noon, make_answer, make_case, make_result, make_run
from tests.support.waiting import until

from agentv import krippendorff_alpha
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.lock import RunLock
from agentv.storage.run.stored import StoredRun, open_run
from agentv.storage.run.stored_check import StoredCheck, check_stored_run
from agentv.types.errors import StorageError
from agentv.types.failures import Failure
from agentv.types.records.answer import AnswerRef

LIKERT = {"name": "tone", "description": "", "scale": "likert5", "weight": 1.0}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    """A stored run: refund-7 answered by two targets, lost-1 by none."""
    store = RunFolder(runs_folder(tmp_path / ".agentv"), RUN.run_id, clock=at_noon)
    store.begin(make_run())
    store.append_case(make_case(criteria=(LIKERT,)))
    for target in ("agent-v1", "agent-v2"):
        slot = replace(make_result().slot, target=target)
        answer = store.append_answer(make_answer(slot=slot))
        store.append(make_result(slot=slot, answer_ref=AnswerRef(answer.seq or 0)))
    lost = replace(make_result().slot, eval_id="lost-1")
    answer = store.append_answer(make_answer(slot=lost, text=""))
    gone = Failure("transport", "gone")
    store.append(
        make_result(
            slot=lost, answer_ref=AnswerRef(answer.seq or 0), status="error", score=None, verdict=None, error=gone
        )
    )
    store.close("finished")
    monkeypatch.chdir(tmp_path)
    return open_run(Path(store.folder))


@pytest.fixture
def call(run: StoredRun, capsys: pytest.CaptureFixture[str]) -> Call:
    assert run.folder.exists()
    return command_line(capsys)


def said(score: Any, annotator: str | None = "anna", **more: Any) -> dict[str, Any]:
    return {
        "eval_id": "refund-7",
        "criterion": "tone",
        "score": score,
        "annotator": annotator,
        "target": "agent-v2",
    } | more


def write(*entries: dict[str, Any], name: str = "said.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return name


def test_scores_are_kept_with_the_answer_that_they_judge(run: StoredRun, call: Call) -> None:
    file = write(said("4/5", reasoning="kind", time="2026-02-01T08:00:00Z"), said(5, "ben"))
    code, out, _ = call("label", "--in", file)
    assert (code, out) == (0, f"Imported 2 scores of 2 annotators: {run.folder}/labels.jsonl\n")
    anna, ben = run.labels()
    assert (anna.slot.target, anna.answer_key, anna.answer_seq) == ("agent-v2", "v1:aa", 1)
    assert (anna.criterion, anna.score, anna.annotator, anna.reasoning) == ("tone", "4/5", "anna", "kind")
    assert (anna.time.isoformat(), ben.score) == ("2026-02-01T08:00:00+00:00", 5)
    first = json.loads((run.folder / "labels.jsonl").read_text().splitlines()[0])
    assert (first["schema"], first["run_id"], first["seq"]) == ("agentv-label-1", run.run_id, 0)
    assert ((run.folder / "labels.jsonl").stat().st_mode & 0o777) == 0o600


def test_a_spreadsheet_on_standard_input_signed_by_one_name(
    run: StoredRun, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "eval_id,criterion,score,target\nrefund-7,tone,4,agent-v1\nrefund-7,facts,yes,agent-v1\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = call("label", "latest", "--in", "-", "--annotator", "carl", "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": "agentv-labels-1",
        "run_id": run.run_id,
        "file": f"{run.folder}/labels.jsonl",
        "labels": 2,
        "corrections": 0,
    }
    assert [(label.annotator, label.score) for label in run.labels()] == [("carl", "4"), ("carl", "yes")]


def test_invalid_lines_are_all_reported_and_nothing_is_imported(run: StoredRun, call: Call) -> None:
    file = write(
        said(4),
        said(4, eval_id="refund-8"),
        said(6),
        said(4, None),
        said(4, target=None),
        said(4, target="agent-v3"),
        said(4, eval_id="lost-1"),
    )
    code, out, err = call("label", "--in", file)
    assert (code, out) == (4, "")
    both = "target 'agent-v1' trial 0 of evals/refunds.yaml, target 'agent-v2' trial 0 of evals/refunds.yaml"
    for line in (
        "said.jsonl:2:1  $  the run has no result of a case 'refund-8'; did you mean 'refund-7'?",
        "said.jsonl:3:1  $  6 is outside 1 to 5 (likert5)",
        "said.jsonl:4:1  $  it has no annotator; give the line an `annotator`, or use --annotator for all lines",
        (
            "said.jsonl:5:1  $  it matches 2 results of 'refund-7'; select one by target, prompt, trial or suite; "
            f"there are: {both}"
        ),
        f"said.jsonl:6:1  $  no result of 'refund-7' has that suite, target, prompt and trial; there are: {both}",
        "said.jsonl:7:1  $  the result of 'lost-1' has no answer to judge",
    ):
        assert line in err
    assert "said.jsonl:1:" not in err
    assert err.endswith("nothing was imported: a file is imported completely or not at all\n")
    assert not (run.folder / "labels.jsonl").exists()


def test_a_criterion_that_the_cases_do_not_have_is_kept_with_a_note(run: StoredRun, call: Call) -> None:
    code, _, err = call("label", "--in", write(said(0.7) | {"criterion": "tonne"}))
    assert code == 0
    assert "'tonne' is not a criterion of the cases, so its scores have no scale; there are: tone" in err
    assert err.endswith("; did you mean 'tone'?\n")
    assert [label.criterion for label in run.labels()] == ["tonne"]


def test_labels_of_another_run_and_unreadable_ones_are_refused(run: StoredRun, call: Call) -> None:
    other = "20260101T000000.000-abcdef"
    file = write(
        said(4, run_id=run.run_id),
        said(4, run_id=other),
        *(said(score, criterion="facts") for score in (-1, 2, "maybe", True, "no", 0.5)),
        said(9, criterion="tonne"),
    )
    code, out, err = call("label", "--in", file)
    assert (code, out) == (4, "")
    assert f"said.jsonl:2:1  $  it is a score of an answer in run {other!r}, not in {run.run_id!r}; import it" in err
    for line, score in ((3, "-1"), (4, "2"), (5, "'maybe'")):
        assert f"said.jsonl:{line}:1  $  {score} cannot be read; it must be a number from 0 to 1, 4/5" in err
    assert "said.jsonl:9:1  $  9 cannot be read" in err
    assert "did you mean 'tone'?" in err
    assert [number for number in range(1, 10) if f"said.jsonl:{number}:" in err] == [2, 3, 4, 5, 9]
    assert not (run.folder / "labels.jsonl").exists()


def test_unreadable_lines_and_a_missing_file_are_reported(run: StoredRun, call: Call) -> None:
    Path("bad.jsonl").write_text("{\n")
    code, _, err = call("label", "--in", "bad.jsonl")
    assert code == 4
    assert "bad.jsonl:1:1" in err
    code, _, err = call("label", "--in", "gone.jsonl")
    assert code == 4
    assert "gone.jsonl  $  cannot be read: No such file or directory" in err
    assert not (run.folder / "labels.jsonl").exists()


def test_verdicts_are_kept_with_notes_and_contradictions_are_refused(run: StoredRun, call: Call) -> None:
    drawn = {"queue": "q", "seed": 1, "stratum": "all", "p": 0.5, "n": 1, "N": 2}
    review = {"verdict": "fail", "note": "rude", "category": "tone", "blind": True, "draw": drawn, "label_id": "l-1"}
    first = {key: value for key, value in said(None).items() if key != "score"} | review
    assert call("label", "--in", write(first, said(None, target="agent-v1", draw=drawn)))[0] == 0
    fail, skip = run.labels()
    assert (fail.score, fail.verdict, fail.note, fail.category, fail.blind) == (False, "fail", "rude", "tone", True)
    assert fail.draw is not None
    assert (fail.draw.p, skip.is_skip, skip.draw) == (0.5, True, fail.draw)
    assert "anna: tone = fail: rude [tone]" in call("show", "latest", "refund-7")[1]
    assert call("label", "--in", write(first))[0] == 0
    assert len(list(run.all_labels())) == 2
    _, _, err = call("label", "--in", write(said(1, verdict="pass"), said(5, answer_key="v1:bb")))
    assert "said.jsonl:1:1  $  its verdict is 'pass', but its score 1 is 0 on 0 to 1; a score of 0.8 or more" in err
    assert "said.jsonl:2:1  $  it is a label of another answer of 'refund-7', 'v1:bb'; the run has" in err


def test_a_later_score_of_the_same_person_counts_and_the_earlier_stays(run: StoredRun, call: Call) -> None:
    call("label", "--in", write(said(2), said(3, "ben")))
    code, out, _ = call("label", "--in", write(said(5), said(0.3, criterion="facts")))
    assert code == 0
    assert "Imported 2 scores of 1 annotator (1 of them replaced an earlier score): " in out
    assert {(label.annotator, label.criterion): label.score for label in run.labels()} == {
        ("anna", "tone"): 5,
        ("ben", "tone"): 3,
        ("anna", "facts"): 0.3,
    }
    assert [label.seq for label in run.all_labels()] == [0, 1, 2, 3]


def test_an_older_score_that_comes_in_later_does_not_count(run: StoredRun, call: Call) -> None:
    call("label", "--in", write(said(5, time="2026-02-02T00:00:00Z")))
    call("label", "--in", write(said(1, time="2026-02-01T00:00:00Z")))
    assert [label.score for label in run.labels()] == [5]


def test_show_prints_what_people_said_beside_the_judges(call: Call) -> None:
    call("label", "--in", write(said("4/5", reasoning="kind"), said(5, target="agent-v1")))
    code, out, _ = call("show", "latest", "refund-7")
    assert code == 0
    _, second = out.split(" · agent-v2")
    assert "human labels\n│ anna: tone = 4/5: kind\n" in second
    shown = json.loads(call("show", "latest", "refund-7", "--json")[1])
    assert [label["score"] for each in shown["cases"] for label in each["labels"]] == [5, "4/5"]


def test_labels_have_one_writer_which_does_not_block_the_run(run: StoredRun, call: Call) -> None:
    file = write(said(4))
    writing = RunLock(run.folder)
    assert call("label", "--in", file)[0] == 0
    writing.release()
    other = RunLock(run.folder, "labels.lock")
    with pytest.raises(StorageError, match=f"the label file of run {run.run_id} is being written by process"):
        append_labels(run.folder, run.labels(), run_id=run.run_id, wait_s=0.1)
    other.release()
    assert len(run.labels()) == 1


def test_simultaneous_imports_wait_for_each_other(run: StoredRun) -> None:
    lock = RunLock(run.folder, "labels.lock")
    with ExitStack() as stack:
        imports = []
        for number in range(3):
            file = write(said(4, annotator=f"annotator-{number}"), name=f"labels-{number}.jsonl")
            command = [sys.executable, "-m", "agentv", "label", "--in", file]
            started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            imports.append(stack.enter_context(started))
            stack.callback(started.kill)
        waiting = run.folder / "labels.lock"
        assert until(lambda: all(each.poll() is not None or has_open(each.pid, waiting) for each in imports))
        lock.release()
        ended = [(*each.communicate(timeout=60), each.returncode) for each in imports]
    assert [(err, code) for _, err, code in ended] == [("", 0)] * 3
    assert {label.annotator for label in run.labels()} == {"annotator-0", "annotator-1", "annotator-2"}
    assert [event.type for event in run.events()].count("labelled") == 3
    assert check_stored_run(run) == StoredCheck()


def has_open(pid: int, path: Path) -> bool:
    """Return True if a process has a file open."""
    return any(os.path.realpath(descriptor) == str(path) for descriptor in Path(f"/proc/{pid}/fd").iterdir())


def test_a_disk_that_takes_nothing_keeps_what_was_there(run: StoredRun, call: Call) -> None:
    call("label", "--in", write(said(4)))
    (run.folder / "labels.jsonl").rename(run.folder / "kept.jsonl")
    (run.folder / "labels.jsonl").mkdir()
    with pytest.raises(StorageError, match="no label was saved"):
        append_labels(run.folder, (), run_id=run.run_id)


def test_labels_are_all_that_agreement_needs(run: StoredRun, call: Call) -> None:
    two = [said(5, name, target=target) for target in ("agent-v1", "agent-v2") for name in ("anna", "ben")]
    two[3]["score"] = 4
    call("label", "--in", write(*two))
    answers: dict[str, list[Any]] = {}
    for label in run.labels():
        answers.setdefault(label.slot.target, []).append(label.score)
    assert krippendorff_alpha(answers.values(), metric="interval") == pytest.approx(0.0)
