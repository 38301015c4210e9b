"""A small, fixed set of plug-ins, so that expected messages do not change when an evaluator is added."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentv.importers import IMPORTERS
from agentv.registry import EvaluatorSpec, ProviderSpec, Specs, make_registry
from agentv.types.json_value import JsonObject, JsonValue


def never_made(*_: object) -> None:
    """Raise: loading checks settings, but never calls a factory."""
    raise AssertionError("loading must not make plug-ins")


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    prompt: str | None = None
    model: str | None = None
    samples: int = 1
    vote: Literal["mean", "median", "min"] = "mean"

    def compares_outcome(self, base_dir: str) -> str:  # noqa: ARG002 - the contract of settings
        return "alone" if self.prompt is None else "never"


@dataclass(frozen=True, slots=True)
class ScriptSettings:
    script: str | tuple[str, ...] | None = None
    python: str | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        if (self.script is None) == (self.python is None):
            raise ValueError("needs `script` or `python`, and not both")


@dataclass(frozen=True, slots=True)
class ContainsSettings:
    value: str | tuple[str, ...] = field(metadata={"help": "the text to look for"})
    expect: Literal["any", "all"] = "any"


@dataclass(frozen=True, slots=True)
class RegexSettings:
    pattern: str
    flags: str = ""

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"`pattern` is not a valid regular expression: {error}") from None


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    tool: str
    args: JsonValue = None


@dataclass(frozen=True, slots=True)
class TrajectorySettings:
    minimums: Mapping[str, int] = field(default_factory=dict)
    expected: tuple[ExpectedCall, ...] = field(default=(), metadata={"aliases": ("expected_calls",)})


@dataclass(frozen=True, slots=True)
class WeightedAverage:
    type: Literal["weighted_average"]
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Threshold:
    type: Literal["threshold"]
    at_least: int


@dataclass(frozen=True, slots=True)
class CompositeSettings:
    evaluators: tuple[JsonObject, ...] = field(metadata={"evaluators": True})
    aggregator: WeightedAverage | Threshold | None = None


@dataclass(frozen=True, slots=True)
class MockSettings:
    response: str | Mapping[str, str] = ""
    delay_ms: float = 0
    fail: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    model: str
    api_key: str | None = None
    base_url: str | None = field(default=None, metadata={"aliases": ("endpoint",)})
    temperature: float | None = None
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    system_prompt: str | None = None


def _provider(name: str, settings: type, *aliases: str) -> ProviderSpec:
    return ProviderSpec(name, name, settings=settings, factory=never_made, aliases=aliases)


def _evaluator(name: str, settings: type, *aliases: str) -> EvaluatorSpec:
    return EvaluatorSpec(name, name, settings=settings, factory=never_made, aliases=aliases)


SPECS = Specs(
    providers=make_registry(
        "provider",
        (
            _provider("mock", MockSettings),
            _provider("openai", ModelSettings),
            _provider("azure", ModelSettings, "azure-openai"),
        ),
    ),
    evaluators=make_registry(
        "evaluator type",
        (
            _evaluator("llm_judge", JudgeSettings),
            _evaluator("code_judge", ScriptSettings, "code"),
            _evaluator("contains", ContainsSettings),
            _evaluator("regex", RegexSettings),
            _evaluator("tool_trajectory", TrajectorySettings),
            _evaluator("composite", CompositeSettings),
        ),
    ),
    importers=IMPORTERS,
)
