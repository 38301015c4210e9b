"""Assertions of promptfoo as evaluators."""

import csv
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from agentv.importers.located import Located
from agentv.importers.promptfoo.code import PromptfooCode, relative_path
from agentv.importers.promptfoo.javascript import JAVASCRIPT_SUFFIXES, entry_of_output
from agentv.importers.promptfoo.prompts import is_code, load_value, parsed
from agentv.importers.promptfoo.templates import code_with_variables, our_text, our_value, variables_of
from agentv.loading.files.text import is_file
from agentv.loading.suites.other_evaluators import PROMPTFOO_LOST
from agentv.types.json_value import JsonObject, JsonValue

ASSERTION_KEYS = {
    "type": None,
    "value": None,
    "threshold": None,
    "weight": None,
    "metric": None,
    "provider": None,
    "rubricPrompt": None,
    "config": "put it into `config` of a code_judge",
    "transform": "prepare the text in the target, or in a code_judge",
    "contextTransform": "put the context into a variable",
}
"""The keys of an assertion: None if a key is carried over, else advice."""
_CODE_KEYS = {**ASSERTION_KEYS, "config": None}
"""The keys of an assertion that is code."""
_LOSING_KEYS = ("transform", "contextTransform")
ASSERTION_SET_KEYS = {
    **dict.fromkeys(("type", "assert", "weight", "metric", "threshold")),
    "config": ASSERTION_KEYS["config"],
}
"""The keys of a set of assertions, as in ASSERTION_KEYS."""

Settings: TypeAlias = dict[str, JsonValue]
Judge: TypeAlias = Callable[[Located], str | None]
"""Returns the name of the target made from a judging provider; None if no target can be made."""


class Options(Struct, frozen=True):
    """The options of a test, completed from `defaultTest`."""

    places: tuple[Located, ...]
    """The options of the test, then the defaults."""

    def get(self, key: str) -> Located:
        """Return an option; its value is None if it is not given."""
        found = [place.get(key) for place in self.places]
        return next((place for place in found if place.value is not None), found[0])


class Assertion(Struct):
    """One assertion that is being converted, and the variables and metadata that its evaluators need."""

    source: Located
    type: str
    code: PromptfooCode
    judge: Judge
    options: "Options"
    """The test's options, which name the judge and its prompt for assertions that do not."""
    test_variables: tuple[str, ...] = ()
    """The names of all variables of the test."""
    variables: set[str] = field(default_factory=set)
    """The names of the variables that the assertion's texts use."""
    metadata: Settings = field(default_factory=dict)
    """Entries for the case's metadata: the references and the context that evaluators read there."""
    number: int = 0
    """The position in the test, from 1; for a member of a set, 100 times the set's number plus the position there."""
    needs_judge: bool = False

    @property
    def place(self) -> Located:
        """Where problems are reported: at the value, or at the type if there is no value."""
        value = self.source.get("value")
        return value if value.value is not None else self.source.get("type")

    def drop(self, message: str, advice: str | None = None) -> None:
        """Record that the assertion is carried over, but not exactly."""
        self.place.drop(f"`{self.type}`: {message}", advice)

    def lose(self, message: str, advice: str | None = None) -> None:
        """Record that the assertion is not carried over."""
        self.place.lose(f"`{self.type}`: {message}", advice)

    def value(self) -> JsonValue:
        """Return the value, or the content of the file `file://NAME`, with variables in our syntax.

        The names of its variables are added to `variables`. Return None if there is no value, or if code makes it,
        which is recorded. Raises ConfigError or EvalFileError for a file that cannot be read.
        """
        value = self.source.get("value").value
        if isinstance(value, str) and value.startswith("file://"):
            if is_code(value):
                self.lose(f"a value made by {value} is not carried over", "use a code_judge")
                return None
            value = load_value(value, self.source.get("value"))
        self.variables.update(_variables(value))
        return our_value(value, self.place)

    def text(self) -> str | None:
        """Return a text or number as a string; None for an empty text and any other value, which are recorded."""
        value = self.value()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
            return str(value)
        self.drop_without_text(value)
        return None

    def drop_without_text(self, value: JsonValue) -> None:
        """Record that `value` has no text, unless code makes it, which value() has recorded."""
        is_made_by_code = value is None and self.source.get("value").value is not None
        if not is_made_by_code:
            self.lose("has no text as its value; it is not carried over")

    def texts(self) -> list[JsonValue]:
        """Return the texts, numbers and booleans of a list, or the texts between the commas of a string.

        Double quotes protect a comma. Other values are recorded.
        """
        value = self.value()
        if isinstance(value, str):
            rows = csv.reader(value.splitlines(), skipinitialspace=True)
            found: list[JsonValue] = [part.strip() for row in rows for part in row if part.strip()]
        else:
            listed = value if isinstance(value, list) else []
            found = [item for item in listed if isinstance(item, str | int | float)]
            for item in listed:
                if item not in found:
                    self.lose(f"{json.dumps(item, ensure_ascii=False)} is not a text; it is not carried over")
        if not found:
            self.drop_without_text(value)
        return found

    def threshold(self, default: float) -> float:
        """Return the threshold; `default` if there is none."""
        number = self.source.get("threshold").number()
        return default if number is None else number

    def store_reference(self) -> str | None:
        """Store the value, a text or a list of texts, in the metadata; return its path there.

        Return None if there is no value, and for any other value, which is recorded.
        """
        value = self.value()
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            self.drop_without_text(value)
            return None
        key = f"reference_{self.number}"
        self.metadata[key] = value
        return f"metadata.{key}"


def convert_assertion(assertion: Assertion) -> Settings | None:
    """Return the settings of an evaluator, without its name; None if the assertion is lost, even if only in part."""
    written = assertion.type
    base = written.removeprefix("not-")
    convert = _CONVERTERS.get(base)
    if convert is None:
        reason = PROMPTFOO_LOST.get(base, "is not known; check its spelling")
        assertion.lose(f"is not carried over: {reason}")
        return None
    losses = assertion.source.losses
    before = len(losses.errors)
    known = _CODE_KEYS if base in _CODE_TYPES else ASSERTION_KEYS
    assertion.source.drop_unsupported(known, "an assertion", losing=_LOSING_KEYS)
    for key in ("threshold", "weight"):
        assertion.source.get(key).number()  # records a value that is not a number
    settings = convert(assertion)
    if len(losses.errors) > before:
        return None
    for key in ("provider", "rubricPrompt"):
        place = assertion.source.get(key)
        is_used = assertion.needs_judge or (key == "provider" and base in _EMBEDDING_TYPES)
        if place.value is not None and not is_used:
            place.drop(f"`{key}` has no effect on this assertion")
    if settings is not None and base != written:
        _add_negation(settings)
    return settings


_EMBEDDING_TYPES = ("similar", "similar:cosine")
_CODE_TYPES = ("javascript", "python")


def _add_negation(settings: Settings) -> None:
    if "forbidden" in settings:  # _tools_used has negated them
        return
    config = settings.get("config")
    if settings.get("required") is True and isinstance(config, dict):  # code: it has a verdict besides its score
        config["negate"] = True
    elif settings["type"] == "regex":
        settings["expect"] = "no_match"
    else:
        settings["negate"] = True
        if isinstance(limit := settings.get("required"), int | float):
            settings["required"] = 1 - limit


def _variables(value: JsonValue) -> set[str]:
    """Return the names of the variables in all texts of a value."""
    if isinstance(value, str):
        return set(variables_of(value))
    if isinstance(value, Mapping):
        return {name for item in value.values() for name in _variables(item)}
    return {name for item in value for name in _variables(item)} if isinstance(value, list | tuple) else set()


def _contains(*, ignores_case: bool = False, expect: str | None = None) -> Callable[[Assertion], Settings | None]:
    def make(assertion: Assertion) -> Settings | None:
        value: JsonValue = assertion.texts() if expect else assertion.text()
        if not value:
            return None
        settings: Settings = {"type": "contains", "value": value}
        if expect:
            settings["expect"] = expect
        return {**settings, "case_sensitive": False} if ignores_case else settings

    return make


def _equals(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    if isinstance(value, Mapping | list):
        return {"type": "is_json", "schema": {"const": value}}
    if value is None:
        assertion.drop_without_text(value)
        return None
    return {"type": "equals", "value": value}


def _starts_with(assertion: Assertion) -> Settings | None:
    text = assertion.text()
    return None if text is None else {"type": "starts_with", "value": text}


def _regex(assertion: Assertion) -> Settings | None:
    text = assertion.text()
    return None if text is None else {"type": "regex", "pattern": text}


def _json(*, inside: bool) -> Callable[[Assertion], Settings | None]:
    def make(assertion: Assertion) -> Settings | None:
        schema = assertion.value()
        if isinstance(schema, str):
            schema = parsed(schema)
        settings: Settings = {"type": "is_json"}
        if inside:
            settings["inside"] = True
        if isinstance(schema, Mapping):
            settings["schema"] = schema
        elif assertion.source.get("value").value is not None:
            assertion.lose("its schema is not carried over: it is not an object")
        return settings

    return make


def _word_count(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    bounds = {key: value[key] for key in ("min", "max") if key in value} if isinstance(value, Mapping) else {}
    exact = None if bounds else assertion.source.get("value").number()
    if exact is not None:
        bounds = {"min": int(exact), "max": int(exact)}
    if not bounds:
        assertion.lose("is not carried over: its value is neither a number nor {min, max}")
        return None
    return {"type": "length", "unit": "words", **bounds}


def _trace_bound(key: str) -> Callable[[Assertion], Settings | None]:
    def make(assertion: Assertion) -> Settings | None:
        limit = assertion.source.get("threshold").number()
        if limit is None:
            assertion.lose("is not carried over: it has no `threshold`")
            return None
        return {"type": "trace", key: limit}

    return make


def _similarity(
    algorithm: str, default_threshold: float, difference: str | None = None
) -> Callable[[Assertion], Settings | None]:
    def make(assertion: Assertion) -> Settings | None:
        reference = assertion.store_reference()
        if reference is None:
            return None
        if difference:
            assertion.drop(difference)
        threshold = assertion.threshold(default_threshold)
        return _similarity_settings("lexical_similarity", reference, threshold, algorithm=algorithm)

    return make


def _similarity_settings(type_: str, reference: str, threshold: float, **more: JsonValue) -> Settings:
    return {"type": type_, **more, "reference": reference, "threshold": threshold}


def _levenshtein(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    texts = _as_list(value)
    if not texts or not all(isinstance(text, str) for text in texts):
        assertion.drop_without_text(value)
        return None
    name = assertion.code.judge_of_edits(assertion.threshold(5))
    return {"type": "code_judge", "python": name, "config": {"expected": texts}}


def _similar(assertion: Assertion) -> Settings | None:
    """Return a comparison of embeddings by the model that the assertion or the options name, else by OpenAI's."""
    reference = assertion.store_reference()
    if reference is None:
        return None
    provider = next((place for place in _provider_places(assertion) if place.value is not None), None)
    model: JsonValue = {
        "provider": "openai",
        "model": "text-embedding-3-large",
        "api_key": "${{ OPENAI_API_KEY }}",
    }
    if provider is not None:
        name = assertion.judge(provider.get("embedding") if provider.get("embedding").value is not None else provider)
        model = name if name is not None else model
    return _similarity_settings("semantic_similarity", reference, assertion.threshold(0.75), model=model)


def _provider_places(assertion: Assertion) -> tuple[Located, ...]:
    return assertion.source.get("provider"), assertion.options.get("provider")


def _rubric(requirement: str = "{}") -> Callable[[Assertion], Settings | None]:
    """Return a converter to a rubric with one requirement for each text of the value.

    Each requirement is `requirement` with the text in place of `{}`.
    """

    def make(assertion: Assertion) -> Settings | None:
        value = assertion.value()
        if not value:
            assertion.lose("is not carried over: it has no value")
            return None
        listed = value if isinstance(value, list) else [value]
        texts = [item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in listed]
        return _rubric_settings(assertion, [requirement.replace("{}", text) for text in texts])

    return make


def _rubric_settings(assertion: Assertion, requirements: list[str], **more: JsonValue) -> Settings:
    """Return the settings of a rubric, or of an llm_judge if the assertion or the options have a judge prompt."""
    assertion.needs_judge = True
    threshold = assertion.source.get("threshold")
    if threshold.value is not None:
        threshold.drop("a requirement is met or not met here; the threshold has no effect",
                       "for a score from 1 to 5, set `scale: likert5` on the requirement")  # fmt: skip
    settings: Settings = {"type": "rubric", "rubrics": requirements, **more}
    prompt = next((place for place in _prompt_places(assertion) if place.value is not None), None)
    if prompt is not None:
        text = _judge_prompt(prompt, requirements, assertion)
        settings = {"type": "llm_judge", "prompt": text, **more}
    return {**settings, **_judging_target(assertion)}


def _prompt_places(assertion: Assertion) -> tuple[Located, ...]:
    return assertion.source.get("rubricPrompt"), assertion.options.get("rubricPrompt")


def _judge_prompt(place: Located, requirements: list[str], assertion: Assertion) -> str:
    """Return a judge prompt of promptfoo as one text, in which the requirements replace `{{ rubric }}`.

    `{{ output }}` becomes `{{ candidate_answer }}`, which is added at the end of a prompt without it. A variable of the
    test, such as `{{ x }}`, becomes `{{ vars.x }}`.
    """
    value = place.value
    if isinstance(value, str) and value.startswith("file://"):
        value = load_value(value, place)
    chat = parsed(value) if isinstance(value, str) else value
    text = str(value)
    if isinstance(chat, list) and chat:
        text = "\n\n".join(str(item.get("content") if isinstance(item, Mapping) else item) for item in chat)
    place.drop("the judge gets its instructions as one text, and the form of the reply is agentv's own")
    names = set(variables_of(text)) - {"output", "rubric", "criteria"}
    assertion.variables.update(names)
    text = our_text(text, place).replace("{{ rubric }}", "\n".join(requirements))
    text = re.sub(r"\{\{ (\w+)", lambda match: f"{{{{ vars.{match[1]}" if match[1] in names else match[0], text)
    text = text.replace("{{ output }}", "{{ candidate_answer }}")
    return text if "{{ candidate_answer }}" in text else f"{text}\n\n{{{{ candidate_answer }}}}"


def _faithfulness(assertion: Assertion) -> Settings:
    assertion.drop("becomes faithfulness: one call of the judge, with a prompt of ours")
    return {**_ready_made_judge(assertion, "faithfulness"), **_sources(assertion)}


def _answer_relevance(assertion: Assertion) -> Settings:
    assertion.drop("becomes answer_relevance: a model judges the answer; no questions are generated and compared")
    return _ready_made_judge(assertion, "answer_relevance")


def _context_recall(assertion: Assertion) -> Settings | None:
    reference = assertion.store_reference()
    if reference is None:
        if assertion.source.get("value").value is None:
            assertion.lose("is not carried over: it has no value")
        return None
    assertion.drop("becomes context_recall: statement by statement in one call, with a prompt of ours")
    settings = _ready_made_judge(assertion, "context_recall")
    return {**settings, **_sources(assertion, default="prompt"), "reference": reference}


def _context_precision(assertion: Assertion) -> Settings:
    assertion.drop("becomes context_precision: the share of useful passages, not of sentences")
    return {**_ready_made_judge(assertion, "context_precision"), **_sources(assertion)}


def _ready_made_judge(assertion: Assertion, kind: str) -> Settings:
    """Return the settings of a ready-made judge, which requires a score of at least the threshold, by default 0."""
    assertion.needs_judge = True
    for place in _prompt_places(assertion):
        if place.value is not None:
            place.drop(f"the prompt of {kind} is agentv's own", "write it as the `prompt` of an llm_judge")
    if "query" in assertion.test_variables and kind != "context_recall":
        assertion.drop("the question is the whole prompt, not the variable `query`")
    return {"type": kind, "required": assertion.threshold(0), **_judging_target(assertion)}


def _sources(assertion: Assertion, *, default: str | None = None) -> Settings:
    """Return the setting that says where the context is: in the variable `context`, else in `default`.

    The variable is stored in the case's metadata. Without variable and default, the evaluator uses tool results.
    """
    if "context" in assertion.test_variables:
        assertion.variables.add("context")
        assertion.metadata[_CONTEXT_KEY] = "{{ context }}"
        return {"sources": f"metadata.{_CONTEXT_KEY}"}
    if default is None:
        assertion.drop("there is no variable `context`: the sources are the results of the tool calls")
        return {}
    return {"sources": default}


_CONTEXT_KEY = "assertion_context"
"""The entry of a case's metadata for its variable `context`."""


def _judging_target(assertion: Assertion) -> Settings:
    """Return the `target` that the assertion or the options name as judge; {} for the default judge."""
    provider = next((place for place in _provider_places(assertion) if place.value is not None), None)
    if provider is None:
        return {}
    chosen = provider.get("text") if provider.get("text").value is not None else provider
    target = assertion.judge(chosen)
    return {} if target is None else {"target": target}


def _goal(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    goal = value.get("goal") if isinstance(value, Mapping) else value
    if not isinstance(goal, str):
        assertion.lose("is not carried over: it has no goal")
        return None
    return _rubric_settings(assertion, [f"The agent reached this goal: {goal}"], include_trace=True)


def _refusal(assertion: Assertion) -> Settings:
    assertion.drop("becomes a pattern of common English refusals")
    pattern = r"(?i)\bI(?:'m| am) (?:sorry|unable|not able)|\bI (?:can(?:'t|not| not)|won't|must decline)|\bas an AI\b"
    return {"type": "regex", "pattern": pattern}


def _tools_used(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    if isinstance(value, Mapping):
        name = value.get("name") or value.get("pattern")
        if not isinstance(name, str):
            assertion.lose("is not carried over: it names no tool")
            return None
        settings: Settings = {"type": "tool_trajectory", "mode": "any_order", "minimums": {name: value.get("min", 1)}}
        return {**settings, "maximums": {name: value["max"]}} if "max" in value else settings
    names = [item.get("name") if isinstance(item, Mapping) else item for item in _as_list(value)]
    named = [name for name in names if isinstance(name, str) and name]
    if not named or len(named) < len(names):
        assertion.lose("is not carried over: it names no tool")
        return None
    if assertion.type.startswith("not-"):  # none may be called; `negate` would only forbid calling all
        return {"type": "tool_trajectory", "mode": "any_order", "forbidden": named}
    return {"type": "tool_trajectory", "mode": "any_order", "minimums": dict.fromkeys(named, 1)}


def _as_list(value: JsonValue) -> list[JsonValue]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _tool_sequence(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    steps = value.get("steps") if isinstance(value, Mapping) else value
    mode = value.get("mode", "in_order") if isinstance(value, Mapping) else "in_order"
    expected: list[JsonValue] = []
    for step in _as_list(steps):
        name = (step.get("name") or step.get("pattern")) if isinstance(step, Mapping) else step
        if not isinstance(name, str) or not name:
            assertion.lose("is not carried over: a step names no tool")
            return None
        expected.append({"tool": name})
    if not expected:
        assertion.lose("is not carried over: it has no steps")
        return None
    return {"type": "tool_trajectory", "mode": "exact" if mode == "exact" else "in_order", "expected": expected}


def _tool_args(assertion: Assertion) -> Settings | None:
    value = assertion.value()
    name = (value.get("name") or value.get("pattern")) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str):
        assertion.lose("is not carried over: it names no tool")
        return None
    for key in ("ignore", "defaults"):
        if key in value:
            assertion.drop(f"`{key}` of the arguments is not carried over", "list the arguments that matter under args")
    args = value.get("args") or {}
    is_exact = value.get("mode") == "exact"
    call: JsonObject = {"tool": name, "input": args, "args": "exact"} if is_exact else {"tool": name, "args": args}
    return {"type": "tool_trajectory", "mode": "in_order", "expected": [call]}


def _step_count(assertion: Assertion) -> Settings | None:
    """Return a limit on the number of steps, or on the calls of one tool; None for others, which are recorded."""
    value = assertion.value()
    if isinstance(value, Mapping) and "max" in value and value.keys() <= {"max", "type"}:
        if value.get("type") in (None, "tool"):
            if value.get("type") is None:
                assertion.drop("only tool calls are counted here")
            return {"type": "trace", "max_tool_calls": value["max"]}
        return {"type": "trace", "max_model_steps": value["max"]}
    if isinstance(value, Mapping) and isinstance(name := value.get("name") or value.get("pattern"), str):
        settings: Settings = {"type": "tool_trajectory", "mode": "any_order"}
        settings.update({ours: {name: value[key]} for key, ours in _LIMITS_OF_CALLS.items() if key in value})
        return settings
    advice = "use trace with max_tool_calls or max_model_steps, or tool_trajectory with minimums"
    assertion.lose("is not carried over", advice)
    return None


_LIMITS_OF_CALLS = {"min": "minimums", "max": "maximums"}
"""Our setting for each key of a `trajectory:step-count`."""


def _tool_f1(assertion: Assertion) -> Settings | None:
    names = assertion.texts()
    if not names or assertion.threshold(1) != 1:
        assertion.lose("is not carried over: it needs tool names and the threshold 1", "use tool_trajectory")
        return None
    assertion.drop("a tool that is called twice does not match here")
    return {"type": "tool_trajectory", "mode": "unordered", "expected": [{"tool": name} for name in names]}


def _length_rule(operator: str, length: int) -> Settings:
    if operator.startswith("<"):
        return {"type": "length", "max": length - 1 if operator == "<" else length}
    return {"type": "length", "min": length + 1 if operator == ">" else length}


_QUOTED = r"""(?:'([^'\\]*)'|"([^"\\]*)")"""
# A text without capitals and variables: in JavaScript, `output.toLowerCase()` never equals one with capitals.
_QUOTED_LOWER = r"""(?:'([^'\\A-Z{]*)'|"([^"\\A-Z{]*)")"""
_LOWERED = r"output(?:\.trim\(\))?\.toLowerCase\(\)(?:\.trim\(\))?"
_JAVASCRIPT_RULES: tuple[tuple[re.Pattern[str], Callable[[str, re.Match[str]], Settings]], ...] = (
    (re.compile(rf"output\.includes\({_QUOTED}\)"), lambda text, _: {"type": "contains", "value": text}),
    (
        re.compile(rf"output\.toLowerCase\(\)\.includes\({_QUOTED}\)"),
        lambda text, _: {"type": "contains", "value": text, "case_sensitive": False},
    ),
    (re.compile(rf"output\.startsWith\({_QUOTED}\)"), lambda text, _: {"type": "starts_with", "value": text}),
    (re.compile(rf"output\.endsWith\({_QUOTED}\)"), lambda text, _: {"type": "ends_with", "value": text}),
    (re.compile(rf"output(?:\.trim\(\))?\s*===?\s*{_QUOTED}"), lambda text, _: {"type": "equals", "value": text}),
    (
        re.compile(rf"{_LOWERED}\s*===?\s*{_QUOTED_LOWER}"),
        lambda text, _: {"type": "equals", "value": text, "ignore": "case"},
    ),
    (
        re.compile(rf"{_LOWERED}\.startsWith\({_QUOTED_LOWER}\)"),
        lambda text, _: {"type": "starts_with", "value": text, "ignore": "case"},
    ),
    (
        re.compile(rf"{_LOWERED}\.endsWith\({_QUOTED_LOWER}\)"),
        lambda text, _: {"type": "ends_with", "value": text, "ignore": "case"},
    ),
    (
        re.compile(r"output\.length\s*(<=|<|>=|>)\s*(\d+)"),
        lambda _, match: _length_rule(match[1], int(match[2])),
    ),
)
"""JavaScript that is carried over, with the function that makes the settings from its quoted text and the match."""


def _javascript(assertion: Assertion) -> Settings | None:
    """Return a rule for one of the commonest expressions, else a code judge that runs the code with node."""
    written = assertion.source.get("value").text()
    if written.startswith("file://"):
        return _javascript_of_file(assertion)
    rule = written.strip().rstrip(";").removeprefix("return ")
    for pattern, convert in _JAVASCRIPT_RULES:
        match = pattern.fullmatch(rule)
        if match:
            quoted = match[1] if match[1] is not None else match[2]
            assertion.variables.update(variables_of(quoted or ""))
            return convert(our_text(quoted or "", assertion.place), match)
    code = _code(assertion, written, 'String(context.vars.NAME ?? "")', advice="write context.vars.NAME")
    if code is None:
        return None
    if code.startswith("package:"):
        assertion.lose("is not carried over: its code is in a package", "call the package in a file")
        return None
    entry = entry_of_output(code)
    if entry is not None:
        assertion.lose(f"is not carried over: it reads {entry!r} of the output, which is a text here",
                       "parse the text: JSON.parse(output)")  # fmt: skip
        return None
    return _code_judge(assertion, assertion.code.judge_of_javascript("JavaScript in assertions"), code=code)


def _code(assertion: Assertion, written: str, expression: str, *, advice: str) -> str | None:
    """Return inline code with an expression for each quoted variable; None if there is none, which is recorded."""
    if not written.strip():
        assertion.lose("is not carried over: it has no code")
        return None
    code = code_with_variables(written, expression)
    if code is None:
        assertion.lose("is not carried over: its code is made by a template", advice)
    else:
        assertion.variables.update(variables_of(written))
    return code


def _javascript_of_file(assertion: Assertion) -> Settings | None:
    path, function = _named_function(assertion)
    if path.suffix not in JAVASCRIPT_SUFFIXES:
        assertion.lose(f"{path.name} is not a JavaScript file that node runs; it is not carried over")
        return None
    if not _exists(assertion, path):
        return None
    file = relative_path(path, assertion.code.judges.folder)
    more: Settings = {"function": function} if function else {}
    return _code_judge(assertion, assertion.code.judge_of_javascript(path.name), file=file, **more)


def _named_function(assertion: Assertion) -> tuple[Path, str]:
    """Return the path in `file://PATH:FUNCTION`, and the name of the function, "" without one."""
    name, _, function = assertion.source.get("value").text().removeprefix("file://").partition(":")
    return assertion.source.require_inside(assertion.source.folder / name), function


def _exists(assertion: Assertion, path: Path) -> bool:
    """Return True if a file of code exists; record a missing one."""
    if not is_file(path):
        assertion.lose(f"is not carried over: the file {path.name} does not exist")
    return is_file(path)


def _code_judge(assertion: Assertion, name: str, **more: JsonValue) -> Settings:
    """Return a code judge, which gets the test's variables, and decides by its verdict, not by its score."""
    config: Settings = {**more, "vars": {name: f"{{{{ {name} }}}}" for name in assertion.test_variables}}
    threshold = assertion.source.get("threshold").number()
    if threshold is not None:
        config["threshold"] = threshold
    if assertion.source.get("config").value is not None:
        config["config"] = our_value(assertion.source.get("config").value, assertion.source.get("config"))
    return {"type": "code_judge", "python": name, "required": True, "config": config}


def _python(assertion: Assertion) -> Settings | None:
    written = assertion.source.get("value").text()
    if not written.startswith("file://"):
        expression = "str(context['vars'].get('NAME', ''))"
        code = _code(assertion, written, expression, advice="write context['vars']['NAME']")
        return None if code is None else _code_judge(assertion, assertion.code.judge_of_text(code))
    path, function = _named_function(assertion)
    if path.suffix != ".py":
        assertion.lose(f"{path.name} is not a Python file; it is not carried over")
        return None
    if not _exists(assertion, path):
        return None
    return _code_judge(assertion, assertion.code.judge_of_file(path, function or "get_assert"))


_CONVERTERS: Mapping[str, Callable[[Assertion], Settings | None]] = {
    "equals": _equals,
    "contains": _contains(),
    "icontains": _contains(ignores_case=True),
    "contains-any": _contains(expect="any"),
    "contains-all": _contains(expect="all"),
    "icontains-any": _contains(expect="any", ignores_case=True),
    "icontains-all": _contains(expect="all", ignores_case=True),
    "starts-with": _starts_with,
    "regex": _regex,
    "is-json": _json(inside=False),
    "contains-json": _json(inside=True),
    "word-count": _word_count,
    "cost": _trace_bound("max_cost_usd"),
    "latency": _trace_bound("max_duration_ms"),
    "levenshtein": _levenshtein,
    "bleu": _similarity("bleu", 0.5),
    "rouge-n": _similarity("rouge_l", 0.75, "becomes rouge_l, which also counts the order of the words"),
    "similar": _similar,
    "similar:cosine": _similar,
    "llm-rubric": _rubric(),
    "g-eval": _rubric(),
    "model-graded-closedqa": _rubric(),
    "factuality": _rubric("The answer states the same facts as this reference, and contradicts none of them:\n{}"),
    "model-graded-factuality": _rubric(
        "The answer states the same facts as this reference, and contradicts none of them:\n{}"
    ),
    "answer-relevance": _answer_relevance,
    "context-faithfulness": _faithfulness,
    "context-recall": _context_recall,
    "context-relevance": _context_precision,
    "is-refusal": _refusal,
    "javascript": _javascript,
    "python": _python,
    "tool-call-f1": _tool_f1,
    "trajectory:tool-used": _tools_used,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:tool-args-match": _tool_args,
    "trajectory:step-count": _step_count,
    "trajectory:goal-success": _goal,
}
"""The converter of each type of assertion that has a counterpart."""

ASSERTION_TYPES = frozenset(_CONVERTERS) | frozenset(PROMPTFOO_LOST) | {"assert-set"}
"""All types of assertions that promptfoo 0.121 knows, without `not-`."""
