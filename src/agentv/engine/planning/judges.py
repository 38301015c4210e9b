"""The models that an evaluator may pay for and the runs that it reads, declared by settings of any type."""

from collections.abc import Callable, Iterator
from pathlib import Path

from agentv.engine.planning.targets import KnownTargets
from agentv.loading.models.judges import judge_targets, needs_judge
from agentv.registry import EvaluatorSpec
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject

DEFAULT_JUDGE_WORKERS = 10
"""Concurrent calls of a judge without a setting, where answers exist already."""


def embedding_model(settings: object) -> str | JsonObject | None:
    """Return the embedding model of an evaluator, as a target's name or an inline target, or None."""
    model: str | JsonObject | None = getattr(settings, "embedding_model", None)
    return model


def named_runs(settings: object) -> Iterator[str]:
    """Yield the stored runs that an evaluator compares with, from `runs` of its settings."""
    yield from getattr(settings, "runs", ())


def may_pay_for_embeddings(settings: object, known: KnownTargets) -> bool:
    """Return True if an evaluator's embeddings may cost money; also True for an unknown model."""
    model = embedding_model(settings)
    if model is None:
        return False
    try:
        provider = known.embedding_config(model).provider
    except ConfigError:
        return True
    return known.specs.providers.get(provider).cost == "paid"


def may_cost_money(spec: EvaluatorSpec, settings: object, known: KnownTargets) -> bool:
    """Return True if an evaluator may cost money: by its type, or because it calls a judge or a paid model."""
    calls_model = needs_judge(settings) or any(judge_targets(settings)) or may_pay_for_embeddings(settings, known)
    return spec.cost == "paid" or calls_model


def check_embedder(settings: object, known: KnownTargets) -> None:
    """Raise AgentvError if the embedding model of an evaluator is unknown, incomplete, unsupported or not installed."""
    model = embedding_model(settings)
    if model is None:
        return
    check = getattr(known.embedding_target(model).settings, "check_embeddings", None)
    if check is not None:
        check()


ANSWERS = "answers.jsonl"


def run_folder(run: str, base_dir: str, find_run: Callable[[str], str]) -> Path:
    """Return the folder of `run`: a path relative to `base_dir` with an answers file, else what `find_run` returns.

    `find_run` raises ConfigError if no run or several runs match.
    """
    as_path = Path(base_dir, run)
    return as_path if (as_path / ANSWERS).is_file() else Path(find_run(run))
