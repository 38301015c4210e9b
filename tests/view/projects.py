"""Projects with stored runs of two targets, whose answers a test chooses."""

import json
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

from msgspec import Struct

from agentv import evaluate

AGENT = """
import json
from pathlib import Path

ANSWERS = Path(__file__).with_name("answers.json")

def answer(request, target):
    found = json.loads(ANSWERS.read_text())[target]
    text = found.get(request.question, found.get("*", ""))
    if text == "raise":
        raise RuntimeError("overloaded")
    return text

def small(request):
    return answer(request, "small")

def large(request):
    return answer(request, "large")
"""

Answers = Mapping[str, Mapping[str, str]]
"""Answers by target and question; `*` answers every other question, `raise` is a failure of the target."""


class Project(Struct):
    """An eval file with these cases, each of which expects `yes`, for the targets `small` and `large`."""

    folder: Path
    questions: Sequence[str]
    ids: Sequence[str] = ()
    """The ids of the cases; without any, `case-0` and so on."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "agent.py").write_text(AGENT)
        targets = [{"name": name, "provider": "python", "callable": f"agent.py:{name}"} for name in ("small", "large")]
        (self.folder / "targets.yaml").write_text(json.dumps({"targets": targets}))
        cases = [
            {
                "id": self.ids[number] if self.ids else f"case-{number}",
                "input": question,
                "expected": f"yes: {question}",
                "tags": [f"t{number % 2}"],
            }
            for number, question in enumerate(self.questions)
        ]
        suite = {
            "targets": ["small", "large"],
            "evaluators": [{"name": "yes", "type": "contains", "value": "yes"}],
            "tests": "cases.jsonl",
        }
        # Unlike an eval file, a dataset may have any character in a text.
        (self.folder / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
        (self.folder / "suite.yaml").write_text(json.dumps(suite))

    @property
    def home(self) -> Path:
        """Where the runs are stored."""
        return self.folder / ".agentv"

    def run(self, answers: Answers) -> str:
        """Run the cases with these answers; return the id of the run."""
        (self.folder / "answers.json").write_text(json.dumps(answers))
        report = evaluate(self.folder / "suite.yaml", folder=self.home, workers=1, gates="none")
        return report.run_id


class Elements(HTMLParser):
    """The elements of a page, each with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def assert_harmless(self) -> None:
        """Assert that no text of a stranger became an element, a handler or a script's address."""
        allowed = {"script": 1, "img": 0, "svg": 0, "iframe": 0, "style": 0, "textarea": 0}
        for tag, most in allowed.items():
            assert sum(found == tag for found, _ in self.found) <= most, tag
        for tag, attributes in self.found:
            assert not [name for name in attributes if name.startswith("on")], tag
            address = attributes.get("href", attributes.get("src", attributes.get("action", "/")))
            assert address.startswith(("/", "#", "data:,")), address
