"""What an evaluator's settings tell of the models it asks and the runs it reads; none is known here by its name."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from agentv.types.cases import EvaluatorConfig
from agentv.types.json_value import JsonObject


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
    if not is_dataclass(settings):
        return
    for item in fields(settings):
        value = getattr(settings, item.name)
        if isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, EvaluatorConfig))
