"""Datasets: files and functions of rows, roles of columns, ids, templates of a case, and wrong rows."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from tests.loading.specs import SPECS
from tests.support.peak import peak_below

from agentv.engine.plugins.loading import load_specs
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.messages import Message

CHECK = "execution: {evaluators: [{name: right, type: contains, value: '{{ expected }}'}]}\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()


def suite(text: str, files: Mapping[str, str] | None = None, **variables: str) -> EvalSuite:
    for name, content in (files or {}).items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content.encode())
    Path("suite.yaml").write_text(text)
    return load_suite("suite.yaml", specs=SPECS, variables=variables)


def cases(text: str, files: Mapping[str, str] | None = None, **variables: str) -> list[EvalCase]:
    found = list(suite(text, files, **variables).cases)
    assert all(isinstance(case, EvalCase) for case in found)
    return [case for case in found if isinstance(case, EvalCase)]


def problems(text: str, files: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(EvalFileError) as caught:
        suite(text, files)
    return str(caught.value).splitlines()


def values(case: EvalCase) -> list[object]:
    return [each.settings["value"] for each in case.evaluators or () if isinstance(each, EvaluatorConfig)]


ID = sha256(b'{"expected":"42","question":"What?"}').hexdigest()[:12]
CSV = 'id,question,expected,metadata.level,tags,extra\na,What?,42,hard,"x; y,z",\nb,Why?,,easy,,1\n'


def test_columns_have_roles_by_their_names() -> None:
    first, second = cases(CHECK + "evalcases: {file: q.csv}\n", {"q.csv": CSV})
    assert (first.id, first.tags, first.metadata) == ("a", ("x", "y", "z"), {"level": "hard"})
    assert first.input_messages == (Message("user", "What?"),)
    assert first.expected_messages == (Message("assistant", "42"),)
    assert (values(first), values(second)) == (["42"], [""])
    assert (second.expected_messages, second.tags) == ((), ())
    assert first.location is not None
    assert (first.location.path, first.location.line) == ("q.csv", 2)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.csv", "question,expected\nWhat?,42\n"),
        ("q.csv", "\ufeffquestion, expected\r\n\r\nWhat?,42\r\n"),
        ("q.tsv", "question\texpected\nWhat?\t42"),
        ("q.json", '[\n {"question": "What?",\n  "expected": "42"}\n]'),
        ("q.json", '{"question": "What?", "expected": "42"}'),
        ("q.jsonl", '{"question": "What?", "expected": "42"}\n'),
        ("q.yaml", "- {question: What?, expected: '42'}\n"),
    ],
)
def test_every_format_gives_the_same_case_and_id(name: str, content: str) -> None:
    (case,) = cases(CHECK + f"evalcases: {{file: {name}}}\n", {name: content})
    assert (case.id, case.input_messages, values(case)) == (ID, (Message("user", "What?"),), ["42"])


def test_an_id_depends_on_the_row_alone() -> None:
    text = CHECK + "evalcases: {file: q.csv}\n"
    before = cases(text, {"q.csv": "question,expected\none,1\ntwo,2\n"})
    after = cases(text, {"q.csv": "question,expected\nzero,0\none,1\ntwo,2\n"})
    assert [case.id for case in before] == [case.id for case in after][1:]


def test_cells_of_tables_are_texts_and_may_have_several_lines() -> None:
    text = CHECK + "evalcases: {file: q.csv}\n"
    first, second = cases(text, {"q.csv": 'question,expected\n"a\nb ""c""",007\ntrue,1e3\n'})
    assert first.input_messages == (Message("user", 'a\nb "c"'),)
    assert (values(first), values(second)) == (["007"], ["1e3"])
    assert second.location is not None
    assert second.location.line == 4


def test_columns_may_be_given_their_roles() -> None:
    text = "evalcases:\n  file: q.csv\n  columns: {id: qid, input: frage, expected: answer, metadata.level: schwer}\n"
    (case,) = cases(text, {"q.csv": "qid,frage,answer,schwer\n7,Wie?,so,ja\n"})
    assert (case.id, case.metadata) == ("7", {"level": "ja"})
    assert (case.input_messages[0].content, case.expected_messages[0].content) == ("Wie?", "so")


def test_several_files_and_patterns_are_read_in_order() -> None:
    files = {"d/b.csv": "id,input,expected\n2,b,b\n", "d/a.csv": "id,input,expected\n1,a,a\n", "c.jsonl": "{}"}
    files["c.jsonl"] = '{"id": 3, "input": {"x": 1}, "expected": 5}\n'
    found = cases(CHECK + "evalcases: {file: [c.jsonl, 'd/*.csv']}\n", files)
    assert [case.id for case in found] == ["3", "1", "2"]
    assert found[0].input_messages[0].content == {"x": 1}
    assert [value for case in found for value in values(case)] == ["5", "a", "b"]


def test_rows_with_input_messages_are_cases_as_they_stand() -> None:
    row = {"id": "a", "input_messages": [{"role": "user", "content": "{{ n }}"}], "expected_outcome": "{{ n }}"}
    text = "vars: {n: 5}\nevalcases: {file: q.jsonl, case: {tags: [row]}}\n"
    case, other = cases(text, {"q.jsonl": json.dumps(row) + '\n{"input": "{{ n }}", "expected": "{{ n }}"}\n'})
    assert (case.input_messages[0].content, case.expected_outcome, case.tags) == ("{{ n }}", "{{ n }}", ())
    assert (other.input_messages[0].content, other.tags) == ("{{ n }}", ("row",))


TEMPLATE = """
vars: {place: Rome}
evalcases:
  file: q.csv
  case:
    id: "q-{{ n }}"
    tags: [t]
    metadata: {place: "{{ place }}"}
    input_messages:
      - {role: system, content: "You are in {{ place }}."}
      - {role: user, content: "{{ greeting | default('Hello') }}, {{ question | upper }}"}
    evaluators:
      - {name: v, type: contains, value: "{{ expected }} in {{ place }}"}
"""


def test_a_template_gives_the_keys_of_each_case() -> None:
    files = {"q.csv": "n,question,expected,metadata.n,tags\n1,a?,A,one,own\n2,{{ place }}?,B,two,\n"}
    first, second = cases(TEMPLATE, files)
    assert [case.id for case in (first, second)] == ["q-1", "q-2"]
    assert [message.content for message in first.input_messages] == ["You are in Rome.", "Hello, A?"]
    assert second.input_messages[1].content == "Hello, {{ PLACE }}?"
    assert (values(first), first.tags) == (["A in Rome"], ("t",))
    assert (first.metadata, first.expected_messages) == ({"n": "one", "place": "Rome"}, (Message("assistant", "A"),))
    assert first.location is not None
    assert (first.location.path, first.location.line) == ("q.csv", 2)


def test_given_variables_win_over_rows_and_rows_over_the_suite() -> None:
    files = {"q.csv": "n,question,expected,place\n1,a?,A,Oslo\n"}
    assert values(cases(TEMPLATE, files)[0]) == ["A in Oslo"]
    assert values(cases(TEMPLATE, files, place="Bern")[0]) == ["A in Bern"]


def test_a_function_gives_rows() -> None:
    code = "def rows():\n    for n in range(3):\n        yield {'id': n, 'input': f'q{n}', 'expected': n}\n"
    found = suite(CHECK + "evalcases: data.py:rows\n", {"data.py": code}).cases
    assert [(case.id, case.location.line) for case in found if case.location] == [("0", 1), ("1", 2), ("2", 3)]
    assert len(list(found)) == 3
    code = "def listed():\n    return [{'input': 'q', 'expected': 'x'}]\n"
    assert suite(CHECK + "evalcases: {file: more.py:listed}\n", {"more.py": code}).cases.count == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def rows():\n    raise KeyError('x')\n", "data.py:rows  $  failed: KeyError: 'x'"),
        ("def rows():\n    return 'text'\n", "must return rows, a list or a generator of objects, but returns a str"),
        ("def rows():\n    yield 5\n", "data.py:rows:1:1  $  a row must be an object, but is a number"),
        ("def others(): ...\n", "has no 'rows'"),
    ],
)
def test_a_function_that_fails_is_reported(code: str, said: str) -> None:
    (problem,) = problems(CHECK + "evalcases: data.py:rows\n", {"data.py": code})
    assert said in problem


def test_parquet_rows_keep_their_types() -> None:
    core, io = pytest.importorskip("arro3.core"), pytest.importorskip("arro3.io")
    table = core.Table.from_pydict(
        {
            "question": core.Array(["What?", "Why?"], type=core.DataType.utf8()),
            "expected": core.Array([42, 43], type=core.DataType.int64()),
        }
    )
    io.write_parquet(table, "q.parquet")
    found = cases(CHECK + "evalcases: {file: q.parquet}\n")
    assert [(case.input_messages[0].content, values(case)) for case in found] == [("What?", ["42"]), ("Why?", ["43"])]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "q.csv",
            "question,expected\na,b,c\n",
            "q.csv:2:1  $  this row has 3 cells, but the first row names 2 columns",
        ),
        ("q.csv", 'question,expected\na,b\n"c,d\n', "q.csv:3:1  $  not a valid row: a cell that starts in this row"),
        ("q.csv", "question,question\na,b\n", "q.csv:1:1  $  two columns are named 'question'"),
        ("q.csv", "question,\na,b\n", "q.csv:1:1  $  column 2 has no name"),
        ("q.csv", "question;expected\na;b\n", "q.csv:1:1  $  the columns seem to be separated by ';', not by ','"),
        ("q.csv", "", "q.csv:1:1  $  the file is empty"),
        ("q.csv", "question,expected\n", "q.csv:1:1  $  the file has no cases"),
        ("q.csv", "frage,expected\na,b\n", "q.csv:2:1  $  the row has no question: no column `input`"),
        ("q.csv", "question,expected\n,b\n", "q.csv:2:1  $.question  the column 'question', the question, is empty"),
        (
            "q.csv",
            "id,question,expected\n1,a,b\n2,a,b\n1,c,d\n",
            "q.csv:4:1  $.id  the id '1' is used twice, first in line 2",
        ),
        (
            "q.csv",
            "question,expected\na,b\na,b\n",
            "q.csv:3:1  $.id  the id 'e8f001edf1ae' is used twice, first in line 2",
        ),
        ("q.csv", "question\na\n", "q.csv:2:1  $[0].value  there is no variable 'expected' (used in suite.yaml:1:63)"),
        ("q.json", '[\n{"question": "a",\n "expected": "b"},\n 5]', "q.json:4:1  $  a row must be an object"),
        ("q.json", '[\n{"question": "a",\n "expected": }]', "q.json:3:14  $  the file is not valid JSON: a value is"),
        ("q.json", '"text"', "q.json:1:1  $  must be a list of objects, but is a string"),
        ("q.jsonl", '{"question": ["a"], "expected": 1}\n', "q.jsonl:1:14  $.question  the question must be a text"),
        ("q.jsonl", '{"question": "a"}\n', "q.jsonl:1:1  $.execution.evaluators[0].value  there is no variable"),
        ("q.parquet", "nothing", "q.parquet  $  not a valid Parquet file"),
        ("q.txt", "question\na\n", "suite.yaml:2:19  $.evalcases.file  'q.txt' is not a file of cases"),
    ],
)
def test_a_wrong_row_is_an_error_with_its_place(name: str, content: str, said: str) -> None:
    found = problems(CHECK + f"evalcases: {{file: {name}}}\n", {name: content})
    assert said.replace("$[0].value", "$.execution.evaluators[0].value") in found[0]
    assert len(found) == 1


def test_an_empty_cell_is_named_as_such() -> None:
    Path("q.csv").write_text("question,amount\na,1\nb,\n")
    evaluator = "evaluators: [{name: n, type: numeric, value: '{{ amount }}'}]\n"
    Path("suite.yaml").write_text(evaluator + "evalcases: {file: q.csv}\n")
    with pytest.raises(EvalFileError) as caught:
        load_suite("suite.yaml", specs=load_specs())
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("q.csv", 3)
    assert problem.message.startswith("must be a number or a list, but is an empty string")
    assert problem.allowed is None


def test_the_same_problem_of_many_rows_is_reported_once() -> None:
    rows = "".join(f"q{n}\n" for n in range(20))
    (problem,) = problems(CHECK + "evalcases: {file: q.csv}\n", {"q.csv": f"question\n{rows}"})
    assert "also on lines 3, 4, 5, 6, 7 and 14 more" in problem


def test_unknown_roles_and_columns_are_reported() -> None:
    text = "evalcases: {file: q.csv, columns: {antwort: a}}\n"
    assert "antwort is not a role of a column" in problems(text, {"q.csv": "question\na\n"})[0]
    text = "evalcases: {file: q.csv, columns: {expected: anser}}\n"
    found = problems(text, {"q.csv": "question,answer\na,b\n"})
    assert found[0].startswith("q.csv:2:1  $  there is no column 'anser', which `columns` names")
    assert "did you mean 'answer'?" in found[0]


def test_a_dataset_lies_inside_the_project(tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "q.csv").write_text("question,expected\na,b\n")
    (outside / "data.py").write_text("raise SystemError('was imported')\n")
    for name in (f"{outside}/q.csv", f"{outside}/data.py:rows"):
        (problem,) = problems(CHECK + f"evalcases: {{file: '{name}'}}\n")
        assert f"--allow-path {outside}" in problem


def test_rows_after_the_first_thousand_become_broken_cases_on_reading() -> None:
    rows = [f"{n},q{n},x" for n in range(1000)]
    found = suite(
        CHECK + "evalcases: {file: q.csv}\n", {"q.csv": "\n".join(["id,question,expected", *rows, "a,b", "5,q,x"])}
    )
    broken = [case for case in found.cases if isinstance(case, BrokenCase)]
    assert [(case.id, case.location.line) for case in broken] == [("line-1002", 1002), ("5", 1003)]
    assert "first in line 7" in broken[1].problems[0].message


def test_a_long_table_takes_little_memory() -> None:
    rows = "".join(f"{n},What is {n}?,{'x' * 200}\n" for n in range(5_000))
    found = suite("evalcases: {file: q.csv}\n", {"q.csv": f"id,question,expected\n{rows}"})
    with peak_below(1):
        assert sum(1 for _ in found.cases) == 5_000


def test_rows_are_counted_without_reading_them() -> None:
    text = 'question,expected\n"a\n\nb",1\n\nc,2\n"d ""x""",3'
    found = suite("evalcases: {file: [q.csv, r.jsonl]}\n", {"q.csv": text, "r.jsonl": '{"input": 1, "target": 2}\n\n'})
    assert found.cases.count is None
    assert found.cases.count_rows() == len(list(found.cases)) == 4  # type: ignore[attr-defined] # a source of rows has it


def test_a_column_that_is_the_question_is_no_other_than_the_built_in_name() -> None:
    judge = "execution: {evaluators: [{name: j, type: llm_judge, prompt: '{{ question }} {{ answer }} {{ extra }}'}]}\n"
    Path("suite.yaml").write_text(judge + "evalcases: {file: q.csv}\n")
    Path("q.csv").write_text("question,extra\nWhat?,more\n")
    found = load_suite("suite.yaml", specs=load_specs())
    assert found.warnings == ()
    (case,) = found.cases
    assert isinstance(case, EvalCase)
    (config,) = case.evaluators or ()
    assert isinstance(config, EvaluatorConfig)
    assert config.settings["vars"] == {"extra": "more"}
