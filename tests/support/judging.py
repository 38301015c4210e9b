"""Contexts and judges for tests of evaluators: small, real, without a network."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from agentv.evaluators import EVALUATORS
from agentv.evaluators.judges.composite import score_objects
from agentv.execution.sharing import SharedResources
from agentv.fake.answers import embed
from agentv.loading.models.settings import read_settings
from agentv.types.cases import EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluationContext, Evaluator, EvaluatorResult, PromptInputs
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message
from agentv.types.provider import Embedder, Embedding, Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

CASE = EvalCase(
    "refund-1",
    (Message(role="user", content="May I return it?"),),
    expected_outcome="Says that returns are possible for 30 days",
    expected_messages=(Message(role="assistant", content="Yes, within 30 days."),),
    metadata={"difficulty": "hard"},
)


@dataclass
class Judge:
    """A provider that answers with `reply(request)` and records its requests."""

    reply: Callable[[ProviderRequest], str]
    usage: Usage | None = None
    cost_usd: float | None = None
    kind: str = "scripted"
    is_code: bool = True
    requests: list[ProviderRequest] = field(default_factory=list)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        return ProviderResponse(text=self.reply(request), usage=self.usage, cost_usd=self.cost_usd)


@dataclass
class FailingJudge:
    """A provider that cannot answer."""

    failure: Failure
    kind: str = "failing"

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - it never looks
        raise ProviderError(self.failure)


def judge_saying(*replies: str) -> Judge:
    """Return a judge that gives these replies in turn, and then the last one again and again."""
    left = list(replies)
    return Judge(lambda _request: left.pop(0) if len(left) > 1 else left[0])


def signed(request: ProviderRequest, fields: str) -> str:
    """Return a verdict with the call's nonce, as a judge that follows its contract does."""
    return f'{{"nonce": "{request.metadata["nonce"]}", {fields}}}'


def prompt_of(request: ProviderRequest) -> str:
    """Return the user prompt of a judge's request without its last line, which names the nonce."""
    prompt, _, line = request.question.rpartition("\n\n")
    assert line.startswith(f'Reply with one JSON object with the keys "nonce" ("{request.metadata["nonce"]}", copied')
    return prompt


def make_context(candidate: str = "Sure, you have 30 days.", **fields: Any) -> EvaluationContext:
    """Return the context of an answer to CASE; `fields` replace the context's own."""
    judge = fields.pop("judge", None)
    given = {
        "eval_case": CASE,
        "candidate": candidate,
        "target": ResolvedTarget("agent", "mock", None),
        "provider": judge_saying("never called"),
        "prompt_inputs": PromptInputs("May I return it?"),
        "judge_provider": judge,
        "reference_answer": "Yes, within 30 days.",
        "ground_truth": "Yes, within 30 days.",
    }
    return EvaluationContext(**{**given, **fields})


def numbered_nonces() -> Callable[[], str]:
    """Return a source of predictable nonces: n1, n2, …"""
    numbers = count(1)
    return lambda: f"n{next(numbers)}"


@dataclass
class WordEmbedder:
    """Vectors that are close together if their texts share words, as the fake server makes them."""

    name: str = "words"
    requests: list[tuple[str, ...]] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> tuple[Embedding, ...]:
        self.requests.append(tuple(texts))
        return tuple(Embedding(array("f", embed(text))) for text in texts)


@dataclass
class Tools:
    """The tools of evaluators, without a run: judges by name, one embedder, members judged in place."""

    judges: dict[str, Provider] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    vectors: Embedder = field(default_factory=WordEmbedder)
    shared: SharedResources = field(default_factory=SharedResources)

    def judge(self, target_name: str) -> Provider:
        return self.judges[target_name]

    def embedder(self, model: str | JsonObject) -> Embedder:  # noqa: ARG002 - there is one
        return self.vectors

    async def recorded_answer(self, run: str, context: EvaluationContext, *, base_dir: str) -> str:
        return f"{self.recorded[run]} ({context.eval_case.id} in {base_dir})"

    async def score(
        self, context: EvaluationContext, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        made = [self.made(each) for each in evaluators]
        return await score_objects(context, made)

    def made(self, evaluator: EvaluatorLike) -> EvaluatorLike:
        return make_evaluator(evaluator, self) if isinstance(evaluator, EvaluatorConfig) else evaluator


def make_evaluator(config: EvaluatorConfig, tools: Tools | None = None) -> Evaluator:
    """Return the evaluator of a config, its settings read as a run reads them."""
    spec = EVALUATORS.get(config.type)
    settings = read_settings(spec, config.settings, where=config.name)
    made: Evaluator = spec.load_factory()(config, settings, tools or Tools())
    return made


def evaluator_of(type_: str, tools: Tools | None = None, *, source: str = "response", **settings: Any) -> Evaluator:
    """Return an evaluator of a type with the given settings."""
    return make_evaluator(EvaluatorConfig(name=type_, type=type_, settings=settings, source=source), tools)
