"""`agentv convert`: the same cases and rows in another format, whole or not at all."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.cli.main import agentv
from agentv.engine.plugins.loading import load_specs
from agentv.importers.conversion import read_records
from agentv.loading.suites.suites import load_suite
from agentv.reports.text.yaml_text import yaml_item
from agentv.types.cases import EvalCase
from agentv.types.errors import ConfigError, EvalFileError

SUITE = """
# comments do not survive
description: "A shop: refunds"
tags: [smoke, "no"]
execution: {trials: 2}
evalcases:
  - id: one
    expected_outcome: |
      Two
      lines.
    input_messages: [{role: user, content: "0o17 and 1e3 and ~"}]
    metadata: {no: "no", number: 1.5, text: "1e3", octal: "0o17", empty: "", list: [], object: {}, nothing: null}
  - id: two
    expected_outcome: "😀 \\u0085 \\t"
    input_messages: [{role: user, content: hi}]
    evaluators: [{name: c, type: contains, value: x}]
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert(source: str, output: str, *more: str) -> None:
    agentv.main(["convert", source, "-o", output, *more], standalone_mode=False)


def names() -> list[str]:
    return sorted(path.name for path in Path.cwd().iterdir())


def cases_of(path: str) -> list[tuple[object, ...]]:
    suite = load_suite(path, specs=load_specs())
    assert (suite.description, suite.tags, suite.trials) == ("A shop: refunds", ("smoke", "no"), 2)
    cases = [case for case in suite.cases if isinstance(case, EvalCase)]
    return [(c.id, c.expected_outcome, c.input_messages, c.metadata, c.evaluators) for c in cases]


def test_an_eval_file_becomes_json_lines_with_a_side_file_and_back() -> None:
    Path("suite.yaml").write_text(SUITE)
    convert("suite.yaml", "lines.jsonl")
    convert("lines.jsonl", "back.yaml")
    assert names() == ["back.yaml", "lines.jsonl", "lines.yaml", "suite.yaml"]
    assert cases_of("suite.yaml") == cases_of("lines.jsonl") == cases_of("back.yaml")
    assert Path("lines.jsonl").read_text().count("\n") == 2


def test_a_suite_without_other_keys_still_gets_a_side_file() -> None:
    Path("suite.yaml").write_text("cases: [{id: a}]\n")
    convert("suite.yaml", "lines.jsonl")
    assert Path("lines.yaml").read_text() == "$schema: agentv-eval-v2\n"


def test_results_become_yaml_and_back() -> None:
    rows = [
        {"schema": "agentv-result-1", "eval_id": "a", "target": "t", "status": "pass", "score": 1.0, "hits": ["x\ny"]},
        {"schema": "agentv-result-1", "eval_id": "b", "target": "t", "status": "error", "score": None},
    ]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    convert("rows.jsonl", "rows.yaml")
    convert("rows.yaml", "again.jsonl")
    assert names() == ["again.jsonl", "rows.jsonl", "rows.yaml"]
    assert [json.loads(line) for line in Path("again.jsonl").read_text().splitlines()] == rows


json_texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["no", "1e3", "0o17", "~", "null", "- a", "a: b"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | json_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(json_texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(json_texts, json_values, min_size=1), min_size=1, max_size=3))
def test_what_is_written_as_yaml_is_read_as_the_same_values(rows: Sequence[dict[str, object]]) -> None:
    path = Path("rows.yaml")
    path.write_text("".join(yaml_item(row) for row in rows), newline="\n")  # type: ignore[arg-type] # JSON by strategy
    assert list(read_records(path).items) == rows


def test_a_bad_line_leaves_nothing_behind() -> None:
    Path("lines.jsonl").write_text('{"id": "a"}\n{"id": }\n')
    with pytest.raises(EvalFileError, match=r"lines\.jsonl:2:8"):
        convert("lines.jsonl", "out.yaml")
    assert names() == ["lines.jsonl"]


def test_a_bad_yaml_file_leaves_nothing_behind() -> None:
    Path("suite.yaml").write_text("evalcases: [{id: a, id: b}]\n")
    with pytest.raises(EvalFileError, match="appears twice"):
        convert("suite.yaml", "out.jsonl")
    assert names() == ["suite.yaml"]


@pytest.mark.parametrize("existing", ["out.jsonl", "out.yaml"])
def test_files_that_exist_are_never_overwritten(existing: str) -> None:
    Path("suite.yaml").write_text(SUITE)
    Path(existing).write_text("mine")
    with pytest.raises(click.UsageError, match=f"{existing} exists already"):
        convert("suite.yaml", "out.jsonl")
    assert Path(existing).read_text() == "mine"


def test_a_suite_is_not_overwritten_by_its_own_side_file() -> None:
    Path("suite.yaml").write_text(SUITE)
    with pytest.raises(click.UsageError, match=r"suite\.yaml exists already"):
        convert("suite.yaml", "suite.jsonl")
    assert Path("suite.yaml").read_text() == SUITE


def test_invalid_conversions_are_refused() -> None:
    Path("a.yaml").write_text("targets: []\n")
    Path("b.yaml").write_text("evalcases: more/*.jsonl\n")
    Path("c.yaml").write_text("evalcases: [1]\n")
    Path("d.csv").write_text("id\n")
    Path("e.jsonl").write_text("")
    for source, said in [
        ("a.yaml", "has neither `evalcases` nor a list of results"),
        ("b.yaml", "its cases are in other files"),
        ("c.yaml", "every entry of its list must be an object"),
        ("d.csv", "its name must end in"),
        ("e.jsonl", "the file is empty"),
    ]:
        with pytest.raises(ConfigError, match=said):
            convert(source, "out.jsonl")
    Path("f.yaml").write_text("evalcases: [{id: a}]\n")
    for output, said in [("out.txt", "cannot determine the format"), ("out.yml", "have the same format")]:
        with pytest.raises(click.UsageError, match=said):
            convert("f.yaml", output)


def test_the_json_form_has_a_versioned_shape(capsys: pytest.CaptureFixture[str]) -> None:
    Path("suite.yaml").write_text(SUITE)
    convert("suite.yaml", "lines.jsonl", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "schema": "agentv-convert-1",
        "written": ["lines.jsonl", "lines.yaml"],
        "cases": 2,
    }


def test_moving_cases_to_another_folder_says_where_paths_start(capsys: pytest.CaptureFixture[str]) -> None:
    Path("suite.yaml").write_text(SUITE)
    Path("there").mkdir()
    convert("suite.yaml", "there/lines.jsonl")
    assert "note: relative paths in the cases were not changed and now start from there" in capsys.readouterr().out


def test_a_line_nested_too_deeply_is_refused_with_its_place() -> None:
    Path("deep.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(EvalFileError, match=r"deep\.jsonl:1:101  \$  .*nested more than 100 levels deep"):
        convert("deep.jsonl", "out.yaml")


OUR_PROMPTS = ["dialect: agentv", "$schema: agentv-eval-v2", "execution: {trials: 2}"]


@pytest.mark.parametrize("mark", OUR_PROMPTS)
def test_an_eval_file_with_prompts_is_no_promptfoo_configuration(mark: str) -> None:
    cases = "evalcases: [{id: a, expected_outcome: ok, vars: {q: hi}}]"
    Path("given.yaml").write_text(f'{mark}\nprompts: ["Q: {{{{ q }}}}"]\n{cases}\n')
    convert("given.yaml", "suite.jsonl")
    (line,) = Path("suite.jsonl").read_text().splitlines()
    assert json.loads(line)["id"] == "a"
    assert "prompts:" in Path("suite.yaml").read_text()


@pytest.mark.parametrize("mark", ["name: x", "target: llm", "description: x"])
def test_a_file_of_agentv_5_is_refused_by_name_and_not_read_as_promptfoo(mark: str) -> None:
    case = "{id: a, vars: {input: hi}, assert: [{type: contains, value: hi}, Says hi]}"
    Path("suite.yaml").write_text(f'{mark}\nprompts: ["{{{{ input }}}}"]\ntests: [{case}]\n')
    with pytest.raises(ConfigError, match=r"suite\.yaml: it is an AgentV 5 file; 1\.5 to 4\.42 are read"):
        convert("suite.yaml", "ours.yaml")


def test_an_eval_file_without_cases_is_no_promptfoo_configuration() -> None:
    Path("suite.yaml").write_text('$schema: agentv-eval-v2\nprompts: ["Q: {{ q }}"]\n')
    with pytest.raises((ConfigError, EvalFileError), match="evalcases"):
        convert("suite.yaml", "suite.jsonl")


def test_prompts_and_tests_alone_are_promptfoos(capsys: pytest.CaptureFixture[str]) -> None:
    Path("given.yaml").write_text('prompts: ["{{ q }}"]\ntests: [{vars: {q: hi}}]\n')
    convert("given.yaml", "ours.yaml")
    assert "Converted from promptfoo: 1 case" in capsys.readouterr().out
