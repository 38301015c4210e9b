"""Where an answer was read from: in the stored row, in every output, and in cases that are made from it."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_score_transcripts import write_session
from tests.support.spans import export
from tests.telemetry.test_joining import assistant, call, user

from agentv.cli.main import main

TRACE, SPAN = f"{2:032x}", f"{2:016x}"
ORIGIN = {"file": "traces.jsonl", "line": 2, "trace_id": TRACE, "span_id": SPAN}
PLACE = f"traces.jsonl:2, trace {TRACE}"
SUITE = "evaluators: [{type: contains, name: day, value: Monday}]\n"
TARGETS = """\
targets:
  - {name: old, provider: replay, file: traces.jsonl}
  - {name: new, provider: mock, response: It is lost.}
"""
Call = Callable[..., str]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(SUITE)
    (tmp_path / "suite.yaml").write_text(f"{SUITE}evalcases: {{file: traces.jsonl}}\n")
    (tmp_path / "targets.yaml").write_text(TARGETS)
    span = call(2, [user("Where is order 7?")], assistant("On its way."))
    (tmp_path / "traces.jsonl").write_text(f"\n{json.dumps(export(span))}\n")
    monkeypatch.chdir(tmp_path)

    def call_main(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(list(arguments))
        printed = capsys.readouterr()
        return printed.out + printed.err

    return call_main


def stored_rows() -> list[dict[str, Any]]:
    latest = max(Path(".agentv/runs").iterdir())
    return [json.loads(line) for line in (latest / "results.jsonl").read_text().splitlines()]


def test_a_scored_trace_is_named_wherever_its_row_is_shown(agentv: Call) -> None:
    assert f"✗ traces.jsonl:2  0.00  trace {TRACE}" in agentv("score", "traces.jsonl", "--config", "config.yaml")
    assert f"\nfrom {PLACE}, span {SPAN}\n" in agentv("show", "latest", SPAN)
    shown = json.loads(agentv("show", "latest", SPAN, "--json"))
    assert shown["cases"][0]["row"]["origin"] == ORIGIN
    assert f"  from     │ {PLACE}\n" in agentv("report", "latest")
    agentv("report", "latest", "-o", "out.md", "-o", "out.html", "-o", "out.csv")
    assert f"from: `{PLACE}`" in Path("out.md").read_text()
    assert " at `traces.jsonl:2`" not in Path("out.md").read_text()
    assert f'<dt>trace</dt><dd class="id">{TRACE}</dd>' in Path("out.html").read_text()
    [line] = csv.DictReader(Path("out.csv").read_text().splitlines())
    assert (line["file"], line["line"], line["trace_id"], line["span_id"]) == ("traces.jsonl", "2", TRACE, SPAN)


def test_a_case_that_is_named_by_its_trace_is_found(agentv: Call) -> None:
    agentv("score", "traces.jsonl", "--config", "config.yaml")
    assert f"has no case '{TRACE}'. From that trace or span: '{SPAN}'." in agentv("show", "latest", TRACE)


def test_a_scored_transcript_is_named_by_file_and_line(agentv: Call) -> None:
    write_session("Fix it", name="s")
    agentv("score", "sessions", "--config", "config.yaml")
    [row] = stored_rows()
    assert (row["file"], row["line"]) == ("sessions/s.jsonl", 1)
    assert "  from     │ sessions/s.jsonl:1\n" in agentv("report", "latest")
    assert json.loads(agentv("show", "latest", "--json"))["rows"][0]["origin"] == {
        "file": "sessions/s.jsonl",
        "line": 1,
    }


def test_cases_of_a_dataset_of_traces_keep_their_place(agentv: Call) -> None:
    printed = agentv("run", "suite.yaml", "--target", "new")
    assert f"  from     │ {PLACE}\n" in printed
    [row] = stored_rows()
    assert row["metadata"]["origin"] == ORIGIN
    assert "trace_id" not in row, "the answer is new: its judgements do not belong to the old trace"


def test_a_replayed_answer_belongs_to_its_trace(agentv: Call) -> None:
    agentv("run", "suite.yaml", "--target", "old")
    [row] = stored_rows()
    assert (row["trace_id"], row["span_id"]) == (TRACE, SPAN)
    agentv("rescore", "latest")
    assert (stored_rows()[-1]["trace_id"], stored_rows()[-1]["span_id"]) == (TRACE, SPAN)


def test_prompts_and_targets_of_a_case_share_its_place(agentv: Call) -> None:
    printed = agentv("run", "suite.yaml", "--target", "old", "--target", "new")
    assert printed.count(PLACE) == 1


def test_exported_cases_keep_the_place_of_their_answer(agentv: Call) -> None:
    agentv("score", "traces.jsonl", "--config", "config.yaml")
    agentv("runs", "export", "latest", "-o", "again.yaml")
    [case] = yaml.safe_load(Path("again.yaml").read_text())["evalcases"]
    assert ORIGIN.items() <= case["metadata"]["origin"].items()
    assert case["metadata"]["origin"]["eval_id"] == SPAN


def test_a_place_in_metadata_that_is_none_is_not_shown(agentv: Call) -> None:
    Path("log.jsonl").write_text('{"id": "1", "prompt": "a", "expected": "b", "metadata.origin": "the web"}\n')
    Path("suite.yaml").write_text(f"{SUITE}evalcases: {{file: log.jsonl}}\n")
    assert "from     │" not in agentv("run", "suite.yaml", "--target", "new")


def test_export_refuses_a_logged_image_and_leaves_out_earlier_thoughts(agentv: Call) -> None:
    image = {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"}
    thought = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, *assistant("Hello")["parts"]]}
    shown = {"role": "user", "parts": [*user("What is this?")["parts"], image]}
    spans = [call(1, [shown], assistant("A cat.")), call(2, [user("Hi"), thought, user("Bye")], assistant("."), at_s=1)]
    Path("traces.jsonl").write_text("".join(f"{json.dumps(export(each))}\n" for each in spans))
    agentv("score", "traces.jsonl", "--config", "config.yaml")
    assert "has a logged image or other attachment" in agentv("runs", "export", "latest", "-o", "all.yaml")
    assert not Path("all.yaml").exists()
    agentv("runs", "export", "latest", "--case", SPAN, "-o", "one.yaml")
    assert "1 file checked: 1 warning\n" in agentv("check", "one.yaml"), "only that no target is chosen"
