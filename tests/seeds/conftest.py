"""Ways in that the scenarios share: the command line, as a user has it, and a context for an evaluator alone."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv import EvalCase, EvaluationContext, ProviderRequest, ProviderResponse, ResolvedTarget
from agentv.cli.main import main
from agentv.types.evaluation import PromptInputs


@dataclass(frozen=True)
class Done:
    """How a command ended; `rows` are those it exported."""

    code: int
    rows: list[dict[str, Any]]
    output: str
    errors: str


class ScriptedJudge:
    """A judge model that says what it is told to, the last reply for ever, and remembers what it was asked.

    NONCE in a reply becomes the one-time text of the request.
    """

    kind = "scripted"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.requests: list[ProviderRequest] = []

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return ProviderResponse(reply.replace("NONCE", str(request.metadata.get("nonce"))))


@pytest.fixture
def judge() -> Callable[..., ScriptedJudge]:
    return ScriptedJudge


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return a function that calls the command line in a folder of its own."""

    (tmp_path / ".agentv").mkdir()

    def call(*arguments: str) -> Done:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = capsys.readouterr()
        exported = tmp_path / "rows.jsonl"
        lines = exported.read_text("utf-8").splitlines() if exported.exists() else []
        code = left.value.code
        return Done(code if isinstance(code, int) else 0, [json.loads(line) for line in lines], said.out, said.err)

    return call


@pytest.fixture
def run(tmp_path: Path, agentv: Callable[..., Done]) -> Callable[..., Done]:
    """Return a function that writes a suite, targets and other files, runs the suite and exports its rows."""

    def write_and_run(suite: str, *options: str, targets: str, files: Mapping[str, str] | None = None) -> Done:
        for name, text in {"evals/suite.yaml": suite, "targets.yaml": targets, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return agentv("run", "evals", "-o", "rows.jsonl", *options)

    return write_and_run


@pytest.fixture
def context() -> Callable[..., EvaluationContext]:
    """Return a function that makes what an evaluator sees of a candidate."""

    def make(candidate: str, **fields: Any) -> EvaluationContext:
        case = EvalCase(id="case-1", input_messages="What is 2 + 2?", expected_outcome="It is four")
        given: dict[str, Any] = {
            "eval_case": case,
            "target": ResolvedTarget("target", "mock", settings=None),
            "provider": ScriptedJudge(candidate),
            "prompt_inputs": PromptInputs("What is 2 + 2?"),
            "reference_answer": "4",
        }
        return EvaluationContext(candidate=candidate, **{**given, **fields})

    return make
