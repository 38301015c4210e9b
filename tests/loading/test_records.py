"""Documents, tables and logs as records, each with its line number."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.loading.suites.recorded import MAX_PIECE_CHARACTERS, Record, pieces, read_records_of
from agentv.types.errors import EvalFileError


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def records(name: str, text: str) -> list[Record]:
    Path(name).write_bytes(text.encode())
    return list(read_records_of(Path(name)))


def test_each_line_of_json_is_a_record() -> None:
    assert records("log.jsonl", '\ufeff{"q": "Où?"}\r\n\r\n"plain"\n" "\n') == [
        ("log.jsonl:1", '{\n  "q": "Où?"\n}'),
        ("log.jsonl:3", "plain"),
    ]


def test_each_row_of_a_table_is_a_record_by_the_names_of_its_columns() -> None:
    table = '\ufeff,question,answer\n0,"When, please?","At\nnine"\n1,Where?,Here\n'
    assert records("log.csv", table) == [
        ("log.csv:3", '{\n  "": "0",\n  "question": "When, please?",\n  "answer": "At\\nnine"\n}'),
        ("log.csv:4", '{\n  "": "1",\n  "question": "Where?",\n  "answer": "Here"\n}'),
    ]
    assert records("log.tsv", "a\tb\n1\t2\n") == [("log.tsv:2", '{\n  "a": "1",\n  "b": "2"\n}')]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.jsonl", '{"a": 1}\n{"a": }\n', "log.jsonl:2:7"),
        ("log.csv", "a,b\n1,2\n1,2,3\n", "log.csv:3:1  $  this row does not have the 2 columns of the first line"),
        ("log.csv", "a,b\n1\n", "log.csv:2:1  $  this row does not have the 2 columns"),
        ("log.csv", 'a,b\n1,"2\n', "$  not a valid table: unexpected end of data"),
    ],
)
def test_an_unreadable_record_is_reported_with_its_position(name: str, text: str, message: str) -> None:
    with pytest.raises(EvalFileError) as raised:
        records(name, text)
    assert message in str(raised.value)


def test_a_short_text_is_one_record_and_an_empty_one_none() -> None:
    assert records("faq.md", "\n\n# Faq\r\n\r\nAll of it.\n\n") == [("faq.md:3", "# Faq\n\nAll of it.")]
    assert records("faq.md", " \n\n") == []


def test_a_long_text_is_cut_before_headings_and_after_paragraphs() -> None:
    part = "word " * 800
    text = f"# One\n\n{part}\n\n# Two\n\n{part}\n\n{part}\n\nend\n"
    assert [(line, piece[:5], piece[-3:]) for line, piece in pieces(text)] == [
        (1, "# One", "ord"),
        (5, "# Two", "ord"),
        (9, "word ", "end"),
    ]


@given(st.text(alphabet="ab#\n \r\x85\u2028", max_size=300).map(lambda text: text * 60))
def test_pieces_are_short_and_lose_nothing(text: str) -> None:
    found = list(pieces(text))
    assert all(0 < len(piece) <= MAX_PIECE_CHARACTERS for _, piece in found)
    assert "".join("".join(piece for _, piece in found).split()) == "".join(text.split())
    lines = text.replace("\r\n", "\n").split("\n")
    assert all(piece.split("\n")[0].strip() in lines[line - 1] for line, piece in found)
