"""`agentv resume` of a scored log: lines are read in every format, and a log that changed is refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Call, command_line
from tests.support.spans import export, span

from agentv.storage.run.find import list_run_folders
from agentv.storage.run.stored import StoredRun


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "judges.yaml").write_text("evaluators: [{type: contains, name: polite, value: please}]\n")
    monkeypatch.chdir(tmp_path)

    return command_line(capsys)


def score(agentv: Call, file: str, *options: str) -> StoredRun:
    code, out, err = agentv("score", file, "--config", "judges.yaml", "--workers", "1", "--gate", "none", *options)
    assert code in (0, 3), out + err
    return latest()


def latest() -> StoredRun:
    return StoredRun(list_run_folders(Path(".agentv"))[-1])


def places(run: StoredRun) -> list[tuple[int, int]]:
    return [(row.line, row.part) for row in run.results()]


def cut(run: StoredRun, *, rows: int, answers: int) -> None:
    """Leave only the first rows and answers of a run, as a killed process does."""
    for name, count in (("results.jsonl", rows), ("answers.jsonl", answers)):
        lines = (run.folder / name).read_bytes().splitlines(keepends=True)
        (run.folder / name).write_bytes(b"".join(lines[:count]))


def contents(run: StoredRun) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}


def answer(number: int, **more: Any) -> str:
    return json.dumps({"id": f"q-{number}", "prompt": f"{number}?", "response": "Wait, please.", **more}) + "\n"


def llm_span(number: int) -> dict[str, Any]:
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"{number}?"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": f"Wait {number}, please."}]}]
    keys = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    return span(number, None, {**keys, "gen_ai.output.messages": json.dumps(said)})


def test_resume_reads_the_rows_of_a_table(agentv: Call) -> None:
    head, rows = "id,prompt,response\n", [f'q-{n},"{n}?\nAgain?","Wait, please."\n' for n in range(4)]
    Path("v1.csv").write_text(head + "".join(rows[:2]))
    score(agentv, "v1.csv")
    Path("v1.csv").write_text(head + "".join(rows))
    code, out, err = agentv("resume", "latest")
    assert (code, "4 of 4" in out) == (0, True), out + err
    assert [row.eval_id for row in latest().results()] == ["q-0", "q-1", "q-2", "q-3"]


LOGS = {
    "spans.jsonl": json.dumps(export(*map(llm_span, (1, 2, 3)))) + "\n",
    "list.json": json.dumps([json.loads(answer(number)) for number in (1, 2, 3)]),
    "nameless.json": json.dumps([{"response": f"Wait {number}, please."} for number in (1, 2, 3)]),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("answers", [1, 2, 3])
def test_resume_scores_every_answer_of_one_line(agentv: Call, name: str, answers: int) -> None:
    Path(name).write_text(LOGS[name])
    run = score(agentv, name)
    assert places(run) == [(1, 1), (1, 2), (1, 3)]
    before = [(row.slot, row.candidate_answer) for row in run.results()]
    cut(run, rows=1, answers=answers)
    code, out, err = agentv("resume", "latest")
    assert (code, "3 of 3" in out) == (0, True), out + err
    rows = list(latest().results())
    assert [(row.slot, row.candidate_answer) for row in rows] == before
    assert len(list(latest().answers())) == 3


def test_answers_of_one_line_without_a_question_are_cases_of_their_own(agentv: Call) -> None:
    Path("nameless.json").write_text(LOGS["nameless.json"])
    run = score(agentv, "nameless.json", "-o", "scores.jsonl")
    assert [row.eval_id for row in run.results()] == ["nameless.json:1", "nameless.json:1#2", "nameless.json:1#3"]
    sources = [json.loads(line)["source"] for line in Path("scores.jsonl").read_text().splitlines()]
    assert sources[:2] == [
        {"file": "nameless.json", "line": 1},
        {"file": "nameless.json", "line": 1, "part": 2},
    ]


def test_the_place_of_an_answer_in_its_line_leads_to_its_case(agentv: Call) -> None:
    Path("list.json").write_text(LOGS["list.json"])
    score(agentv, "list.json")
    assert agentv("show", "latest", "list.json:1#2")[2].endswith("That line is the case 'q-2'.\n")


@pytest.mark.parametrize("answers", [2, 3])
def test_resume_refuses_a_log_that_has_changed(agentv: Call, answers: int) -> None:
    Path("v1.jsonl").write_text("".join(map(answer, range(3))))
    cut(score(agentv, "v1.jsonl"), rows=2, answers=answers)
    Path("v1.jsonl").write_text(answer(0) + answer(7) + answer(8) + answer(9))
    before = contents(latest())
    code, _, err = agentv("resume", "latest")
    assert (code, "v1.jsonl:2: has changed since run " in err) == (4, True), err
    assert "agentv score" in err
    assert contents(latest()) == before


def test_resume_compares_an_answer_that_was_stored_without_a_row(agentv: Call) -> None:
    Path("v1.jsonl").write_text("".join(map(answer, range(3))))
    cut(score(agentv, "v1.jsonl"), rows=1, answers=2)
    Path("v1.jsonl").write_text(answer(0) + answer(7))
    code, _, err = agentv("resume", "latest")
    assert (code, "v1.jsonl:2: has changed since run " in err) == (4, True), err


def test_resume_refuses_a_log_that_is_shorter(agentv: Call) -> None:
    Path("v1.jsonl").write_text("".join(map(answer, range(3))))
    cut(score(agentv, "v1.jsonl"), rows=3, answers=3)
    Path("v1.jsonl").write_text(answer(0))
    code, _, err = agentv("resume", "latest")
    assert (code, "v1.jsonl: no longer has line 3" in err) == (4, True), err


def test_resume_takes_a_log_that_was_compressed(agentv: Call) -> None:
    Path("v1.jsonl").write_text("".join(map(answer, range(3))))
    cut(score(agentv, "v1.jsonl"), rows=1, answers=1)
    Path("v1.jsonl").write_bytes(gzip.compress(Path("v1.jsonl").read_bytes()))
    code, out, err = agentv("resume", "latest")
    assert (code, "3 of 3" in out) == (0, True), out + err


def test_a_rescored_row_still_knows_its_line(agentv: Call) -> None:
    Path("list.json").write_text(LOGS["list.json"])
    digests = [row.line_digest for row in score(agentv, "list.json").results()]
    Path("judges.yaml").write_text("evaluators: [{type: contains, name: polite, value: Please}]\n")
    assert agentv("rescore", "latest")[0] == 0
    rows = list(latest().results())
    assert [(row.generation, row.part, row.line_digest) for row in rows] == [
        (1, part, digest) for part, digest in zip((1, 2, 3), digests, strict=True)
    ]
    assert len(set(digests)) == 3


def test_resume_of_an_older_run_reports_that_nothing_is_compared(agentv: Call) -> None:
    Path("v1.jsonl").write_text("".join(map(answer, range(2))))
    run = score(agentv, "v1.jsonl")
    for name in ("results.jsonl", "answers.jsonl"):
        lines = [json.loads(line) for line in (run.folder / name).read_text().splitlines()]
        for line in lines:
            line.pop("line_digest", None)
            line.get("origin", {}).pop("digest", None)
        (run.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("v1.jsonl").write_text("".join(map(answer, range(3))))
    code, out, err = agentv("resume", "latest")
    assert (code, "3 of 3" in out) == (0, True), out + err
    assert "does not record the contents of its lines" in err
