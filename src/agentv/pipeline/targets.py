"""The targets that a suite may name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentv.loading import resolve_target
from agentv.pipeline.options import RunOptions
from agentv.registry import Specs
from agentv.types.errors import TargetError, nearest
from agentv.types.targets import ResolvedTarget, TargetConfig


@dataclass(frozen=True, slots=True)
class KnownTargets:
    """The targets of one targets file (or of one call of `evaluate`), resolved when they are first needed.

    `judge` names who judges every target's answers, whatever the targets say.
    """

    configs: Mapping[str, TargetConfig]
    env: Mapping[str, str]
    specs: Specs
    options: RunOptions = field(default_factory=RunOptions)
    judge: str | None = None
    resolved: dict[str, ResolvedTarget] = field(default_factory=dict)

    def get(self, name: str) -> ResolvedTarget:
        """Return the named target, ready for use. Raises TargetError for an unknown name or a bad setting."""
        if name not in self.resolved:
            if name not in self.configs:
                near = nearest(name, self.configs)
                hint = f" Did you mean {near!r}?" if near else ""
                raise TargetError(f"no target named {name!r}; there are: {', '.join(self.configs) or 'none'}.{hint}")
            target = resolve_target(self.configs[name], env=self.env, specs=self.specs)
            if self.options.max_retries is not None:
                target = replace(target, retry=replace(target.retry, max_retries=self.options.max_retries))
            if self.judge is not None:
                target = replace(target, judge_target=self.judge)
            self.resolved[name] = target
        return self.resolved[name]
