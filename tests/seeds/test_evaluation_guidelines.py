"""Seed evaluation.md: which attached files are guidelines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentv import load_suite
from agentv.types.cases import EvalCase
from agentv.types.messages import FilePart

SUITE = """
evalcases:
  - id: c
    expected_outcome: Anything
    input_messages:
      - role: user
        content:
          - {type: text, value: Please review}
          - {type: file, value: FILE}
"""


def is_guideline(folder: Path, file: str, config: str | None = None) -> bool:
    """Write a case that attaches `file`; return whether it is read as a guideline."""
    (folder / ".git").mkdir(exist_ok=True)
    attached = folder / "evals" / file
    attached.parent.mkdir(parents=True, exist_ok=True)
    attached.write_text("Be brief.")
    (folder / "evals" / ".agentv.yaml").unlink(missing_ok=True)
    if config is not None:
        (folder / "evals" / ".agentv.yaml").write_text(config)
    suite_file = folder / "evals" / "suite.yaml"
    suite_file.write_text(SUITE.replace("FILE", file))
    (case,) = load_suite(suite_file).cases
    assert isinstance(case, EvalCase)
    (part,) = (part for part in case.input_messages[0].content or () if isinstance(part, FilePart))
    return part.is_guideline


def test_load_custom_guideline_patterns(run: Callable[..., Any]) -> None:
    done = run(
        SUITE.replace("FILE", "style.rules.md") + "    evaluators: [{name: seen, type: contains, value: 'guide'}]\n",
        targets="targets: [{name: t, provider: cli, command_template: 'echo {PROMPT} guide {GUIDELINES}'}]",
        files={
            "evals/.agentv.yaml": "guideline_patterns: ['**/*.rules.md']\n",
            "evals/style.rules.md": "Be brief.",
        },
    )
    (row,) = done.rows
    user_segment, _, guidelines = row["candidate_answer"].partition(" guide ")
    assert "Please review" in user_segment
    assert "Be brief." not in user_segment
    assert "Be brief." in guidelines


def test_use_defaults_when_config_absent(tmp_path: Path) -> None:
    files = ["a.instructions.md", "instructions/b.txt", "deep/er/c.prompt.md", "prompts/d.md", "plain.md"]
    found = {file: is_guideline(tmp_path, file) for file in files}
    assert found == {**dict.fromkeys(files, True), "plain.md": False}


def test_match_files_with_glob_patterns(tmp_path: Path) -> None:
    patterns = {
        "guideline_patterns: ['evals/*.md']": {"a.md": True, "deep/a.md": False, "a.txt": False},
        "guideline_patterns: ['evals/**/*.md']": {"a.md": True, "deep/er/a.md": True, "a.txt": False},
        "guideline_patterns: ['**/.hidden/*']": {".hidden/a.md": True, "a.md": False},
    }
    found = {
        config: {file: is_guideline(tmp_path, file, config) for file in files} for config, files in patterns.items()
    }
    assert found == patterns
