"""What an evaluator's settings tell about the models that it asks; no evaluator is known here by name."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from agentv.types.cases import EvaluatorConfig


def judge_targets(settings: object) -> Iterator[str]:
    """Yield the judges that an evaluator names: its settings class tells through `judge_targets`."""
    yield from getattr(settings, "judge_targets", ())


def needs_judge(settings: object) -> bool:
    """Whether an evaluator asks the target's own judge: its settings class tells through `needs_judge`."""
    return bool(getattr(settings, "needs_judge", False))


def member_configs(settings: object) -> Iterator[EvaluatorConfig]:
    """Yield the evaluators that stand inside an evaluator's settings."""
    if not is_dataclass(settings):
        return
    for item in fields(settings):
        value = getattr(settings, item.name)
        if isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, EvaluatorConfig))
