"""Every field of every stored and configured object survives each way in and out of it.

A field that is added to a class and forgotten in a reader, a writer or a check is found here.
"""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs
from tests.loading.specs import SPECS
from tests.support.distinct import distinct, fields_with_defaults

from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.plan import make_criteria_plan
from agentv.loading.models.eval_files import CaseExecutionModel, TurnModel
from agentv.loading.models.file_model import key_of, names_of
from agentv.loading.python_values import evaluator_problems
from agentv.loading.suites.suites import load_suite
from agentv.messages.logs.reading import LoggedAnswer, read_logged
from agentv.scoring.keys.identity import evaluator_to_json
from agentv.scoring.results.completion import to_score
from agentv.storage.records.decode import ANSWERS, CASES, EVENTS, LABELS, RESULTS, RUNS
from agentv.storage.records.encode import (
    encodable_answer,
    encodable_case,
    encodable_event,
    encodable_label,
    encodable_result,
    encodable_run,
    export_record,
)
from agentv.storage.records.json_line import encode
from agentv.types.cases import (
    CaseTurn,
    EvalCase,
    EvalSuite,
    EvaluatorConfig,
    EvaluatorLike,
    RubricItem,
    TurnRules,
)
from agentv.types.errors import EvalFileError
from agentv.types.evaluation import EvaluationScore
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.messages import Message
from agentv.types.records.answer import Answer, Partial
from agentv.types.records.label import Label
from agentv.types.records.result import EXPORT_KEYS, CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord
from agentv.types.scales import EvaluationCriteria
from agentv.types.stored import ANSWER_SCHEMA, CASE_SCHEMA, LABEL_SCHEMA, RESULT_SCHEMA, RUN_SCHEMA
from agentv.types.structs import struct_fields
from agentv.types.targets import ResolvedTarget

_MESSAGE = {"role": "tool", "content": "the content"}
_MESSAGES = (distinct(Message, {Message: _MESSAGE}),)
VALID: Mapping[type, Mapping[str, object]] = {
    Message: _MESSAGE,
    Answer: {"schema": ANSWER_SCHEMA, "output_messages": _MESSAGES},
    Partial: {"output_messages": _MESSAGES},
    CaseResult: {"schema": RESULT_SCHEMA, "output_messages": _MESSAGES},
    CaseRecord: {"schema": CASE_SCHEMA, "input_messages": _MESSAGES, "expected_messages": _MESSAGES},
    RunRecord: {"schema": RUN_SCHEMA},
    Label: {"schema": LABEL_SCHEMA},
    ResolvedTarget: {"settings": {"key": "value"}},
}
STORED: Mapping[type[Struct], tuple[Callable[[Any], object], Any]] = {
    Answer: (encodable_answer, ANSWERS),
    CaseResult: (encodable_result, RESULTS),
    CaseRecord: (encodable_case, CASES),
    RunRecord: (encodable_run, RUNS),
    EventRecord: (encodable_event, EVENTS),
    Label: (encodable_label, LABELS),
}


@pytest.mark.parametrize("cls", STORED)
def test_no_field_of_a_stored_object_is_lost_in_its_line(cls: type[Struct]) -> None:
    value = distinct(cls, VALID)
    assert set(fields_with_defaults(value)) <= {"schema"}
    to_line, decoder = STORED[cls]
    read = decoder.of_line(encode(to_line(value)))
    assert structs.asdict(read) == structs.asdict(value)


def test_no_field_of_a_result_is_lost_in_its_export() -> None:
    result = distinct(CaseResult, VALID)
    exported = RESULTS.of_line(encode(export_record(result, include_trace=True)))
    for name, key in zip(CaseResult.__struct_fields__, CaseResult.__struct_encode_fields__, strict=True):
        if key in EXPORT_KEYS and key != "evaluator_results":
            assert getattr(exported, name) == getattr(result, name), name
    several = structs.replace(result, single_form=False)
    exported = RESULTS.of_line(encode(export_record(several, include_trace=True)))
    assert exported.evaluator_results == several.evaluator_results


def test_no_field_of_a_score_of_an_evaluator_is_lost() -> None:
    score = distinct(EvaluationScore, {EvaluationScore: {"status": "unverified", "error": None}})
    assert fields_with_defaults(score) == ["error"]
    assert to_score(score) == score
    failed = distinct(EvaluationScore, {EvaluationScore: {"status": "error"}})
    assert to_score(failed).error == failed.error


IN_WORKERS = (EvalCase, EvaluatorConfig, ResolvedTarget, Answer, CaseResult, CaseRecord)
ECHO = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)))"


def test_no_field_is_lost_on_the_way_to_a_worker_process_and_back() -> None:
    sent = [distinct(cls, VALID) for cls in IN_WORKERS]
    for value in sent:
        assert set(fields_with_defaults(value)) <= {"schema"}
    echoed = subprocess.run([sys.executable, "-c", ECHO], input=pickle.dumps(sent), capture_output=True, check=True)
    assert pickle.loads(echoed.stdout) == sent


ITEM_OF = {
    RubricItem: "rubrics",
    EvaluationCriteria: "criteria",
    CaseTurn: "turns",
    EvaluatorConfig: "evaluators",
}
"""The keys of a case that list objects of these classes."""
KEYS: Mapping[type, Mapping[str, str]] = {
    EvaluatorConfig: {"timeout_s": "timeout_seconds"},
    CaseTurn: {"expected_messages": "expected"},
    TurnRules: {"aggregate": "turn_aggregate", "on_failure": "on_turn_failure", "window": "turn_window"},
    EvalCase: {"timeout_s": "timeout_seconds", "prompt_ids": "prompts"},
    EvalSuite: {
        "timeout_s": "timeout_seconds",
        "evaluator_timeout_s": "evaluator_timeout_seconds",
        "variables": "vars",
    },
}
"""The keys in eval files of fields that have another name there."""
UNWRITTEN: Mapping[type, frozenset[str]] = {
    EvaluatorConfig: frozenset({"settings", "base_dir"}),
    # The loader sets these: the place in the file, and the messages of each prompt of the suite.
    EvalCase: frozenset({"location", "prompt", "prompts", "grader", "evaluator"}),
    EvalSuite: frozenset(
        [
            "path",
            "cases",
            "base_dir",
            "repository_root",
            "sha256",
            "warnings",
            "fills_placeholders",
            "about",
            "dialect",
            "prices",
            "project_workers",
            "scored_sha256",
            "redact",
            "guideline_patterns",
            "evaluator",
            "targets",
            "inline_targets",
            "files",
            "prompts",
        ]
    ),
}
"""Fields that are not a key of an eval file, or exclude another one that is tested here."""
CASE = {"id": "a", "input_messages": [{"role": "user", "content": "hi"}], "expected_outcome": "x"}
UNDER_EXECUTION = frozenset(map(key_of, struct_fields(CaseExecutionModel))) - {"evaluators"}
CONFIGURED: Mapping[type, Mapping[str, object]] = {
    Message: {"role": "assistant", "content": "the content"},
    EvaluationCriteria: {"scale": "numeric", "min": 1.0, "max": 5.0, "labels": ("low", "high")},
    RubricItem: {"scale": "likert5"},
    CaseTurn: {"input": Message("user", "the input"), "expected_messages": (Message("assistant", "the reference"),)},
    EvaluatorConfig: {"type": "contains", "settings": {"value": "x"}, "source": "diff", "criterion": "the name"}
    | {"required": 0.25},
    EvalCase: {"workspace": {"setup": "true"}, "prompt_ids": ("ours",), "targets": ("one",)},
    EvalSuite: {"gates": ("mean >= 0.5",), "workspace": {"setup": "true"}, "judge": "one", "variables": ("city",)}
    | {"cluster": "metadata.session"},
}


def written(value: Any) -> Any:
    """Return a configured object as an eval file writes it."""
    if isinstance(value, tuple):
        return [written(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, Struct):
        return value
    cls, keys = type(value), KEYS.get(type(value), {})
    names = [name for name in cls.__struct_fields__ if name not in UNWRITTEN.get(cls, ())]
    found = {keys.get(name, name): written(getattr(value, name)) for name in names}
    if isinstance(value, CaseTurn):
        found |= {"input": value.input.content, "expected": value.expected_messages[0].content}
    if isinstance(value, EvaluatorConfig):
        found |= value.settings
    return {key: each for key, each in found.items() if each is not None}


def written_case(case: EvalCase) -> dict[str, Any]:
    """Return a case as an eval file writes it, with its options under `execution`."""
    keys = written(case)
    keys |= keys.pop("turn_rules")
    execution = {key: keys.pop(key) for key in list(keys) if key in UNDER_EXECUTION}
    return {**keys, "execution": execution}


def load(folder: Path, suite: Mapping[str, Any]) -> EvalSuite:
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return load_suite(folder / "suite.yaml", specs=SPECS)


def configured_case() -> EvalCase:
    """Return a case in which each field that an eval file can set differs from its default."""
    case = distinct(EvalCase, CONFIGURED)
    assert set(fields_with_defaults(case)) <= UNWRITTEN[EvalCase]
    return case


def placed(evaluators: Iterable[EvaluatorLike] | None, folder: Path) -> tuple[EvaluatorLike, ...]:
    """Return evaluators as read from a file in a folder."""
    return tuple(
        structs.replace(each, base_dir=str(folder)) for each in evaluators or () if isinstance(each, EvaluatorConfig)
    )


def assert_same(read: Struct, given: Struct) -> None:
    """Assert that all fields are equal which an eval file can set."""
    for name in type(given).__struct_fields__:
        if name not in UNWRITTEN.get(type(given), ()):
            assert getattr(read, name) == getattr(given, name), name


def test_no_field_of_a_case_is_lost_in_an_eval_file(tmp_path: Path) -> None:
    case = configured_case()
    other = {"id": case.depends_on[0], "input_messages": [{"role": "user", "content": "hi"}], "expected_outcome": "x"}
    prompts = [{"id": name, "system": "be kind"} for name in case.prompt_ids]
    suite = load(
        tmp_path, {"prompts": prompts, "criteria": [{"name": "the name"}], "evalcases": [written_case(case), other]}
    )
    read = next(each for each in suite.cases if isinstance(each, EvalCase) and each.id == case.id)
    turns = tuple(structs.replace(turn, evaluators=placed(turn.evaluators, tmp_path)) for turn in case.turns)
    assert_same(read, structs.replace(case, evaluators=placed(case.evaluators, tmp_path), turns=turns))


EVALUATOR = distinct(EvaluatorConfig, CONFIGURED)
IN_FILES = frozenset(EvaluatorConfig.__struct_fields__) - UNWRITTEN[EvaluatorConfig]


@pytest.mark.parametrize("given", [written(EVALUATOR), EVALUATOR], ids=["dict", "object"])
def test_no_field_of_an_evaluator_is_lost_in_a_configuration(given: Any) -> None:
    assert not set(fields_with_defaults(EVALUATOR)) - UNWRITTEN[EvaluatorConfig]
    config = EvaluationRunConfig(evaluators=[given], criteria=[{"name": EVALUATOR.criterion}])
    plan = make_criteria_plan(config)
    assert plan.problems == ()
    assert_same(plan.evaluators[0].config, EVALUATOR)


@pytest.mark.parametrize("name", sorted(IN_FILES))
def test_every_field_of_an_evaluator_is_checked_and_counts_in_its_key(name: str) -> None:
    broken = structs.replace(EVALUATOR, **{name: object()})
    key = KEYS[EvaluatorConfig].get(name, name)
    assert {problem.json_path for problem in evaluator_problems(broken)} == {f"$.{key}"}
    plain = EvaluatorConfig("a", "contains")
    changed = structs.replace(plain, **{name: getattr(EVALUATOR, name)})
    assert (evaluator_to_json(changed) != evaluator_to_json(plain)) == (name not in {"timeout_s", "type"})


@pytest.mark.parametrize("as_dicts", [False, True])
def test_no_field_of_a_case_is_lost_between_keywords_or_dicts_and_the_case(as_dicts: bool) -> None:
    case = configured_case()
    fields = {name: getattr(case, name) for name in EvalCase.__struct_fields__}
    if as_dicts:
        lists = ("input_messages", "expected_messages", "rubrics", "criteria")
        fields |= {name: written(fields[name]) for name in lists}
        fields["turns"] = [{**written(turn), "evaluators": turn.evaluators} for turn in case.turns]
    assert structs.asdict(EvalCase(**fields)) == structs.asdict(case)


INPUT = distinct(
    EvaluationInput,
    {
        **CONFIGURED,
        EvaluationInput: {"response": "the answer", "criteria": (EvaluationCriteria("polite", scale="likert5"),)},
    },
)


def test_no_field_of_an_input_is_lost_through_any_door() -> None:
    assert fields_with_defaults(INPUT) == []
    as_json = json.loads(json.dumps(INPUT.to_dict()))
    assert EvaluationInput.from_dict(as_json) == INPUT
    assert EvaluationInput(**as_json) == INPUT
    logged = read_logged(as_json)
    assert isinstance(logged, LoggedAnswer)
    assert logged.given == INPUT


@pytest.mark.parametrize("wrong", [3, -1, True, "", "x", [], [3], {}, {"a": 1}, None, float("inf")], ids=repr)
@pytest.mark.parametrize("name", EvaluationInput.__struct_fields__)
def test_a_value_of_an_input_is_read_or_refused_alike_as_keyword_and_in_a_dict(name: str, wrong: Any) -> None:
    given = {"response": "x", name: wrong}

    def outcome_of(read: Callable[[], EvaluationInput]) -> object:
        try:
            return read()
        except EvalFileError as error:
            return [(each.json_path, each.message, each.allowed) for each in error.problems]

    by_keyword = outcome_of(lambda: EvaluationInput(**given))
    by_dict = outcome_of(lambda: EvaluationInput.from_dict(given))
    if (name, wrong) != ("response", None):  # in a dict, it is a missing key
        assert by_keyword == by_dict


TURNS: tuple[dict[str, Any], ...] = (
    {"input": "one"},
    {"input": {"a": 1}, "expected_output": {"b": 2}},
    {"input": [{"type": "text", "value": "one"}], "outcome": "kind", "rubrics": ["x", {"description": "y"}]},
    {"expected": "x"},
    {"input": "one", "expected": None, "rubrics": None},
    {"input": "one", "expected_outcome": "", "nope": 1},
    {"input": "one", "rubrics": [{"description": "y", "weight": -1}, {"id": "a"}, ""]},
    {"input": "one", "rubrics": [{"id": "a", "description": "x"}, {"id": "a", "description": "y"}]},
    *({"input": "one", key: wrong} for key in names_of(TurnModel).canonical for wrong in (5, "", {"a": 1})),
)


@pytest.mark.parametrize("turn", TURNS, ids=json.dumps)
def test_a_turn_is_read_or_refused_alike_in_files_and_from_python(turn: dict[str, Any], tmp_path: Path) -> None:
    def outcome_of(read: Callable[[], EvalCase], at: str) -> object:
        try:
            return read().turns
        except EvalFileError as error:
            return {(each.json_path.removeprefix(at), each.message, each.allowed) for each in error.problems}

    def from_file() -> EvalCase:
        keys = {"id": "a", "turns": [turn], "evaluators": [{"name": "has", "type": "contains", "value": "x"}]}
        (case,) = load(tmp_path, {"evalcases": [keys]}).cases
        assert isinstance(case, EvalCase)
        return case

    assert outcome_of(lambda: EvalCase("a", turns=[turn]), "$.") == outcome_of(from_file, "$.evalcases[0].")


def test_no_field_of_a_suite_is_lost_in_an_eval_file(tmp_path: Path) -> None:
    suite = distinct(EvalSuite, {**CONFIGURED, EvalSuite: {**CONFIGURED[EvalSuite], "cases": ()}})
    assert set(fields_with_defaults(suite)) <= UNWRITTEN[EvalSuite]
    keys = written(suite)
    keys |= {"vars": dict.fromkeys(suite.variables, "x"), "evalcases": [{**CASE, "metadata": {"session": "a"}}]}
    read = load(tmp_path, keys)
    assert_same(read, structs.replace(suite, evaluators=placed(suite.evaluators, tmp_path)))
