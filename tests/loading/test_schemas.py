"""JSON Schemas accept exactly what loading accepts."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.loading.specs import SPECS
from tests.loading.wrong_files import WrongFile, wrong_files
from tests.support.stored import RESULT

from agentv.engine.plugins.loading import load_specs
from agentv.importers.agentv.generations import find_generation
from agentv.loading.files.composer import compose
from agentv.loading.schemas import KINDS, json_schema
from agentv.loading.suites.suites import load_suite
from agentv.registry import Specs
from agentv.storage.records.encode import export_record
from agentv.types.cases import RubricItem
from agentv.types.errors import UnknownNameError
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.records.result import EXPORT_KEYS
from agentv.types.scales import EvaluationCriteria

_HERE = Path(__file__).parent
_EXAMPLES = _HERE.parents[1] / "examples"
# A schema cannot check: other files, names of criteria and targets, equal ids, expressions, aliases.
_BEYOND_A_SCHEMA = frozenset(
    {
        "case-file-missing",
        "case-files-missing",
        "case-pattern-matches-nothing",
        "case-id-twice",
        "criteria-unknown-name",
        "criterion-not-listed",
        "evaluator-bad-regex",
        "evaluator-bare-type",
        "evaluator-name-twice",
        "evaluator-script-missing",
        "evaluator-type-with-apostrophe",
        "evaluator-unknown-type",
        "legacy-grader",
        "message-no-content",
        "rubrics-id-twice",
        "settings-twice",
        "single-needs-settings",
        "single-unknown-type",
        "top-gate",
        "turns-options-alone",
        "top-no-cases",
        "top-cases-null",
        "two-lists",
        "workspace-conflicts",
    }
)


def validator(kind: str, specs: Specs) -> Any:
    schema = json_schema(kind, specs)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@cache
def real_validator(kind: str) -> Any:
    """Return the validator of a kind with the plug-ins that are installed; its own check takes half a second."""
    return validator(kind, load_specs())


EVAL, TARGETS = validator("eval", SPECS), validator("targets", SPECS)


def value_of(path: Path) -> JsonValue:
    document, problems = compose(path.read_text(), path.name)
    assert problems == ()
    assert document is not None
    return document.value


def test_a_message_of_calls_alone_may_say_that_it_has_no_content() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"tool": "look"}]}
    case = {"id": "a", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}, message]}
    EVAL.validate({"evalcases": [case]})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_schema_that_is_one(kind: str) -> None:
    real_validator(kind)


def test_an_unknown_kind_is_reported() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown kind of file 'evals'.*Did you mean 'eval'\?"):
        json_schema("evals", SPECS)


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"evaluators": ["a_profile", {"type": "LexicalSimilarity", "config": {"criterionName": "short"}}]}, True),
        ({"evaluatorConfigs": [{"type": "contains", "value": "x"}], "errorPolicy": "zero"}, True),
        ({"evaluators": [{"type": "of_a_plugin", "own": 1}]}, True),
        ({"evaluators": [{"type": "contains"}]}, False),
        ({"evaluators": [{"type": "contains", "value": "x", "valeu": "y"}]}, False),
        ({"evaluators": {"type": "contains"}}, False),
        ({"criteria": [{"nmae": "short"}]}, False),
        ({"error_policy": "ignore"}, False),
        ({"workers": 3}, False),
    ],
)
def test_a_criteria_configuration_has_its_schema(change: dict[str, Any], valid: bool) -> None:
    config = {
        "criteria": ["a_named_one", {"name": "short", "scale": "likert5"}],
        "evaluators": [{"type": "length", "max": 3, "criterion": "short"}],
        "judge": "kind",
        "gates": ["mean >= 0.8"],
    }
    assert real_validator("evaluation").is_valid({**config, **change}) is valid


def test_good_files_are_valid() -> None:
    EVAL.validate(value_of(_HERE / "good" / "evals" / "everything.yaml"))
    EVAL.validate(value_of(_HERE / "good" / "evals" / "lines.yaml"))
    TARGETS.validate(value_of(_HERE / "good" / "targets.yaml"))


def in_our_keys() -> list[Path]:
    """Return the files of the examples, without those of other tools and of an earlier AgentV, which have no schema."""
    others = ("from-others", "job.yaml")
    own = (path for path in sorted(_EXAMPLES.rglob("*.yaml")) if not any(each in path.parts for each in others))
    return [path for path in own if not find_generation(value_of(path)).is_foreign]


@pytest.mark.parametrize("path", in_our_keys(), ids=lambda path: path.relative_to(_EXAMPLES).as_posix())
def test_the_examples_are_valid(path: Path) -> None:
    kind = "targets" if path.name == "targets.yaml" else "config" if path.name == ".agentv.yaml" else "eval"
    real_validator(kind).validate(value_of(path))


def well_formed(folder: str) -> list[WrongFile]:
    names = [wrong for wrong in wrong_files(folder) if not wrong.name.startswith(("syntax", "number"))]
    return [wrong for wrong in names if wrong.name not in _BEYOND_A_SCHEMA and compose(wrong.content, "")[1] == ()]


@pytest.mark.parametrize("wrong", well_formed("wrong_suites"), ids=lambda wrong: wrong.name)
def test_wrong_suites_are_invalid_as_far_as_a_schema_can_tell(wrong: WrongFile) -> None:
    document, _ = compose(wrong.content, "suite.yaml")
    assert document is not None
    assert not EVAL.is_valid(document.value)


def test_what_a_schema_cannot_see_is_refused_by_loading_all_the_same(tmp_path: Path) -> None:
    names = {wrong.name for wrong in wrong_files("wrong_suites")}
    assert names >= _BEYOND_A_SCHEMA
    (tmp_path / "suite.yaml").write_text("evalcases: []\n")
    with pytest.raises(ValueError, match="there are no cases"):
        load_suite(tmp_path / "suite.yaml", specs=SPECS)


def test_a_number_in_a_target_may_be_a_reference() -> None:
    target: dict[str, Any] = {"name": "a", "provider": "mock", "workers": "${{ W }}", "delay_ms": "${{ D }}"}
    TARGETS.validate({"targets": [target]})
    assert not TARGETS.is_valid({"targets": [{**target, "workers": "4"}]})
    assert not TARGETS.is_valid({"targets": [{**target, "respones": "x"}]})


def test_a_provider_or_evaluator_of_a_plug_in_is_valid_whatever_its_keys() -> None:
    TARGETS.validate({"targets": [{"name": "a", "provider": "ours", "anything": 1}]})
    evaluators = [{"name": "a", "type": "ours", "anything": 1}]
    EVAL.validate({"execution": {"evaluators": evaluators}, "evalcases": "*.yaml"})


@pytest.mark.parametrize("kind", ["eval", "evaluation"])
def test_a_value_class_is_described_once(kind: str) -> None:
    schema = json_schema(kind, SPECS)
    for value_class in (RubricItem, EvaluationCriteria, Message, ToolCall):
        found = [part for part in objects_in(schema) if part.get("description") == value_class.__doc__]
        assert len(found) <= 1, value_class
        assert found == [part for name, part in schema["$defs"].items() if name == value_class.__name__]
    references = {part["$ref"].removeprefix("#/$defs/") for part in objects_in(schema) if "$ref" in part}
    assert references <= schema["$defs"].keys()


def objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a schema."""
    if isinstance(schema, dict):
        yield schema
    if isinstance(schema, dict | list):
        for inner in schema.values() if isinstance(schema, dict) else schema:
            yield from objects_in(inner)


def test_settings_are_described() -> None:
    properties = json_schema("eval", SPECS)["$defs"]["contains"]["properties"]
    assert properties["value"]["description"] == "the text to look for"
    assert properties["expect"]["default"] == "any"
    assert properties["type"] == {"enum": ["contains"]}
    assert json_schema("eval", SPECS)["$defs"]["code_judge"]["properties"]["type"] == {"enum": ["code_judge", "code"]}


@pytest.mark.parametrize(("algorithm", "valid"), [("rouge_l", True), ("sorensen-dice", True), ("soundex", False)])
def test_a_value_may_be_spelled_as_others_spell_it(algorithm: str, valid: bool) -> None:
    evaluators = [{"name": "a", "type": "lexical_similarity", "algorithm": algorithm}]
    suite = {"execution": {"evaluators": evaluators}, "evalcases": "*.yaml"}
    assert real_validator("eval").is_valid(suite) is valid


def test_an_exported_row_is_valid_and_every_key_is_described() -> None:
    schema = json_schema("results", SPECS)
    jsonschema.Draft202012Validator(schema).validate(
        json.loads(compact_json(export_record(RESULT, include_trace=True)))
    )
    assert set(EXPORT_KEYS) == set(schema["properties"])
