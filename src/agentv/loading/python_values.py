"""Rubric items, criteria, turns and evaluators given from Python, read by the descriptions that files are read with."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.models.eval_files import EvaluatorModel, RubricItems, TurnModel
from agentv.loading.models.file_model import FileModel, as_written
from agentv.loading.models.reader import Reader, raise_errors
from agentv.loading.suites.cases import make_turn, read_rubrics
from agentv.loading.suites.criteria import NamedCriteria, read_criteria, read_defined_criterion
from agentv.loading.suites.evaluators import check_common_keys
from agentv.types.cases import CaseTurn, EvaluatorConfig
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.problems import Problem
from agentv.types.readers import ListName
from agentv.types.scales import EvaluationCriteria


class _RubricsModel(FileModel, frozen=True, kw_only=True):
    rubrics: RubricItems


def read_list(name: ListName, given: Sequence[object], *, where: str) -> tuple[Any, ...]:
    """Return the objects in a list of rubric items, criteria or turns: objects, dicts, or texts where files have texts.

    Raises EvalFileError with all their problems, at paths in `where`.
    """
    if not given:
        return ()
    if name == "criteria":
        found: tuple[Any, ...]
        found, problems = read_listed_criteria(given, None, where=where)
        raise_errors(where, problems)
        return found
    reader = _reader_of_list(name, given, where)
    if name == "turns":
        found = tuple(_read_turn(reader, (name, index), each) for index, each in enumerate(given))
    else:
        model = reader.read(_RubricsModel)
        found = () if model is None else read_rubrics(reader, (name,), model.rubrics)
    raise_errors(where, reader.problems)
    return found


def _read_turn(reader: Reader, at: JsonPath, given: object) -> CaseTurn | None:
    """Return a turn given as CaseTurn, as the user's text, or as a dict with the keys of eval files."""
    if isinstance(given, CaseTurn):
        return given
    if isinstance(given, str):
        return CaseTurn(Message("user", given))
    model = reader.read(TurnModel, at)
    return None if model is None else make_turn(reader, at, model, None, None)


def read_criterion(given: object, *, where: str) -> EvaluationCriteria:
    """Return the criterion in a dict. Raises EvalFileError with all its problems."""
    reader = Reader(Document(where, cast(JsonValue, given)))
    found = tuple(read_defined_criterion(reader, ()))
    raise_errors(where, reader.problems)
    return found[0]


def read_listed_criteria(
    given: Sequence[object], named: NamedCriteria | None, *, where: str
) -> tuple[tuple[EvaluationCriteria, ...], tuple[Problem, ...]]:
    """Return the criteria in a list of objects, dicts and, unless `named` is None, names; and all their problems."""
    reader = _reader_of_list("criteria", given, where)
    return read_criteria(reader, ("criteria",), named), tuple(reader.problems)


def _reader_of_list(name: str, given: Sequence[object], where: str) -> Reader:
    return Reader(Document(where, {name: cast(JsonValue, given)}))


def evaluator_problems(config: EvaluatorConfig) -> Iterator[Problem]:
    """Yield the problems of an evaluator's common fields; its settings are read with `read_settings`."""
    reader = Reader(Document(f"evaluator {config.name!r}", cast(JsonValue, as_written(config, EvaluatorConfig))))
    model = reader.read(EvaluatorModel)
    if model is not None:
        check_common_keys(reader, (), model)
    yield from reader.problems
