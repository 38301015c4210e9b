"""The stores of judgements that a configuration names, describes or brings along."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from agentv.loading.models.settings import read_settings
from agentv.registry import Specs
from agentv.types.aggregated_result import AggregatedEvaluationResult, EvaluationStorageProvider
from agentv.types.errors import AgentvError, EvalFileError
from agentv.types.fields import Problems

Storage: TypeAlias = EvaluationStorageProvider | Mapping[str, Any]
"""A store of judgements: an object with `save_result` or `saveResult`, a dict with such a function, or a dict with the
`type` of a store and its settings."""

STORAGE_PATH = "$.storage"


def make_stores(
    given: Storage | Sequence[Storage] | None, specs: Specs, base_dir: Path, problems: Problems
) -> tuple[EvaluationStorageProvider, ...]:
    """Return the stores, and add their problems to `problems`."""
    if given is None:
        return ()
    stores: list[EvaluationStorageProvider] = []
    for entry in given if isinstance(given, list | tuple) else (given,):
        try:
            store = _as_store(entry) or (
                _make_store(entry, specs, str(base_dir)) if isinstance(entry, Mapping) else entry
            )
        except EvalFileError as error:
            for problem in error.problems:
                at = f"{STORAGE_PATH}{problem.json_path[1:]}"
                problems.add(at, problem.message, allowed=problem.allowed, suggestion=problem.suggestion)
            continue
        except AgentvError as error:
            problems.add(STORAGE_PATH, str(error))
            continue
        if isinstance(store, EvaluationStorageProvider):
            stores.append(store)
        else:
            allowed = 'an object with save_result(result), or {"type": "json_file", "path": "judged.jsonl"}'
            problems.add(STORAGE_PATH, f"{type(store).__name__} is not a store", allowed=allowed)
    return tuple(stores)


def _make_store(config: Mapping[str, Any], specs: Specs, base_dir: str) -> object:
    """Return the store described by a dict: its `type`, and its settings next to it or in `config`."""
    spec = specs.stores.get(str(config.get("type")))
    nested = config.get("config")
    settings = {key: value for key, value in config.items() if key not in ("type", "config")}
    if isinstance(nested, Mapping):
        settings |= nested
    return spec.load_factory()(read_settings(spec, settings, where="storage"), base_dir)


SAVE_NAMES = ("save_result", "saveResult")


class GivenStore:
    """A store whose function to save has the name `saveResult`, or is an entry of a dict."""

    def __init__(self, kind: str, save: Callable[[AggregatedEvaluationResult], Awaitable[None] | None]) -> None:
        self.kind = kind
        self._save = save

    def save_result(self, result: AggregatedEvaluationResult) -> Awaitable[None] | None:
        """Store one judgement."""
        return self._save(result)


def is_live_store(given: object) -> bool:
    """Return True for a dict with a function to save, which no file can have."""
    return isinstance(given, Mapping) and any(callable(given.get(name)) for name in SAVE_NAMES)


def _as_store(given: object) -> EvaluationStorageProvider | None:
    """Return an object or dict with a function to save as a store; None for any other."""
    if isinstance(given, EvaluationStorageProvider):
        return given
    fields = given if isinstance(given, Mapping) else {name: getattr(given, name, None) for name in SAVE_NAMES}
    save = next((fields[name] for name in SAVE_NAMES if callable(fields.get(name))), None)
    if save is None:
        return None
    name = "given store" if isinstance(given, Mapping) else type(given).__name__
    return GivenStore(str(getattr(given, "kind", name)), cast(Any, save))
