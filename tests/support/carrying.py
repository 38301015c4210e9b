"""A project whose target counts its calls, with the command line on it, for tests of resumed runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.main import main

AGENT = """
from pathlib import Path

def answer(request):
    here = Path(__file__).parent
    with (here / "calls").open("a") as calls:
        calls.write(request.eval_case_id + "\\n")
    if (here / "broken").exists() and request.eval_case_id in (here / "broken").read_text().split():
        raise RuntimeError("out of order")
    return f"answer to {request.question}"
"""
JUDGE = """
import json, sys
from pathlib import Path
with (Path(__file__).parent / "judged").open("a") as judged:
    judged.write("x")
print(json.dumps({"score": 1.0}))
"""
ANSWERS = "{name: has, type: contains, value: answer}"


@dataclass
class Project:
    """A folder with one suite, one target and its runs."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    suite: str = "suite.yaml"
    evaluators: str = ANSWERS
    cases: dict[str, str] = field(default_factory=dict)

    def write(self) -> None:
        lines = [f"execution: {{evaluators: [{self.evaluators}]}}", "evalcases:"]
        lines += [
            f"  - {{id: {name}, expected_outcome: x, input_messages: [{{role: user, content: {question}}}]}}"
            for name, question in self.cases.items()
        ]
        (self.folder / self.suite).write_text("\n".join(lines) + "\n")

    def call(self, *arguments: str) -> tuple[int, str]:
        """Call `agentv`; return its exit code and all of its output."""
        self.write()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = self.capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    def calls(self) -> list[str]:
        """Return the cases of the target's calls since the last call of this method."""
        return take_lines(self.folder / "calls")

    @property
    def run(self) -> Path:
        """The folder of the one run."""
        (run,) = (self.folder / ".agentv" / "runs").iterdir()
        return run

    def stored(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run / name).read_text().splitlines()]

    def forget(self, name: str, lines: Sequence[int]) -> None:
        """Remove lines from a file of the run, as if it had been killed before writing them."""
        path = self.run / name
        kept = [line for number, line in enumerate(path.read_text().splitlines()) if number not in lines]
        path.write_text("".join(f"{line}\n" for line in kept))


def take_lines(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines
