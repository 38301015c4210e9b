"""Missing files that evaluators name are reported before the run, at the setting that names them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from agentv.engine.plugins.loading import load_specs
from agentv.loading.models.settings import missing_files, named_files
from agentv.loading.suites.suites import load_suite
from agentv.types.errors import EvalFileError

SUITE = """\
evalcases:
  - id: a
    input_messages: [{role: user, content: hi}]
    expected_outcome: ok
    evaluators:
      - {name: judged, type: llm_judge, promptTemplate: prompts/judge.md}
      - name: run
        type: code_judge
        script: [python3, judge.py]
      - {name: called, type: code_judge, python: "judge.py:judge", cwd: tools}
      - name: whole
        type: composite
        aggregator: {type: llm_judge, prompt: sum.txt}
        evaluators:
          - {name: inner, type: rubric, prompt: sum.txt, rubrics: [States sum.txt]}
      - {name: inline, type: llm_judge, prompt: "Is {{ candidate_answer }} as judge.md says?"}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "evals" / "suite.yaml"
    path.parent.mkdir()
    path.write_text(SUITE)
    return path


def test_every_missing_file_is_an_error_at_its_setting(suite: Path) -> None:
    with pytest.raises(EvalFileError) as refused:
        load_suite(suite, specs=load_specs())
    at = "$.evalcases[0].evaluators"
    found = [(problem.line, problem.json_path, problem.message) for problem in refused.value.problems]
    assert found == [
        (6, f"{at}[0].promptTemplate", f"there is no file {suite.parent}/prompts/judge.md"),
        (9, f"{at}[1].script[1]", f"there is no file {suite.parent}/judge.py"),
        (10, f"{at}[2].python", f"there is no file {suite.parent}/tools/judge.py"),
        (13, f"{at}[3].aggregator.prompt", f"there is no file {suite.parent}/sum.txt"),
        (15, f"{at}[3].evaluators[0].prompt", f"there is no file {suite.parent}/sum.txt"),
    ]


def test_with_its_files_the_suite_is_whole(suite: Path) -> None:
    for name in ("prompts/judge.md", "judge.py", "tools/judge.py", "sum.txt"):
        path = suite.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{{ candidate_answer }}")
    load_suite(suite, specs=load_specs())


@dataclass(frozen=True, slots=True)
class Plugin:
    """Settings of another evaluator, with a setting of the same name."""

    files: tuple[str, ...] = ("a",)


def test_a_setting_called_files_is_no_list_of_files() -> None:
    assert named_files(Plugin(), "/nowhere") == missing_files(Plugin(), "/nowhere") == ()


@pytest.mark.parametrize(
    "name", ["loop.md", r"a\0b.md", "x" * 300 + ".md"], ids=["circle of links", "null", "too long"]
)
@pytest.mark.parametrize(
    "evaluator",
    [
        "{name: e, type: llm_judge, prompt: FILE}",
        "{name: e, type: toxicity, toxic_terms: FILE}",
        "{name: e, type: human, file: FILE}",
        "{name: e, type: composite, evaluators: [MEMBER], aggregator: {type: code_judge, path: FILE}}",
        "{name: e, type: code_judge, script: [./FILE]}",
    ],
)
def test_a_name_that_leads_to_no_file_is_a_missing_file(suite: Path, evaluator: str, name: str) -> None:
    (suite.parent / "loop.md").symlink_to("loop.md")
    evaluator = evaluator.replace("MEMBER", "{name: x, type: contains, value: a}")
    written = evaluator.replace("./FILE", f'"./{name}"').replace("FILE", f'"{name}"')
    suite.write_text(f"{SUITE.partition('      -')[0]}      - {written}\n")

    with pytest.raises(EvalFileError) as refused:
        load_suite(suite, specs=load_specs())

    (problem,) = refused.value.problems
    assert problem.line == 6
    assert problem.message.startswith("there is no file ")
