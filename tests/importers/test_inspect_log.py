"""Logs that inspect_ai 0.3.285 and 0.3.52 wrote (tests/fixtures/inspect/README.md), as records of a run."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from agentv.importers.inspect_log import InspectLog, read_inspect_log
from agentv.importers.inspect_scores import scorer_of_log, to_score
from agentv.types.errors import EvalFileError

LOGS = Path(__file__).parents[1] / "fixtures" / "inspect"


def outcome(log: InspectLog) -> list[tuple[str, int, str, float | None, str | None]]:
    rows = [sample.row(0, log.run.run_id) for sample in log.samples]
    return [
        (row.eval_id, row.trial, row.status, row.score, None if row.error is None else row.error.kind) for row in rows
    ]


@pytest.mark.parametrize(
    ("name", "state", "planned", "rows"),
    [
        ("capitals.eval", "finished", 6, [
            ("fr", 0, "pass", 1.0, None), ("jp", 0, "pass", 1.0, None), ("3", 0, "pass", 1.0, None),
            ("fr", 1, "pass", 1.0, None), ("jp", 1, "fail", 0.0, None), ("3", 1, "fail", 0.0, None)]),
        ("capitals.json", "finished", 3, [
            ("3", 0, "pass", 1.0, None), ("fr", 0, "pass", 1.0, None), ("jp", 0, "pass", 1.0, None)]),
        ("failing.eval", "failed", 3, [
            ("fr", 0, "pass", 1.0, None), ("3", 0, "error", None, "cancelled"),
            ("jp", 0, "error", None, "plugin_error")]),
        ("failing.json", "failed", 3, [
            ("3", 0, "error", None, "cancelled"), ("fr", 0, "pass", 1.0, None),
            ("jp", 0, "error", None, "plugin_error")]),
        ("tolerant.eval", "finished", 3, [
            ("fr", 0, "pass", 1.0, None), ("jp", 0, "error", None, "plugin_error"), ("3", 0, "pass", 1.0, None)]),
        ("cancelled.eval", "interrupted", 3, [
            ("fr", 0, "pass", 1.0, None), ("jp", 0, "pass", 1.0, None), ("3", 0, "error", None, "cancelled")]),
        ("cancelled.json", "interrupted", 3, [
            ("3", 0, "error", None, "cancelled"), ("fr", 0, "pass", 1.0, None), ("jp", 0, "pass", 1.0, None)]),
        ("killed.eval", "interrupted", 3, [("fr", 0, "pass", 1.0, None), ("jp", 0, "pass", 1.0, None)]),
        ("killed.json", "interrupted", 3, [("fr", 0, "pass", 1.0, None), ("jp", 0, "pass", 1.0, None)]),
    ],
)  # fmt: skip
def test_a_log_has_a_result_for_each_sample_and_epoch(name: str, state: str, planned: int, rows: list[Any]) -> None:
    log = read_inspect_log(LOGS / name)
    assert (log.state, log.planned, sorted(outcome(log))) == (state, planned, sorted(rows))


def test_a_sample_keeps_question_reference_calls_and_usage() -> None:
    log = read_inspect_log(LOGS / "capitals.eval")
    first = next(log.samples)
    assert (first.case.question, first.case.reference_answer) == ("Capital of France?", "Paris")
    assert first.case.metadata == {"region": "europe"}
    call, result, said = first.answer.output_messages or ()
    assert [(made.tool, made.input) for made in call.tool_calls] == [("lookup", {"city": "Paris"})]
    assert (result.role, result.content, said.content) == ("tool", "Paris is a capital", "It is Paris.")
    usage = first.answer.usage
    assert usage is not None
    assert (usage.input, usage.output, usage.total, usage.requests) == (20, 10, 30, 2)
    assert [(found.name, found.score, found.weight) for found in first.scores.results] == [
        ("includes", 1.0, 1.0),
        ("closeness", 0.75, 0.0),
    ]
    assert (log.run.plan["targets"], log.run.plan["rows"]) == ([{"name": "mockllm/model"}], 6)


def test_two_logs_of_one_task_have_the_same_cases_and_other_runs() -> None:
    before, after = (read_inspect_log(LOGS / name) for name in ("capitals.eval", "better.eval"))
    assert before.run.run_id != after.run.run_id
    keys = [
        sorted((s.case.eval_id, s.answer.slot.trial, s.case.case_key) for s in log.samples) for log in (before, after)
    ]
    assert keys[0] == keys[1]
    assert before.run.plan["suites"] == after.run.plan["suites"]


def test_the_reason_of_a_failed_log_is_noted() -> None:
    (note,) = read_inspect_log(LOGS / "failing.eval").notes
    assert note.message == "the eval failed: ValueError('the tool broke')"


@pytest.mark.parametrize(
    ("value", "score"),
    [("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), ("yes", 1.0), ("False", 0.0), (True, 1.0), (0.25, 0.25), (1, 1.0),
     (7, None), (-0.1, None), ("great", None), (None, None), ("", None)],
)  # fmt: skip
def test_values_of_scorers_become_scores_or_nothing(value: Any, score: float | None) -> None:
    assert to_score(value) == score


def changed(tmp_path: Path, **scores: Any) -> InspectLog:
    log = json.loads((LOGS / "capitals.json").read_text())
    for sample in log["samples"]:
        sample["scores"] = {name: {"value": value} for name, value in scores.items()}
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(log))
    return read_inspect_log(path)


def test_a_value_that_is_no_score_is_kept_in_the_metadata_and_noted(tmp_path: Path) -> None:
    log = changed(tmp_path, includes="C", closeness=7)
    samples = list(log.samples)
    assert samples[0].case.metadata["inspect_scores"] == {"closeness": 7}
    assert [found.name for found in samples[0].scores.results] == ["includes"]
    assert [note.message for note in log.notes] == ["7 is not a score between 0 and 1"] * 3


def test_a_score_that_is_not_known_leaves_the_sample_without_a_verdict(tmp_path: Path) -> None:
    log = changed(tmp_path, includes=float("nan"), closeness=0.5)
    assert [row[2:4] for row in outcome(log)] == [("skipped", None)] * 3


def test_a_score_with_several_values_becomes_several_evaluators(tmp_path: Path) -> None:
    log = changed(tmp_path, includes={"facts": 1, "tone": 0})
    sample = next(log.samples)
    assert [(found.name, found.score) for found in sample.scores.results] == [
        ("includes.facts", 1),
        ("includes.tone", 0),
    ]
    assert sample.row(0, "run").score == 0.5


def test_a_lost_part_of_a_score_never_passes(tmp_path: Path) -> None:
    rows = [outcome(changed(tmp_path, includes={"facts": facts, "tone": 7})) for facts in (1, 0)]
    assert [row[0][2:4] for row in rows] == [("skipped", None), ("fail", 0)]


def test_a_log_of_an_old_inspect_counts_its_first_scorer() -> None:
    log = read_inspect_log(LOGS / "old.json")
    samples = list(log.samples)
    assert [(found.name, found.score, found.weight) for found in samples[0].scores.results] == [
        ("includes", 1, 1), ("match", 0, 0), ("parts.facts", 1, 0), ("parts.tone", 0.5, 0)]  # fmt: skip
    assert [sample.row(0, "run").status for sample in samples] == ["pass", "fail"]
    assert log.notes == []


def given(scorers: list[str], scored: list[str] | None, headline: str | None = None) -> dict[str, Any]:
    results = None if scored is None else {"scores": [{"name": "x", "scorer": name} for name in scored]}
    if results is not None and headline is not None:
        results["headline"] = {"scorer": headline}  # type: ignore[assignment]
    return {"eval": {"scorers": [{"name": name} for name in scorers]}, "results": results}


@pytest.mark.parametrize(
    ("log", "scorer"),
    [
        (given(["includes", "match"], ["match", "includes"]), "includes"),
        (given(["includes", "match"], ["match", "includes"], "match"), "match"),
        (given(["includes"], ["match"]), "match"),  # `inspect score --action overwrite`
        (given([], ["match", "includes"]), "match"),  # inspect 0.3.52
        (given(["package/mine"], ["mine", "match"]), "mine"),
        (given(["package/mine", "match"], None), "mine"),  # cancelled
        (given([], None), None),
    ],
)
def test_the_scorer_that_counts_is_one_that_has_scores(log: dict[str, Any], scorer: str | None) -> None:
    assert scorer_of_log(log) == scorer


def without_scorers(tmp_path: Path, scores: list[dict[str, Any] | None]) -> InspectLog:
    """Return a log that names no scorer, as one of inspect 0.3.52 that was cancelled."""
    log = json.loads((LOGS / "capitals.json").read_text())
    log["eval"]["scorers"], log["results"] = None, None
    for sample, values in zip(log["samples"], scores, strict=True):
        sample["scores"] = values and {name: {"value": value} for name, value in values.items()}
    (tmp_path / "log.json").write_text(json.dumps(log))
    return read_inspect_log(tmp_path / "log.json")


def test_without_a_named_scorer_the_first_one_of_all_samples_counts(tmp_path: Path) -> None:
    log = without_scorers(tmp_path, [None, {"match": "C", "includes": "I"}, {"includes": "C"}])
    rows = [sample.row(0, "run") for sample in log.samples]
    assert [(row.status, row.reasoning) for row in rows] == [
        ("skipped", "the log has no score of this sample"),
        ("pass", None),
        ("skipped", "the log has no score of match for this sample"),
    ]
    assert [(found.name, found.weight) for found in rows[2].evaluator_results] == [("includes", 0)]
    [note] = log.notes
    assert (note.json_path, note.severity) == ("samples/jp.scores", "warning")
    assert note.message == "there is no score of match, the scorer that counts"


def test_the_single_score_of_the_first_version_counts(tmp_path: Path) -> None:
    def make_old(log: dict[str, Any]) -> None:
        log["eval"]["scorers"], log["results"] = None, None
        log["samples"][0].pop("scores")
        log["samples"][0]["score"] = {"value": "C"}

    assert outcome(with_sample(tmp_path, make_old)) == [("fr", 0, "pass", 1.0, None)]


def test_texts_that_a_log_stores_apart_are_put_in_place(tmp_path: Path) -> None:
    log = json.loads((LOGS / "capitals.json").read_text())
    sample = log["samples"][0]
    sample["input"] = "attachment://abc"
    sample["attachments"] = {"abc": "A long question"}
    (tmp_path / "log.json").write_text(json.dumps(log).replace('"1e999"', "1e999"))
    assert next(read_inspect_log(tmp_path / "log.json").samples).case.question == "A long question"


def damaged(tmp_path: Path, change: str) -> Path:
    path = tmp_path / "log.eval"
    if change == "not a zip":
        path.write_bytes(b"no zip")
    elif change == "other members":
        with ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "x")
    elif change == "flipped":
        shutil.copy(LOGS / "capitals.eval", path)
        data = bytearray(path.read_bytes())
        with ZipFile(path) as archive:
            at = archive.getinfo("header.json").header_offset
        data[at + 200 : at + 240] = b"\x00" * 40
        path.write_bytes(bytes(data))
    elif change in ("deflated", "encrypted", "unknown method"):
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps({"eval": {"task": "t" * 50}}))
            info = archive.getinfo("header.json")
            at = len(info.FileHeader())
        data = bytearray(path.read_bytes())
        if change == "deflated":
            data[at : at + 20] = b"\xff" * 20
        else:  # the two bytes of the flags, or those of the method, here and in the directory
            for start, field in ((0, 6), (data.index(b"PK\x01\x02"), 8)):
                where = start + field + (0 if change == "encrypted" else 2)
                data[where : where + 2] = struct.pack("<H", 1 if change == "encrypted" else 77)
        path.write_bytes(bytes(data))
    else:
        with ZipFile(path, "w") as archive:
            archive.writestr("header.json", change)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("not a zip", "not a log of inspect: File is not a zip file"),
        ("other members", "it has neither header.json nor _journal/start.json"),
        ("flipped", "header.json is damaged"),
        ("deflated", "header.json is damaged or cannot be unpacked"),
        ("encrypted", "header.json is damaged or cannot be unpacked: .* is encrypted"),
        ("unknown method", "header.json is damaged or cannot be unpacked: That compression method is not supported"),
        ("{", "header.json is not valid JSON"),
        ("[]", "the log names no task or no model"),
    ],
)
def test_a_damaged_log_is_one_error(change: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match=message):
        read_inspect_log(damaged(tmp_path, change))


def with_sample(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> InspectLog:
    """Return a log of one sample, after a change of its JSON; the text "1e999" becomes the number."""
    log = json.loads((LOGS / "capitals.json").read_text())
    log["samples"] = [sample for sample in log["samples"] if sample["id"] == "fr"]
    change(log)
    (tmp_path / "log.json").write_text(json.dumps(log).replace('"1e999"', "1e999"))
    return read_inspect_log(tmp_path / "log.json")


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (lambda log: log["eval"].update(dataset={"samples": "many"}), r"\$\.eval\.dataset\.samples", '"many"'),
        (lambda log: log.update(samples="gone"), r"\$\.samples", "must be a list, but is a string"),
        (lambda log: log["samples"].append("oops"), r"\$\.samples\[1\]", "a sample must be an object, but is a string"),
        (lambda log: log["samples"][0].update(id=None), "samples", "a sample has no id"),
        (lambda log: log["samples"][0].update(model_usage={"m": {"input_tokens": 1.5}}),
         r"samples/fr\.model_usage\.m\.input_tokens", "must be a whole number of at least 0, but is 1.5"),
    ],
)  # fmt: skip
def test_what_a_log_must_have_is_an_error_if_it_is_not_understood(
    change: Callable[[dict[str, Any]], object], place: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(EvalFileError, match=rf"log\.json\S*\s+{place}\s+.*{message}"):
        list(with_sample(tmp_path, change).samples)


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("$.eval.created", lambda log: log["eval"].update(created="yesterday")),
        ("$.eval.config.epochs", lambda log: log["eval"]["config"].update(epochs="2")),
        ("samples/fr.completed_at", lambda log: log["samples"][0].update(completed_at=7)),
        ("samples/fr.epoch", lambda log: log["samples"][0].update(epoch="2")),
        ("samples/fr.epoch", lambda log: log["samples"][0].update(epoch="1e999")),
        ("$.eval.config.epochs", lambda log: log["eval"]["config"].update(epochs="1e999")),
        ("samples/fr.total_time", lambda log: log["samples"][0].update(total_time="12")),
        ("samples/fr.input", lambda log: log["samples"][0].update(input={"x": 1})),
        ("samples/fr.scores", lambda log: log["samples"][0].update(scores=[1])),
        ("samples/fr.scores.includes", lambda log: log["samples"][0].update(scores={"includes": "C"})),
        ("samples/fr.metadata", lambda log: log["samples"][0].update(metadata="x")),
        ("samples/fr.output", lambda log: log["samples"][0].update(output="Paris")),
        ("samples/fr.model_usage", lambda log: log["samples"][0].update(model_usage=3)),
    ],
)
def test_what_is_not_understood_of_a_sample_is_noted(
    place: str, change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    log = with_sample(tmp_path, change)
    assert len(list(log.samples)) == 1
    assert [note.json_path for note in log.notes] == [place]


def test_a_choice_without_a_stop_reason_has_no_finish_reason(tmp_path: Path) -> None:
    (sample,) = with_sample(tmp_path, lambda log: log["samples"][0]["output"]["choices"][0].pop("stop_reason")).samples
    assert sample.answer.finish_reason is None


def test_the_output_of_a_tool_that_failed_is_kept(tmp_path: Path) -> None:
    def fail(log: dict[str, Any]) -> None:
        for message in log["samples"][0]["messages"]:
            if message["role"] == "tool":
                message["error"] = {"type": "timeout", "message": "timed out"}

    (sample,) = with_sample(tmp_path, fail).samples
    [result] = [message for message in sample.answer.output_messages or () if message.role == "tool"]
    assert result.content == {"error": "timed out", "content": "Paris is a capital"}
