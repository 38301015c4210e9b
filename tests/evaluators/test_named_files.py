"""The files that an evaluator's settings name."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentv.evaluators.judges.code_judge import CodeJudgeSettings
from agentv.evaluators.judges.composite import CodeAggregator, CompositeSettings, JudgeAggregator, Minimum
from agentv.evaluators.judges.prompts import load_prompt
from agentv.evaluators.judges.settings import LlmJudgeSettings, RubricSettings
from agentv.types.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("here.py", "tools/there.js", "pack/tone.py", "pack/__init__.py", "prompt", "judge.md", "data.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text")
    return tmp_path


def names(paths: Sequence[str], folder: Path) -> list[str]:
    return [str(Path(path).relative_to(folder)) for path in paths]


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("python here.py", ["here.py"]),
        ("python3.12 -u gone.py --strict", ["gone.py"]),
        ((sys.executable, "gone.py"), ["gone.py"]),
        ("./gone --fast", ["gone"]),
        (("scripts/gone.sh", "here.py"), ["scripts/gone.sh", "here.py"]),
        ("node tools/there.js data.json", ["tools/there.js"]),
        ("cd tools && node there.js; python here.py", ["here.py"]),
        ("MODE=1 python here.py > log.py", ["here.py"]),
        ("docker run img python gone.py", []),
        (("sh", "-c", "python gone.py"), []),
        ("python -m gone.py", []),
        ("python 'unclosed", []),
        (("jq", ".score"), []),
        ("x" * 5000 + ".py", []),
    ],
)
def test_a_command_names_the_scripts_it_runs(folder: Path, script: str | tuple[str, ...], named: list[str]) -> None:
    assert names(CodeJudgeSettings(script=script).code_files(str(folder)), folder) == named
    assert names(CodeAggregator(script=script).code_files(str(folder)), folder) == named


def test_a_script_is_looked_for_where_it_runs(folder: Path) -> None:
    settings = CodeJudgeSettings(script="node there.js", cwd="tools")
    assert names(settings.code_files(str(folder)), folder) == ["tools/there.js"]


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("gone.py:judge", ["gone.py"]),
        ("tools/gone.py:Judge.call", ["tools/gone.py"]),
        ("pack.tone:judge", ["pack/tone.py"]),
        ("pack:judge", ["pack/__init__.py"]),
        ("json:loads", []),
    ],
)
def test_a_function_names_its_module(folder: Path, reference: str, named: list[str]) -> None:
    assert names(CodeJudgeSettings(python=reference).code_files(str(folder)), folder) == named


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("judge.md", ["judge.md"]),
        ("gone.txt", ["gone.txt"]),
        ("gone.prompt", ["gone.prompt"]),
        ("prompt", ["prompt"]),
        ("Is it right?", []),
        ("Read judge.md\nand judge {{ candidate_answer }}", []),
        ("Compare {{ candidate_answer }} with judge.md", []),
        ("", []),
        ("x" * 5000, []),
        ("a\0b", []),
        (None, []),
    ],
)
def test_a_prompt_is_a_file_or_the_prompt_itself(folder: Path, prompt: str | None, named: list[str]) -> None:
    every: list[Any] = [LlmJudgeSettings(prompt=prompt), RubricSettings(prompt=prompt, rubrics=("a",))]
    every.append(CompositeSettings(evaluators=({"name": "m"},), aggregator=JudgeAggregator(prompt=prompt)))  # type: ignore[arg-type]
    for settings in every:
        assert names(settings.files(str(folder)), folder) == named
    if prompt and not named:
        assert load_prompt(prompt, str(folder)) == prompt
    elif prompt and prompt.startswith("gone"):
        with pytest.raises(ConfigError, match="there is no such file"):
            load_prompt(prompt, str(folder))
    elif prompt:
        assert load_prompt(prompt, str(folder)) == "text"


def test_an_aggregator_that_only_counts_names_no_file(folder: Path) -> None:
    settings = CompositeSettings(evaluators=({"name": "m"},), aggregator=Minimum())  # type: ignore[arg-type]
    assert settings.files(str(folder)) == ()
    assert names(CodeAggregator(path="gone").code_files(str(folder)), folder) == ["gone"]
