"""Criteria, sets of criteria and evaluators that `.agentv/criteria.yaml` defines for a project."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.kinds import CRITERIA_FILE
from agentv.loading.files.places import upward_in_project
from agentv.loading.models.eval_files import Criteria, JsonFields
from agentv.loading.models.file_model import FileModel
from agentv.loading.models.reader import Reader, open_yaml
from agentv.loading.suites.criteria import named_criteria, read_criteria
from agentv.loading.suites.evaluators import EvaluatorScope, read_evaluator
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem
from agentv.types.scales import EvaluationCriteria

_SETS_KEY = "criteria_sets"


class CriteriaFileModel(FileModel, frozen=True, kw_only=True):
    """The keys of `.agentv/criteria.yaml`."""

    criteria: Criteria = None
    criteria_sets: JsonFields = field(default_factory=dict)
    evaluators: JsonFields = field(default_factory=dict)


class NamedDefinitions(Struct, frozen=True):
    """The content of `.agentv/criteria.yaml`: named criteria, sets of criteria, and evaluators."""

    criteria: Mapping[str, EvaluationCriteria] = field(default_factory=dict)
    sets: Mapping[str, tuple[EvaluationCriteria, ...]] = field(default_factory=dict)
    evaluators: Mapping[str, EvaluatorConfig] = field(default_factory=dict)


def find_criteria_file(folder: Path, repository_root: Path) -> Path | None:
    """Return the nearest `.agentv/criteria.yaml` from `folder` up to the repository root."""
    places = upward_in_project(folder, repository_root)
    return next((place / CRITERIA_FILE for place in places if (place / CRITERIA_FILE).is_file()), None)


def read_named_definitions(path: Path | None, scope: EvaluatorScope) -> tuple[NamedDefinitions, tuple[Problem, ...]]:
    """Return the criteria and evaluators that a criteria file defines, and the file's problems.

    Relative paths in its evaluators start from the folder that contains `.agentv`.
    """
    if path is None:
        return NamedDefinitions(), ()
    try:
        reader = open_yaml(path)
    except EvalFileError as error:
        return NamedDefinitions(), error.problems
    scope = replace(scope, base_dir=str(path.parent.parent))
    reader.read(CriteriaFileModel)
    criteria = {criterion.name: criterion for criterion in read_criteria(reader, ("criteria",), {})}
    sets = {
        name: read_criteria(reader, (_SETS_KEY, name), named_criteria(criteria, {}))
        for name in _keys_of(reader, _SETS_KEY)
    }
    for name in sets.keys() & criteria.keys():
        reader.error((_SETS_KEY, name), f"{name!r} is already the name of a criterion; rename the set", on_key=True)
    evaluators: dict[str, EvaluatorConfig] = {}
    for name in _keys_of(reader, "evaluators"):
        config = read_evaluator(reader, ("evaluators", name), scope, default_name=name)
        if config is not None:
            evaluators[name] = config
    return NamedDefinitions(criteria, sets, evaluators), tuple(reader.problems)


def _keys_of(reader: Reader, key: str) -> tuple[str, ...]:
    raw = reader.document.at((key,))
    return tuple(raw) if isinstance(raw, Mapping) else ()
