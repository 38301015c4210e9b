"""The targets that a suite may name."""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.planning.inline_targets import model_hint, target_named
from agentv.engine.planning.options import RunOptions
from agentv.loading.models.reader import raise_errors
from agentv.loading.suites.resolve import resolve_target
from agentv.loading.targets.choice import choose_target
from agentv.loading.targets.targets import ParsedTargets
from agentv.registry import Specs, names_model
from agentv.scoring.keys.identity import digest
from agentv.types.errors import TargetError, nearest
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget, TargetConfig

LOCAL = "local"


class KnownTargets(Struct, frozen=True):
    """The targets of one targets file (or of one call of `evaluate`), resolved on first use.

    `judge` names the judge of every target's answers, and overrides `judge_target`. `secrets` are redacted in the
    responses of all targets, in addition to each one's own; the variables `public_env` hold none. `parsed` has the
    problems of the file's targets, which stop a run only if it uses them.
    """

    configs: Mapping[str, TargetConfig]
    env: Mapping[str, str]
    specs: Specs
    options: RunOptions = field(default_factory=RunOptions)
    judge: str | None = None
    secrets: tuple[str, ...] = ()
    public_env: tuple[str, ...] = ()
    parsed: ParsedTargets = ParsedTargets((), ())
    resolved: dict[str, ResolvedTarget] = field(default_factory=dict)

    def get(self, name: str) -> ResolvedTarget:
        """Return the named target, ready for use; `provider:model` names one without a targets file.

        Raises TargetError for an unknown name or a bad setting.
        """
        if name not in self.resolved:
            target = self._resolved(self._config(name))
            if self.judge is not None:
                target = replace(target, judge_target=self.judge)
            self.resolved[name] = target
        return self.resolved[name]

    def _resolved(self, config: TargetConfig) -> ResolvedTarget:
        target = resolve_target(config, env=self.env, specs=self.specs, public_env=self.public_env)
        if self.secrets:
            target = replace(target, secrets=tuple(sorted({*target.secrets, *self.secrets})))
        if self.options.max_retries is None:
            return target
        return replace(target, retry=replace(target.retry, max_retries=self.options.max_retries))

    def judged_by(self, judge: str | None) -> "KnownTargets":
        """Return the same targets with this judge of their answers; None: without a change."""
        return self if judge is None else replace(self, judge=judge, resolved={})

    def choose(self, name: str | None) -> ResolvedTarget:
        """Return the target of that name, ready for use, or without a name the default one. Raises TargetError."""
        if name is not None and name not in self.configs and names_model(name, self.specs.providers):
            return self.get(name)
        return self.get(choose_target(tuple(self.configs.values()), name).name)

    def check(self, name: str) -> None:
        """Raise EvalFileError with the problems of a target, if it has errors."""
        for each in sorted(self.parsed.with_used([name])):
            if each == name or each in self.parsed.used.get(name, ()):
                raise_errors(name, self.parsed.faults_of(each))

    def warnings(self) -> Iterator[str]:
        """Yield the warnings about the targets that were used, and one about unused ones that have errors."""
        used = self.parsed.with_used(self.resolved)
        for problem in self.parsed.problems_for(used):
            if self.parsed.owner_of(problem) in used:
                yield problem.render()
        faulty = {
            self.parsed.owner_of(problem) or "without a name": problem.path
            for problem in self.parsed.problems
            if problem.severity == "error" and self.parsed.owner_of(problem) not in used
        }
        if faulty:
            names = ", ".join(faulty)
            yield f"{next(iter(faulty.values()))}: unused targets have errors, which `agentv check` lists: {names}"

    def _config(self, name: str) -> TargetConfig:
        self.check(name)
        if name in self.configs:
            return self.configs[name]
        described = target_named(name, self.specs, self.env)
        if described is not None:
            return described
        near = nearest(name, self.configs)
        hint = f" Did you mean {near!r}?" if near else ""
        if not self.configs or ":" in name:
            hint = f"{hint} A model is also written as {model_hint(self.specs.providers)}"
        raise TargetError(f"no target named {name!r}; known: {', '.join(self.configs) or 'none'}.{hint}")

    def embedding_config(self, model: str | JsonObject) -> TargetConfig:
        """Return the config of an embedding model: a target by name, or one given inline. Raises TargetError.

        `local` is the built-in model without settings, unless a target has that name.
        """
        if isinstance(model, str) and (model in self.configs or model != LOCAL):
            config = self._config(model)
        else:
            config = _inline_config({"provider": LOCAL} if isinstance(model, str) else model)
        provider = self.specs.providers.get(config.provider)
        if not provider.embeds:
            able = ", ".join(spec.name for spec in self.specs.providers if spec.embeds)
            raise TargetError(f"{config.name!r} ({provider.name}) cannot make embeddings; providers that can: {able}")
        return config

    def embedding_target(self, model: str | JsonObject) -> ResolvedTarget:
        """Return the resolved target of an embedding model; the same one for the same settings. Raises TargetError."""
        config = self.embedding_config(model)
        if config.name in self.configs:
            return self.get(config.name)
        # Added to the resolved targets, so that its secrets are redacted as well.
        key = f"embeddings {digest([config.provider, dict(config.settings)])}"
        if key not in self.resolved:
            self.resolved[key] = self._resolved(config)
        return self.resolved[key]


def _inline_config(model: JsonObject) -> TargetConfig:
    settings = {key: value for key, value in model.items() if key not in ("name", "provider")}
    provider = model.get("provider")
    if not isinstance(provider, str):
        raise TargetError("`model` must be the name of a target, or an object with a `provider`")
    named = next((settings[key] for key in ("model", "deployment", "deploymentName") if key in settings), None)
    return TargetConfig(f"{provider} {named}" if named else provider, provider, settings)
