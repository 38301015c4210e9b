"""The stores of criteria-based judgements: given as objects, or made from their settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from agentv.loading.models.settings import read_settings
from agentv.registry import Specs
from agentv.types.criteria.aggregated_result import EvaluationStorageProvider
from agentv.types.errors import AgentvError, EvalFileError
from agentv.types.fields import Problems

Storage: TypeAlias = EvaluationStorageProvider | Mapping[str, Any]
"""A store of judgements: an object with `save_result`, or a dict with the `type` of a store and its settings."""

AT = "$.storage"


def make_stores(
    given: Storage | Sequence[Storage] | None, specs: Specs, base_dir: Path, problems: Problems
) -> tuple[EvaluationStorageProvider, ...]:
    """Return the stores, and add their problems to `problems`."""
    if given is None:
        return ()
    made: list[EvaluationStorageProvider] = []
    for each in given if isinstance(given, list | tuple) else (given,):
        try:
            store = _made(each, specs, str(base_dir)) if isinstance(each, Mapping) else each
        except EvalFileError as error:
            for problem in error.problems:
                at = f"{AT}{problem.json_path[1:]}"
                problems.add(at, problem.message, allowed=problem.allowed, suggestion=problem.suggestion)
            continue
        except AgentvError as error:
            problems.add(AT, str(error))
            continue
        if isinstance(store, EvaluationStorageProvider):
            made.append(store)
        else:
            wanted = 'an object with save_result(result), or {"type": "json_file", "path": "judged.jsonl"}'
            problems.add(AT, f"{type(store).__name__} is not a store", allowed=wanted)
    return tuple(made)


def _made(config: Mapping[str, Any], specs: Specs, base_dir: str) -> object:
    """Return the store described by a dict: its `type`, and its settings next to it or in `config`."""
    spec = specs.stores.get(str(config.get("type")))
    nested = config.get("config")
    settings = {key: value for key, value in config.items() if key not in ("type", "config")}
    if isinstance(nested, Mapping):
        settings |= nested
    return spec.load_factory()(read_settings(spec, settings, where="storage"), base_dir)
