"""The judges of evaluators, declared by settings of any type, and the targets that judge their own answers."""

from collections.abc import Iterator, Sequence

from agentv.loading.models.settings import read_settings
from agentv.registry import ProviderSpec, Specs
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import AgentvError
from agentv.types.structs import names_of_fields


def judge_targets(settings: object) -> Iterator[str]:
    """Yield the targets that an evaluator names as judges, from `judge_targets` of its settings."""
    yield from getattr(settings, "judge_targets", ())


def needs_judge(settings: object) -> bool:
    """Return True if an evaluator calls the target's own judge, from `needs_judge` of its settings."""
    return bool(getattr(settings, "needs_judge", False))


def member_configs(settings: object) -> Iterator[EvaluatorConfig]:
    """Yield the configs of the evaluators within an evaluator's settings."""
    for name in names_of_fields(type(settings)):
        value = getattr(settings, name)
        if isinstance(value, tuple):
            yield from (member for member in value if isinstance(member, EvaluatorConfig))


def settings_with_members(evaluator: object, specs: Specs) -> Iterator[object]:
    """Yield the settings of an evaluator and of its members, without those that are wrong, which others report."""
    if not isinstance(evaluator, EvaluatorConfig):
        return
    try:
        settings = read_settings(specs.evaluators.get(evaluator.type), evaluator.settings, where=evaluator.name)
    except AgentvError:
        return
    yield settings
    for member in member_configs(settings):
        yield from settings_with_members(member, specs)


def judges_itself(provider: ProviderSpec, *, has_judge: bool) -> bool:
    """Return True if a target judges its own answers: it names no judge, and its provider can judge.

    Canned answers, which stand in for a judge as well, are no own judge to warn about.
    """
    return provider.can_judge and not provider.is_canned and not has_judge


def own_judge_text(names: Sequence[str]) -> str:
    """Return the sentence on targets that judge their own answers."""
    several = len(names) > 1
    listed = ", ".join(map(repr, names))
    subject = f"targets {listed} judge their" if several else f"target {listed} judges its"
    return f"no judge is set: {subject} own answers; name one with `judge: NAME` in the target or the eval file"
