"""What an evaluator's settings tell of the models it asks and the runs it reads; none is known here by its name."""

from collections.abc import Iterator

from agentv.engine.planning.targets import KnownTargets
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.struct_fields import names_of_fields


def judge_targets(settings: object) -> Iterator[str]:
    """Yield the judges that an evaluator names: its settings class tells through `judge_targets`."""
    yield from getattr(settings, "judge_targets", ())


def needs_judge(settings: object) -> bool:
    """Whether an evaluator asks the target's own judge: its settings class tells through `needs_judge`."""
    return bool(getattr(settings, "needs_judge", False))


def embedding_model(settings: object) -> str | JsonObject | None:
    """Return who makes an evaluator's vectors: a target's name or one written like a target; None when it has none."""
    model: str | JsonObject | None = getattr(settings, "embedding_model", None)
    return model


def named_runs(settings: object) -> Iterator[str]:
    """Yield the stored runs that an evaluator compares with: its settings class tells through `runs`."""
    yield from getattr(settings, "runs", ())


def member_configs(settings: object) -> Iterator[EvaluatorConfig]:
    """Yield the evaluators that stand inside an evaluator's settings."""
    for name in names_of_fields(type(settings)):
        value = getattr(settings, name)
        if isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, EvaluatorConfig))


def embeds_for_money(settings: object, known: KnownTargets) -> bool:
    """Whether an evaluator's vectors may cost money; a model that nobody knows may."""
    model = embedding_model(settings)
    if model is None:
        return False
    try:
        provider = known.embedding_config(model).provider
    except ConfigError:
        return True
    return known.specs.providers.get(provider).cost == "paid"


def check_embedder(settings: object, known: KnownTargets) -> None:
    """Raise AgentvError unless who makes an evaluator's vectors is there, complete and installed."""
    model = embedding_model(settings)
    if model is None:
        return
    check = getattr(known.embedding_target(model).settings, "check_embeddings", None)
    if check is not None:
        check()
