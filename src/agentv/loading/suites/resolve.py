"""Resolution of a TargetConfig: references filled, settings typed, secrets collected."""

from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec.structs import replace

from agentv.loading.files.documents import Document, JsonPath, Mark
from agentv.loading.models.reader import Reader, raise_errors
from agentv.loading.suites.references import fill, redact_problems
from agentv.loading.targets.models import TargetModel
from agentv.loading.targets.settings import check_target
from agentv.loading.targets.targets import open_targets
from agentv.registry import Specs
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject
from agentv.types.targets import ResolvedTarget, TargetConfig


def resolve_target(
    config: TargetConfig, *, env: Mapping[str, str], specs: Specs, public_env: Collection[str] = ()
) -> ResolvedTarget:
    """Return a target ready for use. Raises EvalFileError with all problems: unset variables, invalid settings.

    The target may come from a file or from Python. `public_env` are variables that hold no secrets.
    """
    where = config.path or f"target {config.name!r}"
    document = Document(where, _as_written(config), Mark(config.line, 1 if config.line else 0))
    reader = Reader(document)
    resolved = resolve_at(reader, (), config, env=env, specs=specs, public_env=public_env)
    if resolved is None:
        reader, at = _reopened(config, env, specs) or (reader, ())
        resolve_at(reader, at, config, env=env, specs=specs)
        raise_errors(where, reader.problems)
        raise EvalFileError(where, reader.problems)
    return resolved


def _as_written(config: TargetConfig) -> JsonObject:
    return {"name": config.name, "provider": config.provider, **config.settings}


def _reopened(config: TargetConfig, env: Mapping[str, str], specs: Specs) -> tuple[Reader, JsonPath] | None:
    """Return a reader of the target's file, and the path of the target in it, to report positions."""
    if not config.line:
        return None
    try:
        document = open_targets(Path(config.path), specs, env).document
    except EvalFileError:
        return None
    entries = document.at(("targets",))
    for index in range(len(entries) if isinstance(entries, list) else 0):
        at = ("targets", index)
        # A target that is used by a second name is the same entry.
        if document.mark(at).line == config.line and document.at((*at, "provider")) == config.provider:
            return Reader(document), at
    return None


def resolve_at(
    reader: Reader,
    at: JsonPath,
    config: TargetConfig,
    *,
    env: Mapping[str, str],
    specs: Specs,
    public_env: Collection[str] = (),
) -> ResolvedTarget | None:
    """Return the resolved target at `at`; record its problems and return None if it has any."""
    before = len(reader.problems)
    filled = fill(reader, at=at, value=_as_written(config), env=env, target=config.name, public_env=public_env)
    after_filling = len(reader.problems)
    unset = after_filling > before
    if not isinstance(filled.value, dict) or not isinstance(filled.public, dict):
        return None
    checked = check_target(reader, at, filled.value, specs.providers, single_references=filled.single_references)
    redact_problems(reader, before, filled)
    if unset or checked.model is None or checked.spec is None or checked.settings is None:
        return None
    public = {key: value for key, value in filled.public.items() if key not in ("name", "provider")}
    target = ResolvedTarget(
        name=config.name,
        provider=checked.spec.name,
        settings=checked.settings,
        public_settings=public,
        secrets=tuple(sorted(filled.secrets)),
        public_env=tuple(public_env),
        path=config.path,
        line=config.line,
        base_dir=config.base_dir,
    )
    return _with_common(target, checked.model)


def _with_common(target: ResolvedTarget, model: TargetModel) -> ResolvedTarget:
    return replace(
        target,
        workers=model.workers,
        provider_batching=model.provider_batching,
        batch_size=model.batch_size,
        retry=model.to_retry_policy(),
        timeout_s=model.timeout_seconds,
        judge_target=model.judge_target,
        fallback_targets=tuple(model.fallback_targets),
        unsigned=model.unsigned,
        system_prompt=model.system_prompt,
        price=model.price.to_price() if model.price else None,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
        workspace=model.workspace.given() if model.workspace else None,
        resources=model.resources,
        node_label=model.node_label,
    )
