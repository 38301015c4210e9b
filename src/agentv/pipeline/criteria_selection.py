"""Which evaluators of a configuration judge, and whether its judge may be asked: `only` of the criteria door."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.loading.settings import read_settings
from agentv.pipeline.embedding_models import embeds_for_money
from agentv.pipeline.judges import judge_targets, member_configs, needs_judge
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Specs
from agentv.types.cases import EvaluatorConfig
from agentv.types.targets import TargetConfig


class Selecting(Struct, frozen=True):
    """A configuration's selection: None takes all, "free" what costs nothing, a list names evaluators or types."""

    only: str | Sequence[str] | None
    targets: Mapping[str, TargetConfig]
    specs: Specs

    def takes(self, config: EvaluatorConfig, settings: object) -> bool:
        """Whether an evaluator is selected; `settings` are None for one given as an object."""
        if self.only is None:
            return True
        if self.only != "free":
            types = {self.specs.evaluators.canonical(name) or name for name in self.only}
            return config.name in self.only or config.type in types
        if settings is None:
            return True
        inside = all_settings(settings, self.specs)
        asks = any(needs_judge(each) or any(judge_targets(each)) for each in inside)
        paid = asks or embeds_for_money(settings, KnownTargets(self.targets, {}, self.specs))
        return self.specs.evaluators.get(config.type).cost == "free" and not paid

    def may_judge(self, selected: Iterable[object]) -> bool:
        """Whether evaluators with these settings may ask the judge; one that nobody can ask need not be there."""
        if self.only is None or self.only == "free":
            return self.only is None
        inside = (inner for settings in selected for inner in all_settings(settings, self.specs))
        return any(inner is None or needs_judge(inner) for inner in inside)


def all_settings(settings: object, specs: Specs) -> Iterator[object]:
    """Yield an evaluator's settings and those of everything inside it (a composite's members)."""
    yield settings
    for member in member_configs(settings):
        inner = read_settings(specs.evaluators.get(member.type), member.settings, where=member.name)
        yield from all_settings(inner, specs)
