"""A project with a judge that makes known mistakes, and people who say what is right."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import call_agentv

AGENT = """
def answer(request):
    number = int(request.eval_case_id.split("-")[1])
    return ("good " if number % 5 < 3 else "bad ") * (1 + number % 4) + ("odd" if number % 9 == 0 else "plain")
"""
JUDGE = '''
"""Passes what is good, and is wrong about what is odd; with a file `wavers`, every third call is wrong as well."""

import json
import re
from pathlib import Path

HERE = Path(__file__).parent


def judge(request):
    nonce, text = re.search(r"<<<candidate_answer (\\w+)>>>\\n(.*?)\\n<<<end of", request.question, re.DOTALL).groups()
    with (HERE / "judge_calls").open("a") as calls:
        calls.write("x")
    good = ("good" in text) != ("odd" in text)
    if (HERE / "wavers").exists() and "bad" in text and (HERE / "judge_calls").stat().st_size % 3 == 0:
        good = not good
    said = "fine" if good else "<script>alert(1)</script> \\x1b[31m"
    score = 0.9 if good else 0.2
    if "1 (worst) to 5 (best)" in f"{request.system_prompt} {request.question}":
        score = 1 + 4 * score
    return json.dumps({"nonce": nonce, "score": score, "hits": [], "misses": [], "reasoning": said})
'''
TARGETS = """
targets:
  - {name: agent, provider: python, callable: "agent.py:answer", judge_target: judge}
  - {name: judge, provider: python, callable: "judge.py:judge"}
"""


@dataclass
class JudgedProject:
    """A folder with a suite of numbered cases, whose answers a judge called `tone` judges."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    cases: int = 80
    suite: str = "suite.yaml"
    evaluators: str = "{name: tone, type: llm_judge}"
    criteria: str = ""
    tags: tuple[str, str] = ("even", "odd")
    lines: list[dict[str, Any]] = field(default_factory=list)

    def write(self) -> None:
        """Write the project's files."""
        for name, text in (("agent.py", AGENT), ("judge.py", JUDGE), ("targets.yaml", TARGETS)):
            (self.folder / name).write_text(text)
        lines = ["target: agent", f"execution: {{evaluators: [{self.evaluators}]}}", self.criteria, "evalcases:"]
        lines += [
            f"  - {{id: c-{number}, tags: [{self.tags[number % 2]}], outcome: Is good, "
            f"input_messages: [{{role: user, content: question {number}}}]}}"
            for number in range(self.cases)
        ]
        (self.folder / self.suite).write_text("\n".join(lines) + "\n")

    def call(self, *arguments: str) -> tuple[int, str, str]:
        """Call `agentv`; returns its exit code, what it printed, and what it said beside it."""
        return call_agentv(self.capsys, *arguments)

    def run(self) -> None:
        """Write the files and run the suite."""
        self.write()
        code, out, err = self.call("run", self.suite, "--display", "none")
        assert code in (0, 1), out + err

    def json(self, *arguments: str) -> Any:
        """Call `agentv` and return the JSON that it printed."""
        code, out, err = self.call(*arguments)
        assert code in (0, 1), err
        return json.loads(out)

    def said(self, annotator: str = "anna", *, cases: int | None = None, **more: Any) -> None:
        """Add a label to each case: the right score, with a reason."""
        for number in range(self.cases if cases is None else cases):
            fields = {"eval_id": f"c-{number}", "criterion": "tone", "annotator": annotator, "reasoning": "so it is"}
            self.lines.append(fields | {"score": int(number % 5 < 3)} | more)

    def label(self) -> str:
        """Write what was said to a file; returns its name."""
        (self.folder / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return "said.jsonl"

    def files(self) -> list[Path]:
        """Return the calibrations that are kept."""
        return sorted((self.folder / ".agentv" / "calibrations").glob("*"))


def make_judged_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> JudgedProject:
    """Return a project in an empty folder, which is the working directory from now on."""
    (folder / ".git").mkdir()
    monkeypatch.chdir(folder)
    return JudgedProject(folder, capsys)
