"""Rows as files: whole or not at all, readable by any reader."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.reports.rows import FAILED, HOSTILE, REPORT, STARTED
from tests.support.stored import make_result

from agentv.reports.run.exports import make_export
from agentv.reports.run.formats import ReportTools, make_json_lines
from agentv.reports.text.printable import UNSAFE
from agentv.reports.text.yaml_text import yaml_item
from agentv.storage.records.encode import export_line, export_record
from agentv.types.errors import ConfigError
from agentv.types.events import RowFinished, RunEnded
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult


def export(path: Path, *rows: CaseResult, ended: bool = True) -> None:
    observer = make_export(str(path), tools=ReportTools(export_record), stdout=io.StringIO())
    observer.notify(STARTED)
    for row in rows:
        observer.notify(RowFinished(row))
    if ended:
        observer.notify(RunEnded(REPORT))
    observer.close()


def as_json(row: CaseResult) -> object:
    return json.loads(json.dumps(export_record(row)))


def test_jsonl_has_a_row_a_line(tmp_path: Path) -> None:
    export(tmp_path / "x.jsonl", FAILED, HOSTILE)
    lines = (tmp_path / "x.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [as_json(FAILED), as_json(HOSTILE)]
    assert lines[-1] == ""


def test_a_line_that_is_encoded_at_once_has_the_same_values() -> None:
    lines = make_json_lines(ReportTools(export_record, to_line=export_line))
    records = make_json_lines(ReportTools(export_record))
    for event in map(RowFinished, (FAILED, HOSTILE)):
        assert lines.text_of(event).endswith("}\n")
        assert list(json.loads(lines.text_of(event)).items()) == list(json.loads(records.text_of(event)).items())


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_yaml_is_a_list_of_rows(tmp_path: Path, suffix: str) -> None:
    path = (tmp_path / "x").with_suffix(suffix)
    export(path, FAILED, HOSTILE)
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert rows == [as_json(FAILED), as_json(HOSTILE)]


def test_yaml_is_readable() -> None:
    record: JsonObject = {
        "eval_id": "refund-7",
        "score": 1 / 3,
        "cost_usd": 1e-05,
        "verdict": None,
        "cached": False,
        "hits": [],
        "candidate_answer": "First line.\n  indented\n\nlast line",
        "reasoning": "yes",
        "evaluator_results": [
            {
                "name": "tone",
                "misses": ["a: b", 'say "no": it\'s', "a plain sentence, with £5 (and more).", "two\nlines\n"],
                "metadata": {},
            }
        ],
    }
    assert yaml_item(record) == (
        "- eval_id: refund-7\n"
        "  score: 0.3333333333333333\n"
        "  cost_usd: 1.0e-05\n"
        "  verdict: null\n"
        "  cached: false\n"
        "  hits: []\n"
        "  candidate_answer: |-\n"
        "    First line.\n"
        "      indented\n"
        "\n"
        "    last line\n"
        '  reasoning: "yes"\n'
        "  evaluator_results:\n"
        "    - name: tone\n"
        "      misses:\n"
        '        - "a: b"\n'
        "        - 'say \"no\": it''s'\n"
        "        - a plain sentence, with £5 (and more).\n"
        "        - |\n"
        "          two\n"
        "          lines\n"
        "      metadata: {}\n"
    )


yaml_texts = st.text(
    st.sampled_from("ab \n\t#-:'\"|>%@`\r\x07\x7f\x85\u202e\U000e0041\uffff\u2028\ufeff\ud7ff\U0001f600é{}[]!&*?,~0"),
    max_size=12,
)
yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | yaml_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(yaml_texts, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@given(record=st.dictionaries(yaml_texts, yaml_values, min_size=1, max_size=3))
def test_yaml_says_what_json_says(loader: type, record: JsonObject) -> None:
    text = yaml_item(record)
    assert yaml.load(text + text, Loader=loader) == [record, record]


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "No",
        "on",
        "null",
        "~",
        "true",
        "1",
        "1.5",
        "1e3",
        "0x1f",
        "0o7",
        "1:30",
        "2026-01-31",
        ".inf",
        "-",
        "",
        "=",
        "<<",
        "y",
    ],
)
def test_a_text_that_looks_like_something_else_stays_a_text(word: str) -> None:
    assert yaml.safe_load(yaml_item({"a": word, word: 1})) == [{"a": word, word: 1}]


def test_a_key_longer_than_readers_look_is_still_a_key() -> None:
    record: JsonObject = {"x" * 2000: {"y" * 2000: [1]}, "z": 2}
    assert yaml.safe_load(yaml_item(record)) == [record]


def test_yaml_is_safe_to_look_at() -> None:
    record: JsonObject = {"answer": "\u202eevil\n\x9b31m \U000e0041", "\u200b": ["\x1b[2J", "\ufeff"]}
    assert not UNSAFE.search(yaml_item(record))
    assert yaml.safe_load(yaml_item(record)) == [record]


def test_json_is_the_report(tmp_path: Path) -> None:
    export(tmp_path / "x.json", FAILED)
    report = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert (report["schema"], report["exit_code"]) == ("agentv-report-1", 1)


def test_a_dash_is_standard_output_safe_to_look_at() -> None:
    stdout = io.StringIO()
    observer = make_export("-", tools=ReportTools(export_record), stdout=stdout)
    observer.notify(RowFinished(HOSTILE))
    observer.close()
    assert json.loads(stdout.getvalue()) == as_json(HOSTILE)
    assert "\u202e" not in stdout.getvalue()
    assert not stdout.closed


def test_the_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("of the last run")
    observer = make_export(str(path), tools=ReportTools(export_record), stdout=io.StringIO())
    observer.notify(RowFinished(FAILED))
    assert path.read_text() == "of the last run"
    observer.close()
    assert json.loads(path.read_text()) == as_json(FAILED)
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_run_leaves_its_finished_rows_and_no_report(tmp_path: Path) -> None:
    export(tmp_path / "x.yaml", FAILED, ended=False)
    export(tmp_path / "x.json", FAILED, ended=False)
    assert len(yaml.safe_load((tmp_path / "x.yaml").read_text())) == 1
    assert not (tmp_path / "x.json").exists()


def test_no_rows_are_an_empty_list(tmp_path: Path) -> None:
    export(tmp_path / "x.yaml")
    export(tmp_path / "x.jsonl")
    assert yaml.safe_load((tmp_path / "x.yaml").read_text()) == []
    assert (tmp_path / "x.jsonl").read_text() == ""


@pytest.mark.parametrize("target", ["x.txt", "x", "x.htm"])
def test_an_unknown_suffix_is_refused_with_those_there_are(tmp_path: Path, target: str) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.jsonl, \.yaml, .* or \.github, or be -"):
        make_export(str(tmp_path / target), tools=ReportTools(export_record), stdout=io.StringIO())


def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        make_export(str(tmp_path / "missing" / "x.jsonl"), tools=ReportTools(export_record), stdout=io.StringIO())


ON_A_FULL_DISK = """
import io, resource, sys
from agentv.reports.run.exports import make_export
from agentv.reports.run.formats import ReportTools
from agentv.storage.records.encode import export_record
from agentv.types.errors import StorageError
from agentv.types.events import RowFinished
from tests.support.stored import make_result
observer = make_export(sys.argv[1], tools=ReportTools(export_record), stdout=io.StringIO())
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for step in (lambda: [observer.notify(RowFinished(make_result())) for _ in range(100)], observer.close):
    try:
        step()
    except StorageError as error:
        print(error)
"""


def test_a_full_disk_is_said_and_leaves_the_file_of_before(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("of the last run")
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[0] == f"cannot write {path}: File too large"
    assert path.read_text() == "of the last run"
    assert list(tmp_path.iterdir()) == [path]


def test_half_a_character_does_not_stop_an_export(tmp_path: Path) -> None:
    export(tmp_path / "x.jsonl", make_result(candidate_answer="\ud83d"))
    export(tmp_path / "x.yaml", make_result(candidate_answer="\ud83d"))
    assert json.loads((tmp_path / "x.jsonl").read_text())["candidate_answer"] == "\ufffd"


def test_a_run_that_never_began_leaves_the_file_of_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("from the last run\n")
    make_export(str(path), tools=ReportTools(export_record), stdout=io.StringIO()).close()
    assert path.read_text() == "from the last run\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.jsonl"]
