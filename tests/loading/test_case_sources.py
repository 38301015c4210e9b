"""Datasets in JSON Lines: read as streams, repeatedly, with problems per line."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.loading.specs import SPECS
from tests.support.peak import peak_below

from agentv.loading.files.attached import FileFinder
from agentv.loading.files.path_guard import PathGuard
from agentv.loading.files.places import find_eval_files
from agentv.loading.suites.case_sources import HEAD_BYTES, JsonLinesCases
from agentv.loading.suites.cases import CaseScope, RowRules
from agentv.loading.suites.evaluators import EvaluatorScope
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import CASES_CHECKED_AHEAD, BrokenCase, EvalCase, EvalSuite
from agentv.types.errors import EvalFileError


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def line(case_id: object, **keys: object) -> str:
    return json.dumps(
        {"id": case_id, "expected_outcome": "ok", "input_messages": [{"role": "user", "content": "hi"}], **keys}
    )


def write(lines: Iterable[str], name: str = "cases.jsonl") -> Path:
    path = Path(name)
    path.write_text("".join(f"{text}\n" for text in lines))
    return path


def load(path: Path) -> EvalSuite:
    return load_suite(path, specs=SPECS)


def ids(suite: EvalSuite) -> list[str]:
    return [case.id for case in suite.cases]


def test_a_stream_can_be_opened_again_and_again() -> None:
    suite = load(write([line("a"), line("b")]))
    assert ids(suite) == ids(suite) == ["a", "b"]
    assert suite.cases.count is None


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_do_not_matter() -> None:
    path = Path("cases.jsonl")
    path.write_bytes(b"\xef\xbb\xbf" + line("a").encode() + b"\r\n\r\n  \n" + line("b").encode())
    suite = load(path)
    assert ids(suite) == ["a", "b"]
    assert [case.location.line for case in suite.cases if case.location] == [1, 4]


def test_the_side_file_gives_the_top_level_keys() -> None:
    Path("cases.yaml").write_text("description: A stream\ntags: [x]\nexecution: {trials: 2}\n")
    suite = load(write([line("a")]))
    assert (suite.description, suite.tags, suite.trials, suite.dataset) == ("A stream", ("x",), 2, "cases")
    assert suite.path == "cases.jsonl"


def test_problems_of_side_file_and_lines_are_reported_together() -> None:
    Path("cases.yaml").write_text("tagz: [x]\n")
    with pytest.raises(EvalFileError) as caught:
        load(write([line("a"), line(7), line("a"), '{"id": }']))
    assert str(caught.value).splitlines() == [
        "cases.jsonl:2:8  $.id  must be a string, but is a number; put it in quotes",
        "cases.jsonl:3:1  $.id  the id 'a' is used twice, first in line 1; ids must be unique in a suite",
        "cases.jsonl:4:8  $  this line is not valid JSON: a value is missing here",
        (
            "cases.yaml:1:1  $.tagz  unknown key 'tagz'; allowed: $schema, description, dataset, tags, target, "
            "targets, judge, evaluators, criteria, gates, pass_score, trials, confirm_reruns, cluster, workers, "
            "budget_usd, timeout_seconds, evaluator_timeout_seconds, vars, prompts, workspace, evalcases, execution, "
            "dialect, evaluator; did you mean 'tags'?"
        ),
    ]


def test_a_suite_of_the_same_name_that_has_cases_is_no_side_file() -> None:
    write([line("a")])
    Path("cases.yaml").write_text("description: own\nevalcases: {file: cases.jsonl}\n")
    assert load(Path("cases.yaml")).description == "own"
    assert load(Path("cases.jsonl")).description is None
    assert find_eval_files(["."], cwd=Path.cwd()) == (Path.cwd() / "cases.yaml",)


def test_a_bad_byte_is_reported_with_its_line() -> None:
    path = Path("cases.jsonl")
    path.write_bytes(line("a").encode() + b"\n" + line("b").encode().replace(b"hi", b"h\xffi") + b"\n")
    with pytest.raises(EvalFileError, match=r"^cases\.jsonl:2:\d+  \$  byte 0xff at offset \d+ is not UTF-8"):
        load(path)


def many(count: int) -> list[str]:
    return [line(f"case-{number}") for number in range(count)]


def test_lines_after_the_first_thousand_become_broken_cases_on_reading() -> None:
    lines = many(CASES_CHECKED_AHEAD)
    suite = load(write([*lines, line("late"), '{"id": "bad"', line("case-5"), line("last", tagz=[])]))
    broken = [case for case in suite.cases if isinstance(case, BrokenCase)]
    assert [(case.id, case.location.line) for case in broken] == [("line-1002", 1002), ("case-5", 1003), ("last", 1004)]
    assert [problem.render() for case in broken for problem in case.problems][1] == (
        "cases.jsonl:1003:1  $.id  the id 'case-5' is used twice, first in line 6; ids must be unique in a suite"
    )
    assert ids(suite)[-4:] == ["late", "line-1002", "case-5", "last"]


def test_a_long_stream_takes_little_memory() -> None:
    path = write(line(f"case-{number}", metadata={"text": "x" * 200}) for number in range(5_000))
    suite = load(path)
    with peak_below(3):
        assert sum(isinstance(case, EvalCase) for case in suite.cases) == 5_000


def test_an_empty_dataset_is_a_problem() -> None:
    with pytest.raises(EvalFileError, match="the file has no cases"):
        load(write([]))


def test_cases_may_stand_in_other_files() -> None:
    Path("more").mkdir()
    write([line("a"), line("b")], "more/one.jsonl")
    Path("more/two.yaml").write_text(f"- {line('c')}\n- {line('d')}\n")
    Path("more/three.yaml").write_text(line("e"))
    Path("suite.yaml").write_text("evalcases: more/*\n")
    suite = load(Path("suite.yaml"))
    assert ids(suite) == ["a", "b", "e", "c", "d"]
    assert next(case.location.path for case in suite.cases if case.location) == "more/one.jsonl"


def test_an_id_used_in_two_files_is_reported_with_both() -> None:
    write([line("a")], "one.jsonl")
    write([line("b"), line("a")], "two.jsonl")
    Path("suite.yaml").write_text("evalcases: '*.jsonl'\n")
    with pytest.raises(
        EvalFileError, match=r"two\.jsonl:2:1  \$\.id  the id 'a' is used twice, first in one\.jsonl, line 1"
    ):
        load(Path("suite.yaml"))


def test_a_file_of_cases_is_named_with_file() -> None:
    write([line("a")])
    Path("suite.yaml").write_text("cases: {file: cases.jsonl}\n")
    assert ids(load(Path("suite.yaml"))) == ["a"]


def test_problems_in_a_file_of_cases_are_reported_there() -> None:
    Path("cases.yaml").write_text(f"- {line('a')}\n- {line(3)}\n")
    Path("suite.yaml").write_text("cases: {file: cases.yaml}\n")
    with pytest.raises(EvalFileError, match=r"^cases\.yaml:2:10  \$\[1\]\.id  must be a string"):
        load(Path("suite.yaml"))


@pytest.mark.parametrize("most", [0, 1, 2, 3, 5, 100])
def test_a_head_that_is_kept_changes_nothing_of_the_stream(most: int) -> None:
    path = Path("cases.jsonl")
    lines = [line("a"), "", "{broken", line("b"), "   ", line("c"), line("a")]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    scope = CaseScope(
        EvaluatorScope(SPECS.evaluators, "."),
        FileFinder(Path.cwd(), Path.cwd(), Path.cwd(), PathGuard(Path.cwd())),
        "cases.jsonl",
    )
    stream = JsonLinesCases(path, "cases.jsonl", RowRules(scope))
    read, with_head = stream.read_head(most)
    assert [row.case for row in read] == list(stream)[:most]
    assert list(with_head) == list(stream)
    assert len(with_head.head) == min(most, 5)


def test_of_long_lines_few_are_kept() -> None:
    scope = CaseScope(
        EvaluatorScope(SPECS.evaluators, "."),
        FileFinder(Path.cwd(), Path.cwd(), Path.cwd(), PathGuard(Path.cwd())),
        "cases.jsonl",
    )
    path = write(line(f"case-{number}", metadata={"text": "x" * (HEAD_BYTES // 3)}) for number in range(5))
    stream = JsonLinesCases(path, "cases.jsonl", RowRules(scope))
    read, stream = stream.read_head(CASES_CHECKED_AHEAD)
    assert (len(read), len(stream.head), len(list(stream))) == (5, 2, 5)
