import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.judging import evaluator_of, make_context

from agentv.evaluators.isolation import PreparedEvaluator, isolated_score
from agentv.evaluators.rules.base import Finding, RuleEvaluator, quoted
from agentv.evaluators.rules.json import fenced_text
from agentv.evaluators.rules.text import count_units
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.failures import Failure

ANSWER = "We will look into it."
NAMED: dict[str, Any] = {"properties": {"name": {}}, "patternProperties": {"^a": {}}}


def judge(type_: str, candidate: str = ANSWER, *, source: str = "response", **settings: Any) -> EvaluationScore:
    output = evaluator_of(type_, source=source, **settings).evaluate(make_context(candidate))
    assert isinstance(output, EvaluationScore)
    return output


@pytest.mark.parametrize(
    ("type_", "settings", "candidate", "hits", "misses"),
    [
        ("contains", {"value": "look"}, ANSWER, ['contains "look"'], []),
        ("contains", {"value": "30 days"}, ANSWER, [], ['expected "30 days", got "We will look into it."']),
        ("contains", {"value": ["30", "look"]}, ANSWER, ['contains "look"'], []),
        ("contains", {"value": ["a1", "b2"]}, ANSWER, [], ['expected any of "a1", "b2", got "We will look into it."']),
        (
            "contains",
            {"value": ["look", "30"], "expect": "all"},
            ANSWER,
            ['contains "look"'],
            ['expected "30", got "We will look into it."'],
        ),
        ("contains", {"value": 42}, "it is 42", ['contains "42"'], []),
        ("contains", {"value": True}, "true", ['contains "true"'], []),
        ("equals", {"value": "4"}, " 4\n", ['equals "4"'], []),
        ("equals", {"value": "4"}, "5", [], ['expected "4", got "5"']),
        ("equals", {"value": ""}, "  ", ['equals ""'], []),
        ("equals", {"value": 4}, "4.0", [], ['expected "4", got "4.0"']),
        ("one_of", {"values": ["yes", "no"]}, "no", ['is "no"'], []),
        ("one_of", {"values": ["yes", "no"]}, "No", [], ['expected one of "yes", "no", got "No"']),
        ("starts_with", {"value": "We"}, "  We go", ['starts with "We"'], []),
        ("starts_with", {"value": "I"}, ANSWER, [], ['expected it to start with "I", got "We will look into it."']),
        ("ends_with", {"value": "it."}, ANSWER + "\n", ['ends with "it."'], []),
        ("ends_with", {"value": "!"}, ANSWER, [], ['expected it to end with "!", got "We will look into it."']),
        ("contains", {"value": " "}, ANSWER, ['contains " "'], []),
        ("contains", {"value": "WE WILL", "case_sensitive": False}, ANSWER, ['contains "WE WILL"'], []),
        ("contains", {"value": "WE"}, ANSWER, [], ['expected "WE", got "We will look into it."']),
        ("equals", {"value": "STRASSE", "case_sensitive": False}, "Straße", ['equals "STRASSE"'], []),
        ("one_of", {"values": ["yes", "no"], "case_sensitive": False}, "No", ['is "no"'], []),
        ("starts_with", {"value": "we", "case_sensitive": False}, ANSWER, ['starts with "we"'], []),
        ("ends_with", {"value": "IT.", "case_sensitive": False}, ANSWER, ['ends with "IT."'], []),
        ("regex", {"pattern": "l(oo)k"}, ANSWER, ['matches "look"'], []),
        ("regex", {"pattern": "^we", "flags": "i"}, ANSWER, ['matches "We"'], []),
        ("regex", {"pattern": r"\d+"}, ANSWER, [], ['expected a match of "\\\\d+", got "We will look into it."']),
        ("regex", {"pattern": "^we", "flags": "giu"}, ANSWER, ['matches "We"'], []),
        ("regex", {"pattern": "sorry", "expect": "no_match"}, ANSWER, ['no match of "sorry"'], []),
        ("regex", {"pattern": "look", "expect": "no_match"}, ANSWER, [], ['expected no match of "look", found "look"']),
        ("length", {"max": 5, "unit": "words"}, ANSWER, ["has 5 words"], []),
        ("length", {"max": 1}, "ab", [], ["expected at most 1 characters, got 2"]),
        ("length", {"min": 3, "unit": "words"}, "one", [], ["expected at least 3 words, got 1"]),
        ("length", {"min": 1, "unit": "words"}, "one", ["has 1 word"], []),
        ("is_json", {}, '{"a": 1}', ["is JSON"], []),
        ("is_json", {}, "[1,]", [], ['expected JSON, got "[1,]": Expecting value: line 1 column 4 (char 3)']),
        ("is_json", {}, "[NaN]", [], ['expected JSON, got "[NaN]": NaN is not JSON']),
        ("is_json", {"fenced": True}, "Here:\n```json\n[1]\n```", ["is JSON"], []),
        ("is_json", {"inside": True}, 'See {"a": 1} there', ["contains a JSON object"], []),
        ("is_json", {"inside": True}, "See {a} [1]", [], ['expected a JSON object inside the text, got "See {a} [1]"']),
        (
            "is_json",
            {"inside": True, "schema": {"required": ["b"]}},
            '{"a": 1} or {"b": 2}',
            ["contains a JSON object that matches the schema"],
            [],
        ),
        (
            "is_json",
            {"inside": True, "schema": {"required": ["b"], "properties": {"a": {"type": "integer"}}}},
            'It is {"a": 1}',
            [],
            ["$: 'b' is a required property"],
        ),
        (
            "is_json",
            {"schema": {"type": "object", "required": ["id"], "properties": {"n": {"type": "integer"}}}},
            '{"n": "x"}',
            [],
            ["$.n: 'x' is not of type 'integer'", "$: 'id' is a required property"],
        ),
        ("is_json", {"schema": {"type": "object"}}, "{}", ["is JSON that matches the schema"], []),
    ],
)
def test_rules_say_what_they_expected_and_what_they_got(
    type_: str, settings: dict[str, Any], candidate: str, hits: list[str], misses: list[str]
) -> None:
    score = judge(type_, candidate, **settings)
    assert list(score.hits) == hits
    assert sorted(score.misses) == sorted(misses)
    assert score.score == (0.0 if misses else 1.0)
    assert score.expected_aspect_count == len(hits) + len(misses)


@pytest.mark.parametrize(
    ("type_", "settings", "message"),
    [
        ("contains", {"value": ""}, "$.value  `value` must not be empty"),
        ("contains", {"value": []}, "$.value  `value` must not be empty"),
        ("starts_with", {"value": " "}, "$.value  `value` must not be empty or blank"),
        ("ends_with", {"value": ["it.", "\n"]}, "$.value  `value` must not be empty or blank"),
        ("one_of", {"values": []}, "$.values  `values` must have at least one text"),
        (
            "regex",
            {"pattern": "("},
            '$.pattern  `pattern` "(" is not a valid regular expression: missing ) at position 1',
        ),
        (
            "regex",
            {"pattern": "(?:a{1000} # )){1000}\n){1000}", "flags": "x"},
            '$.pattern  `pattern` "(?:a{1000} # )){1000}\\n){1000}" is too large: it requires at least 1,000,000',
        ),
        (
            "is_json",
            {"schema": {"properties": {"a": {"pattern": "b{99999999}"}}}},
            "$.schema  `schema` is not a valid JSON Schema: $.properties.a: the pattern 'b{99999999}' is too large",
        ),
        (
            "is_json",
            {"schema": {"patternProperties": {"^(?:b{9999}){9999}$": True}}},
            "$.schema  `schema` is not a valid JSON Schema: $: the pattern '^(?:b{9999}){9999}$' is too large",
        ),
        (
            "regex",
            {"pattern": "a", "flags": "ik"},
            "$.flags  `flags` has 'k', which is not a flag; allowed: i, m, s, x",
        ),
        ("regex", {"pattern": ""}, "$.pattern  `pattern` must not be empty: every text matches the empty pattern"),
        ("length", {}, "`length` needs `min`, `max` or both"),
        ("length", {"min": 2, "max": 1}, "$.min  `min` 2 is larger than `max` 1"),
        ("is_json", {"schema": {"type": "objekt"}}, "$.schema  `schema` is not a valid JSON Schema: $.type: 'objekt'"),
        ("is_json", {"schema": {"typ": "array"}}, "$.schema  `schema` must be a JSON Schema, but 'typ' is not one of"),
        (
            "is_json",
            {"schema": {"propertys": {}}},
            "'propertys' is not one of its keywords; did you mean 'properties'?",
        ),
        (
            "is_json",
            {"schema": {"properties": {"a": {"anyOf": [True, {"minimun": 1}]}}}},
            "$.properties.a.anyOf[1]: 'minimun' is not one of its keywords; did you mean 'minimum'?",
        ),
        ("rule_based", {"rules": ({"type": "json_parse", "schema": {"typ": "array"}},)}, "'typ' is not one of"),
        ("is_json", {"inside": True, "fenced": True}, "$.inside  `inside` and `fenced` cannot be combined"),
        ("contains", {}, "the key 'value' is missing"),
    ],
)
def test_bad_settings_are_refused_before_the_run(type_: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=re.escape(message)):
        evaluator_of(type_, **settings)


LONG = json.dumps({"a": "x" * 100_001})


@pytest.mark.parametrize("schema", [None, {"required": ["a"]}, {"required": ["b"]}])
def test_an_answer_that_is_a_long_object_is_read(schema: dict[str, Any] | None) -> None:
    score = judge("is_json", LONG, inside=True, schema=schema).score
    assert score == judge("is_json", LONG, schema=schema).score


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"See {LONG}", "over 100,000 characters"),
        ("See " + json.dumps({"a": ["x"] * 100_001}), "over 100,000 characters"),
        ('{ "' * 2001 + '{"b": 1}', "after 2,000"),
    ],
)
def test_a_search_for_objects_that_was_given_up_is_no_judgement(text: str, message: str) -> None:
    with pytest.raises(EvaluatorError, match=message):
        judge("is_json", text, inside=True)
    with pytest.raises(EvaluatorError, match=message):
        judge("is_json", '{"a": 1} ' + text, inside=True, schema={"required": ["b"]})
    assert judge("is_json", '{"a": 1} ' + text, inside=True).score == 1.0


def test_long_text_with_braces_but_no_object_is_judged() -> None:
    assert judge("is_json", '{"a": x}\n' + "word " * 100_000, inside=True).score == 0.0


def test_a_rule_looks_where_its_source_says() -> None:
    assert judge("contains", source="metadata.difficulty", value="hard").score == 1.0
    with pytest.raises(EvaluatorError, match="finds nothing"):
        judge("contains", source="context.nothing", value="x")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "out.txt").write_text("done")
    (tmp_path / "secret.txt").write_text("done")
    return folder


def test_a_file_of_the_workspace_is_read_through_a_link_inside_too(workspace: Path) -> None:
    (workspace / "latest").symlink_to("out.txt")
    context = make_context(workspace_path=str(workspace))
    for path in ("files.out.txt", "files.latest"):
        assert evaluator_of("contains", source=path, value="done").evaluate(context).score == 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "path", ["../secret.txt", "link.txt", "folder/secret.txt", "absent.txt", "circle", "pipe", ".", "\0", "x" * 5000]
)
def test_nothing_but_files_of_the_workspace_is_read(workspace: Path, path: str) -> None:
    (workspace / "link.txt").symlink_to(workspace.parent / "secret.txt")
    (workspace / "folder").symlink_to(workspace.parent)
    (workspace / "circle").symlink_to("circle")
    os.mkfifo(workspace / "pipe")
    context = make_context(workspace_path=str(workspace))
    with pytest.raises(EvaluatorError, match="there is no file"):
        evaluator_of("contains", source=f"files.{path}", value="done").evaluate(context)


def test_a_workspace_that_became_a_link_is_not_followed(workspace: Path) -> None:
    workspace.rename(workspace.parent / "moved")
    workspace.symlink_to(workspace.parent)
    with pytest.raises(EvaluatorError, match="there is no file"):
        evaluator_of("contains", source="files.secret.txt", value="done").evaluate(
            make_context(workspace_path=str(workspace))
        )


HARD_PATTERN, HARD_TEXT = "(?:a|aa)+$", "a" * 50 + "!"


def test_a_pattern_cannot_hang_a_run() -> None:
    evaluator = evaluator_of("regex", pattern=HARD_PATTERN)
    assert not evaluator.inline  # type: ignore[attr-defined]  # it must not block the event loop
    started = time.process_time()
    with pytest.raises(EvaluatorError, match="did not finish within 1 s") as caught:
        evaluator.evaluate(make_context(HARD_TEXT))
    assert caught.value.failure.kind == "regex_timeout"
    assert time.process_time() - started < 10


def test_a_pattern_that_recurses_for_ever_is_an_error_of_its_own() -> None:
    with pytest.raises(EvaluatorError, match=r"(needs too much memory|did not finish)") as caught:
        judge("regex", "text", pattern="(?R)")
    assert caught.value.failure.kind == "regex_timeout"


def test_the_standard_matcher_does_not_come_back() -> None:
    naive = f"import re; re.search({HARD_PATTERN!r}, {HARD_TEXT!r})"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", naive], timeout=2, check=False)


def test_a_pattern_in_a_schema_cannot_hang_a_run_either() -> None:
    schema = {"type": "string", "pattern": HARD_PATTERN}
    with pytest.raises(EvaluatorError, match="did not finish") as caught:
        judge("is_json", f'"{HARD_TEXT}"', schema=schema)
    assert caught.value.failure.kind == "regex_timeout"


def test_a_schema_never_fetches_what_it_refers_to() -> None:
    with pytest.raises(EvaluatorError, match="that cannot be resolved"):
        judge("is_json", "{}", schema={"$ref": "https://example.invalid/schema.json"})


def test_a_schema_may_refer_to_its_own_parts_and_use_patterns() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "patternProperties": {"^n": {"$ref": "#/$defs/n"}}}
    assert judge("is_json", '{"n1": 1, "x": "y"}', schema=schema).score == 1.0
    assert judge("is_json", '{"n1": "a"}', schema=schema).misses == ("$.n1: 'a' is not of type 'integer'",)
    assert judge("is_json", '"ab"', schema={"pattern": "^a"}).score == 1.0
    assert judge("is_json", '"b"', schema={"pattern": "^a"}).misses == ("$: 'b' does not match '^a'",)


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
def test_a_pattern_for_keys_cannot_hang_a_run_whatever_stands_before_it(keyword: Any) -> None:
    schema = {keyword: False, "patternProperties": {HARD_PATTERN: {}}}
    evaluator = evaluator_of("is_json", schema=schema)
    started = time.process_time()
    with pytest.raises(EvaluatorError, match="did not finish within 1 s") as caught:
        evaluator.evaluate(make_context(json.dumps({HARD_TEXT: 1})))
    assert caught.value.failure.kind == "regex_timeout"
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("schema", "value", "misses"),
    [
        (
            {"properties": {"a": {}}, "patternProperties": {"^x-": {}}, "additionalProperties": False},
            {"a": 1, "x-b": 2, "c": 3, "d": 4},
            ["$: Additional properties are not allowed ('c', 'd' were unexpected)"],
        ),
        ({"additionalProperties": {"type": "string"}}, {"a": "x", "b": 2}, ["$.b: 2 is not of type 'string'"]),
        (
            {"allOf": [{"$ref": "#/$defs/named"}], "unevaluatedProperties": False, "$defs": {"named": NAMED}},
            {"name": "x", "age": 3, "extra": 1},
            ["$: Unevaluated properties are not allowed ('extra' was unexpected)"],
        ),
        (
            {"if": {"required": ["a"]}, "then": {"properties": {"a": {}}}, "unevaluatedProperties": {"type": "null"}},
            {"a": 1, "b": None},
            [],
        ),
        ({"uniqueItems": True}, [1, True, {"a": 1, "b": 2}, {"b": 2}], []),
        ({"uniqueItems": True}, [1, 1.0], ["$: [1, 1.0] has non-unique elements"]),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], ["$: [{'a': 1}, {'a': 1.0}] has non-unique elements"]),
    ],
)
def test_keywords_of_our_own_say_what_json_schema_says(schema: Any, value: Any, misses: Any) -> None:
    assert list(judge("is_json", json.dumps(value), schema=schema).misses) == misses


def test_ten_thousand_items_are_compared_quickly() -> None:
    started = time.process_time()
    assert judge("is_json", json.dumps([{"a": n} for n in range(10_000)]), schema={"uniqueItems": True}).score == 1.0
    assert time.process_time() - started < 2


def test_a_number_that_a_schema_cannot_hold_is_an_error_of_the_judgement() -> None:
    with pytest.raises(EvaluatorError, match="the schema cannot be applied: OverflowError"):
        judge("is_json", "1e400", schema={"multipleOf": 0.5})


def test_a_schema_with_many_violations_lists_ten() -> None:
    score = judge("is_json", "[" + ",".join(["1"] * 50) + "]", schema={"items": {"type": "string"}})
    assert len(score.misses) == 11
    assert score.misses[-1] == "… and more"


@pytest.mark.parametrize(
    ("type_", "settings"),
    [
        ("contains", {"value": "caf\u00e9"}),
        ("starts_with", {"value": "caf\u00e9", "case_sensitive": False}),
        ("ends_with", {"value": "caf\u00e9"}),
        ("equals", {"value": "caf\u00e9"}),
        ("one_of", {"values": ["tea", "caf\u00e9"]}),
    ],
)
def test_a_letter_with_an_accent_is_one_however_it_is_written(type_: Any, settings: Any) -> None:
    assert judge(type_, "cafe\u0301", **settings).score == 1.0
    assert judge(type_, "cafe", **settings).score == 0.0


@pytest.mark.parametrize(("unit", "count"), [("characters", 14), ("words", 3), ("tokens", 4)])
def test_lengths_are_counted_in_their_unit(unit: Any, count: int) -> None:
    assert count_units("one, two three", unit) == count


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```json\n{}\n```", "{}\n"),
        ("```\n{}\n```", "{}\n"),
        ("```{}```", "{}"),
        ('```{\n"a": 1}```', '{\n"a": 1}'),
        ("no fence", "no fence"),
        ("``` open", "``` open"),
        ("a ```\n1\n``` b ```\n2\n```", "1\n"),
    ],
)
def test_the_first_fence_is_opened(text: str, inside: str) -> None:
    assert fenced_text(text) == inside


def test_long_texts_are_quoted_from_both_ends() -> None:
    shown = quoted("a" * 100 + "\n" + "b" * 100)
    assert shown == '"' + "a" * 60 + " … " + "b" * 60 + '"'


def test_rules_are_plain_functions_that_need_no_event_loop() -> None:
    evaluator = evaluator_of("contains", value="x")
    assert evaluator.inline  # type: ignore[attr-defined]  # quick rules run in place
    assert not inspect.iscoroutinefunction(evaluator.evaluate)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_a_score_of_a_rule_that_is_not_ours_is_held_to_its_types() -> None:
    class Generous(RuleEvaluator):
        def evaluate(self, context: EvaluationContext) -> EvaluationScore:
            return replace(super().evaluate(context), score=2.0)

    rule = Generous("generous", lambda _text: Finding(passed=True))
    config = EvaluatorConfig("generous", "generous")
    score = asyncio.run(isolated_score(PreparedEvaluator(config, lambda: rule), make_context()))
    assert score.error == Failure("judge_error", "the score is off its scale: 2 is outside 0 to 1", stage="evaluator")


def test_a_rule_whose_check_gives_lines_of_another_type_is_checked() -> None:
    rule = RuleEvaluator("odd", lambda _text: Finding(True, "ab"))  # type: ignore[arg-type]
    score = asyncio.run(isolated_score(PreparedEvaluator(EvaluatorConfig("odd", "odd"), lambda: rule), make_context()))
    assert score.error is not None
    assert "hits" in score.error.message
