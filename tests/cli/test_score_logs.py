"""`agentv score` on logs as other programs export them: no converter, nothing lost, nothing passed by mistake."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.logs import SHAPES, conversations, logged, numbered
from tests.support.nightly import IS_NIGHTLY
from tests.support.spans import export, span

from agentv.cli.main import main

CONFIG = """
evaluators:
  - {type: regex, name: numbered, pattern: 'please \\(\\d+\\) write'}
  - {type: contains, name: days, value: 30 days}
gates: ["pass_rate >= 100%"]
"""
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)

    def call(lines: list[dict[str, Any]], *arguments: str) -> tuple[int, str]:
        Path("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(SystemExit) as left:
            main(["score", "log.jsonl", "--config", "config.yaml", *arguments])
        return int(left.value.code or 0), capsys.readouterr().out

    return call


MANY = 2000 if IS_NIGHTLY else 200


@pytest.mark.parametrize("shape", SHAPES)
def test_many_logged_conversations_are_judged_as_they_are(score: Call, shape: str) -> None:
    forms = conversations(shape)
    lines = [numbered(forms[number % len(forms)], number) for number in range(MANY)]
    code, out = score(lines, "-o", "judged.jsonl")
    assert code == 0, out
    assert f"{MANY:,} of {MANY:,}" in out
    given = [json.loads(line)["inputSnapshot"] for line in Path("judged.jsonl").read_text().splitlines()]
    assert len({each["id"] for each in given}) == MANY


def test_steps_of_traces_are_counted_and_not_scored(score: Call) -> None:
    lines = [numbered(line, number) for number, line in enumerate(logged("langsmith"))]
    code, out = score(lines)
    assert code == 0
    assert "not scored, because they are parts of a trace: 1 LangSmith tool run; --map response=PATH" in out
    code, out = score(lines[-1:])
    assert code == 5
    assert "all 1 lines are parts of a trace" in out


def test_a_line_of_unknown_shape_is_an_error_with_its_place(score: Call) -> None:
    code, out = score([numbered(conversations("prompt")[0], 1), {"q": "Where?", "reply": "30 days, please (1) write"}])
    assert code == 3
    assert "! log.jsonl:2" in out
    assert "this line has the keys 'q', 'reply'; name the fields with --map FIELD=PATH" in out


def test_a_log_with_keys_of_its_own_is_mapped(score: Call) -> None:
    line = {"q": "Where?", "reply": "30 days, please (1) write", "shop": "Rome"}
    maps = ("--map", "prompt=q", "--map", "response=reply", "--map", "session_id=user.session")
    code, out = score([line], *maps)
    assert code == 3
    assert "$.shop unknown key 'shop'; store such keys with --extra metadata" in out
    code, out = score([line], *maps, "--extra", "metadata", "-o", "judged.jsonl")
    assert code == 0
    assert "no line has the path of --map session_id=user.session" in out
    [judged] = map(json.loads, Path("judged.jsonl").read_text().splitlines())
    assert judged["inputSnapshot"]["prompt"] == "Where?"
    assert judged["inputSnapshot"]["metadata"] == {"shop": "Rome"}


def test_a_wrong_map_is_refused_before_the_first_line(score: Call) -> None:
    assert score(conversations("prompt"), "--map", "answer=x")[0] == 4


def test_a_json_export_is_read_record_by_record(score: Call) -> None:
    lines = [numbered(line, number) for number, line in enumerate(conversations("langfuse"))]
    Path("export.json").write_text(json.dumps(lines, indent=2))
    code, out = score([], "export.json", "-o", "judged.jsonl")
    assert code == 0
    assert f"{len(lines)} of {len(lines)}" in out
    judged = map(json.loads, Path("judged.jsonl").read_text().splitlines())
    first = min(judged, key=lambda line: line["source"]["line"])
    assert first["source"] == {"file": "export.json", "line": 2}


TABLE = (
    "id,prompt,response,latency_ms,usage,ts\n"
    'a,Where?,"30 days, please (1) write",310,"{""input"": 3, ""output"": 4}",1767225600\n'
    'b,"Is it\n two lines?","30 days, please (2) write",,,\n'
)


def test_a_table_is_a_log(score: Call) -> None:
    Path("table.csv").write_text(TABLE)
    code, out = score([], "table.csv", "-o", "judged.jsonl")
    assert code == 0, out
    judged = [json.loads(line) for line in Path("judged.jsonl").read_text().splitlines()]
    judged.sort(key=lambda each: each["source"]["line"])
    assert [each["source"] for each in judged] == [{"file": "table.csv", "line": 2}, {"file": "table.csv", "line": 3}]
    first, second = (each["inputSnapshot"] for each in judged)
    assert (first["durationMs"], first["usage"]["input"], first["usage"]["output"]) == (310.0, 3, 4)
    assert (second["id"], second["prompt"], "usage" in second) == ("b", "Is it\n two lines?", False)


def test_a_wrong_row_of_a_table_is_an_error_with_its_line(score: Call) -> None:
    Path("table.csv").write_text(TABLE + "c,Where?\nd,Where?,30 days; please (3) write,fast,,\n")
    code, out = score([], "table.csv")
    assert code == 3
    assert "! table.csv:5  this row has 2 cells, but the first row names 6 columns" in out
    assert "! table.csv:6  $.latency_ms must be a number of at least 0, got 'fast'" in out


def test_a_table_of_an_export_is_recognised(score: Call) -> None:
    said = json.dumps({"role": "assistant", "content": "30 days, please (1) write"}).replace('"', '""')
    Path("table.csv").write_text(f'id,name,input,output,bookmarked\nt,x,Where?,"{said}",false\n')
    code, out = score([], "table.csv")
    assert code == 0, out


@pytest.mark.parametrize(("name", "separator"), [("table.csv", ","), ("table.tsv", "\t")])
def test_an_empty_cell_is_a_missing_answer(score: Call, name: str, separator: str) -> None:
    table = "id,prompt,response\na,Where?,30 days; please (3) write\nb,Where?,\nc,,30 days; please (3) write\n"
    Path(name).write_text(table.replace(",", separator))
    code, out = score([], name)
    assert (code, "INCOMPLETE: 1 line with an error; the gate holds on the 2 judged lines" in out) == (3, True)
    assert f"! {name}:3  $.response is null or an empty cell" in out


def test_a_null_of_parquet_is_a_missing_answer_and_an_empty_text_is_one(score: Call) -> None:
    core, io = pytest.importorskip("arro3.core"), pytest.importorskip("arro3.io")
    columns = {"id": ["a", "b", "c"], "response": ["Please wait.", None, ""]}
    texts = {name: core.Array(values, core.DataType.string()) for name, values in columns.items()}
    io.write_parquet(core.Table.from_pydict(texts), "log.parquet")
    _, out = score([], "log.parquet")
    assert "! log.parquet:2  $.response is null" in out
    assert "✗ log.parquet:3  0.00" in out


def test_a_parquet_file_is_a_log(score: Call) -> None:
    core, io = pytest.importorskip("arro3.core"), pytest.importorskip("arro3.io")
    columns = {"id": ["a", "b"], "prompt": ["Where?", "When?"], "response": ["30 days, please (1) write"] * 2}
    table = core.Table.from_arrays(
        [core.Array(each, core.DataType.utf8()) for each in columns.values()], names=list(columns)
    )
    io.write_parquet(table, "log.parquet")
    code, out = score([], "log.parquet")
    assert code == 0, out
    assert "2 of 2" in out


def test_a_file_that_is_no_parquet_is_an_error(score: Call) -> None:
    Path("log.parquet").write_text("nothing")
    code, out = score([], "log.parquet")
    assert code == 3
    assert "! log.parquet:1  not a valid Parquet file" in out


def conversation(number: int) -> dict[str, Any]:
    said = {"gen_ai.prompt.0.content": "Where?", "gen_ai.completion.0.content": f"30 days, please ({number}) write"}
    return export(span(3 * number, None, {"http.route": "/"}), span(3 * number + 1, 3 * number, said),
                  span(3 * number + 2, 3 * number + 1, said))  # fmt: skip


@pytest.mark.parametrize("name", ["spans.jsonl", "spans.json"])
def test_the_conversations_of_an_otlp_export_are_judged(score: Call, name: str) -> None:
    exports = [conversation(number) for number in range(1, 21)]
    Path(name).write_text(
        json.dumps(exports) if name.endswith(".json") else "".join(f"{json.dumps(e)}\n" for e in exports)
    )
    code, out = score([], name, "-o", "judged.jsonl")
    assert code == 0, out
    assert len(Path("judged.jsonl").read_text().splitlines()) == 20


def test_an_otlp_export_with_a_wrong_part_is_an_error(score: Call) -> None:
    wrong = {**conversation(1), "resourceSpans": [*conversation(1)["resourceSpans"], {"scopeSpans": {}}]}
    Path("spans.jsonl").write_text(f"{json.dumps(wrong)}\n{json.dumps(conversation(2))}\n")
    code, out = score([], "spans.jsonl")
    assert code == 3
    assert "! spans.jsonl:1  $.resourceSpans[1].scopeSpans must be a list of objects, got dict" in out
