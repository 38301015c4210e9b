"""Configurations of promptfoo as eval files with their targets."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.importers.generations import is_agentv_suite
from agentv.loading.importers.located import Converted, Located, Losses, open_located, require
from agentv.loading.importers.promptfoo_assertions import SET_KEYS, Assertion, Settings, convert_assertion
from agentv.loading.importers.promptfoo_code import PythonCode, PythonModule, relative_path
from agentv.loading.importers.promptfoo_prompts import Prompt, read_prompts
from agentv.loading.importers.promptfoo_providers import Targets, provider_entries
from agentv.loading.importers.promptfoo_templates import our_text, variables_of
from agentv.loading.importers.promptfoo_tests import (
    TEST_KEYS,
    Test,
    expanded,
    find_tests,
    of_scenarios,
    report_options,
    rows_of,
    with_defaults,
)
from agentv.types.json_value import JsonObject, JsonValue

_MARKS = frozenset({"prompts", "providers", "defaultTest", "scenarios", "evaluateOptions", "redteam"})
TOP_KEYS = {
    "description": None,
    "tags": None,
    "prompts": None,
    "providers": None,
    "targets": None,
    "tests": None,
    "scenarios": None,
    "defaultTest": None,
    "evaluateOptions": None,
    "commandLineOptions": None,
    "$schema": None,
    "env": "set these variables in the environment or in .env",
    "outputPath": "use `agentv run -o FILE`",
    "sharing": "use `agentv report RUN -o report.html`, or `--store` for a team",
    "nunjucksFilters": "prepare the values in a dataset's function: evalcases: {file: data.py:rows}",
    "derivedMetrics": "use a gate, or an evaluator of type composite",
    "extensions": "use a python target, or a workspace's setup and teardown",
    "metadata": "use `metadata` of the cases, or `agentv run --tag`",
    "redteam": "attacks are cases like any other; convert the file that `promptfoo redteam generate` writes",
    "writeLatestResults": "runs are always stored",
    "tracing": "tool calls are read from the answer",
}
_RUN_KEYS = {
    "maxConcurrency": None,
    "repeat": None,
    "timeoutMs": None,
    "var": None,
    "description": None,
    "cache": "use `agentv run --cache`",
    "delay": "use `requests_per_minute` of the target",
    "maxEvalTimeMs": "use `timeout` of your CI job; `agentv resume` continues a run",
    "filterRange": "use `agentv run --limit N` or `--case`",
}
_OPTION = "use the options of `agentv run`"


def is_promptfoo(value: JsonValue) -> bool:
    """Return True for the content of a promptfoo configuration. `prompts` alone may be ours or AgentV's as well."""
    if not isinstance(value, Mapping) or is_agentv_suite(value):
        return False
    return bool(_MARKS & value.keys())


class _Suite(Struct):
    """The eval file that is being made."""

    source: Located
    default: Located
    code: PythonCode
    targets: Targets
    prompts: tuple[Prompt, ...]
    cases: list[dict[str, JsonValue]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    vars: dict[str, JsonValue] = field(default_factory=dict)
    """Its variables: the defaults of a dataset, and the empty text for those that some tests lack."""
    needs_default_judge: bool = False


def convert_promptfoo(path: Path, output: Path) -> Converted:
    """Return the eval file that `output` will hold, with its targets and code.

    Raises EvalFileError or ConfigError for a file that cannot be read or has no prompts.
    """
    losses = Losses()
    source = open_located(path, losses)
    require(isinstance(source.value, Mapping), path, "it is not an object")
    _top_keys(source)
    folder = output.parent
    stem = re.sub(r"\W", "_", output.stem)
    code = PythonCode(PythonModule(folder, f"{stem}_judges.py"), PythonModule(folder, f"{stem}_targets.py"))
    default = source.get("defaultTest")
    if isinstance(default.value, str):
        default = open_located(default.inside(default.folder / default.text().removeprefix("file://")), losses)
    default.keep_only({key: TEST_KEYS[key] for key in TEST_KEYS if key != "description"}, "defaultTest")
    report_options(default.get("options"))
    prompts = read_prompts(source.get("prompts"))
    suite = _Suite(source, default, code, Targets(folder, code), prompts)
    if not prompts:
        source.get("prompts").lose("no prompt is carried over", "write `input_messages` of the cases")
    providers = source.get("providers") if source.get("providers").value is not None else source.get("targets")
    answering = [name for entry in provider_entries(providers) if (name := suite.targets.add(entry)) is not None]
    cases = _add_cases(suite, folder)
    _set_judge(suite, answering)
    top = _top(suite, answering, cases)
    return Converted(
        program="promptfoo",
        suite=top,
        cases=None if isinstance(cases, Mapping) else len(cases),
        targets=suite.targets.listed(),
        judges=tuple(sorted(suite.targets.judges)),
        code=code.files(),
        losses=tuple(losses.found),
    )


def _top_keys(source: Located) -> None:
    written = json.dumps(source.value, ensure_ascii=False)
    for key, place in source.entries():
        if key not in TOP_KEYS:
            if f'"#/{key}' not in written:  # a place for values that others refer to
                place.lose(f"`{key}` is not a known key of promptfoo; it is not carried over")
        elif TOP_KEYS[key] is not None:
            place.lose(f"`{key}` is not carried over", TOP_KEYS[key])
    for key in ("evaluateOptions", "commandLineOptions"):
        for name, place in source.get(key).entries():
            advice = _RUN_KEYS.get(name, _OPTION)
            if advice is not None:
                place.lose(f"`{name}` is not carried over", advice)


def _add_cases(suite: _Suite, folder: Path) -> list[dict[str, JsonValue]] | dict[str, JsonValue]:
    """Return the cases, or the dataset that holds them."""
    sources = find_tests(suite.source.get("tests"))
    scenarios = of_scenarios(suite.source.get("scenarios"))
    listed = [*sources.listed, *scenarios]
    if sources.datasets and not listed:
        files = [relative_path(path, folder) for path, _ in sources.datasets]
        first = next(iter(rows_of(*sources.datasets[0])), None)
        columns = tuple(key for key, _ in first.get("vars").entries()) if first is not None else ()
        empty = Located(suite.source.document, suite.source.losses, suite.source.folder, ("tests",), {})
        made = _case(suite, with_defaults(empty, suite.default), columns=columns)
        defaults = made.pop("vars", None)
        if isinstance(defaults, Mapping):  # a row has precedence over them, as in promptfoo
            suite.vars.update(defaults)
        return {"file": files[0] if len(files) == 1 else files, "case": made}
    tests = [*listed, *(test for dataset in sources.datasets for test in rows_of(*dataset))]
    if not tests:
        tests = [Located(suite.source.document, suite.source.losses, suite.source.folder, ("prompts",), {})]
    for test in tests:
        for one in expanded(with_defaults(test, suite.default)):
            suite.cases.append({"id": _id(suite, one), **_case(suite, one)})
    return suite.cases


def _id(suite: _Suite, test: Test) -> str:
    """Return a unique id, made of the description if there is one."""
    stem = re.sub(r"[^\w.]+", "-", test.description.lower()).strip("-")[:60] or f"test-{len(suite.cases) + 1}"
    name, number = stem, 1
    while name in suite.ids:
        number += 1
        name = f"{stem}-{number}"
    suite.ids.add(name)
    return name


def _case(suite: _Suite, test: Test, *, columns: tuple[str, ...] = ()) -> dict[str, JsonValue]:
    """Return a case without its id. `columns` are variables that the rows of a dataset give."""
    values = {name: _filled(value, test) for name, value in test.values.items()}
    names = (*values, *columns)
    used = {name for prompt in suite.prompts for name in prompt.variables}
    parts = _CaseParts(suite, test, names)
    evaluators, metadata = _evaluators(parts), parts.metadata
    used |= parts.used
    made: dict[str, JsonValue] = {}
    if values:
        made["vars"] = values
    if len(suite.prompts) == 1:
        made["input_messages"] = _messages(suite.prompts[0], test)
    elif any(test.options.get(key).value is not None for key in ("prefix", "suffix")):
        for key in ("prefix", "suffix"):
            if test.options.get(key).value is not None:
                test.options.get(key).lose(f"`{key}` is not carried over, as there are several prompts")
    described = {"description": test.description} if test.description else {}
    all_metadata = {**described, **test.metadata, **metadata}
    if all_metadata:
        made["metadata"] = all_metadata
    made["evaluators"] = evaluators
    repeat = test.options.get("repeat").number()
    if repeat is not None:
        made["execution"] = {"trials": int(repeat)}
    for name in sorted(used - set(names) - {"_conversation", "env"}):
        suite.vars.setdefault(name, "")
        test.place.lose(f"`{{{{ {name} }}}}` has no value in this test; it is the empty text, as in promptfoo")
    return made


def _filled(value: JsonValue, test: Test) -> JsonValue:
    """Return a value in which variables of the same test are filled in, as promptfoo does."""
    if not isinstance(value, str) or "{{" not in value:
        return value
    for name in variables_of(value):
        other = test.values.get(name)
        if isinstance(other, str | int | float) and "{{" not in str(other):
            quoted = str(other).replace("\\", r"\\")
            value = re.sub(rf"\{{\{{\s*{re.escape(name)}\s*\}}\}}", quoted, value)
    if "{{" in value:
        test.place.get("vars").lose("a variable inside a value is not filled in", "write the whole value")
    return value


def _messages(prompt: Prompt, test: Test) -> list[JsonValue]:
    """Return the messages of the only prompt, with the test's prefix and suffix."""
    messages = [dict(message) for message in prompt.messages]
    for key in ("prefix", "suffix"):
        place = test.options.get(key)
        if place.value is None:
            continue
        content = messages[-1]["content"]
        if isinstance(content, str):
            text = our_text(place.text(), place)
            messages[-1]["content"] = f"{text}{content}" if key == "prefix" else f"{content}{text}"
        else:
            place.lose(f"`{key}` is not carried over: the message has parts")
    return list(messages)


class _CaseParts(Struct):
    """The evaluators of a case that are being made, and what they need."""

    suite: _Suite
    test: Test
    names: tuple[str, ...]
    """The variables of the test."""
    used: set[str] = field(default_factory=set)
    """The variables that evaluators use."""
    metadata: Settings = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    """The names of the evaluators."""

    def named(self, source: Located, number: int) -> Settings | None:
        """Return the evaluator of an assertion or set; None if there is none."""
        is_set = source.get("type").text() == "assert-set"
        settings = self._of_set(source, number) if is_set else self._of_one(source, number)
        if settings is None:
            return None
        stem = source.get("metric").text() or source.get("type").text()
        if "{{" in stem:
            source.get("metric").lose("a name with variables is not carried over")
            stem = source.get("type").text()
        name, again = stem, 1
        while name in self.taken:
            again += 1
            name = f"{stem}-{again}"
        self.taken.add(name)
        weight = source.get("weight").number()
        return {"name": name, **settings, **({} if weight is None else {"weight": weight})}

    def _of_one(self, source: Located, number: int) -> Settings | None:
        assertion = Assertion(
            source,
            source.get("type").text(),
            self.suite.code,
            self.suite.targets.add_judge,
            self.test.options,
            names=self.names,
            number=number,
        )
        made = convert_assertion(assertion)
        self.used |= assertion.variables
        self.metadata |= assertion.metadata
        if made is not None and assertion.needs_judge and "target" not in made:
            self.suite.needs_default_judge = True
        return made

    def _of_set(self, source: Located, number: int) -> Settings | None:
        source.keep_only(SET_KEYS, "an assertion set")
        members = [
            member
            for index, item in enumerate(source.get("assert").items(), 1)
            if (member := self.named(item, number * 100 + index)) is not None
        ]
        if not members:
            return None
        threshold = source.get("threshold").number()
        aggregator: JsonObject = {"type": "all"}
        if threshold is not None:
            if any("weight" in member for member in members):
                source.get("threshold").lose("the weights in this set are not carried over: members are counted")
            aggregator = {"type": "threshold", "at_least": max(1, math.ceil(threshold * len(members) - 1e-9))}
        return {"type": "composite", "aggregator": aggregator, "evaluators": members}


def _evaluators(parts: _CaseParts) -> list[JsonValue]:
    """Return the evaluators of a test. All of them must pass, unless the test has a threshold."""
    test = parts.test
    found = [parts.named(source, number) for number, source in enumerate(test.assertions, 1)]
    made = [settings for settings in found if settings is not None]
    if test.threshold.value is not None:
        test.threshold.lose("`threshold` of a test is not carried over: the verdict of a case is pass from 0.8",
                            "give evaluators `required`, or use a composite")  # fmt: skip
    elif len(made) > 1:
        made = [settings if settings.get("weight") == 0 else {**settings, "required": True} for settings in made]
    if not made:
        lost = "none of its assertions is carried over" if test.assertions else "it has no assertions"
        test.place.lose(f"{lost}: only an empty answer fails here", "add an evaluator")
        made = [{"name": "answered", "type": "length", "min": 1}]
    return list(made)


def _set_judge(suite: _Suite, answering: Sequence[str]) -> None:
    """Let the model that promptfoo uses judge, if an assertion names no other."""
    if not suite.needs_default_judge:
        return
    name = suite.targets.add_default_judge()
    suite.source.get("providers").lose(
        f"no judge is named: promptfoo's default becomes the target {name!r}", "change it in targets.yaml"
    )
    for target in answering:
        suite.targets.made[target]["judge_target"] = name


def _top(
    suite: _Suite, answering: Sequence[str], cases: list[dict[str, JsonValue]] | dict[str, JsonValue]
) -> JsonObject:
    """Return the eval file: its own keys, and the cases or the dataset."""
    source = suite.source
    execution: dict[str, JsonValue] = {}
    if len(answering) == 1:
        execution["target"] = answering[0]
    options = [source.get("evaluateOptions"), source.get("commandLineOptions")]
    for key, ours in (("maxConcurrency", "workers"), ("repeat", "trials"), ("timeoutMs", "timeout_seconds")):
        value = next((number for place in options if (number := place.get(key).number()) is not None), None)
        if value is not None:
            execution[ours] = value / 1000 if key == "timeoutMs" else int(value)
    shared = _shared_evaluators(cases)
    if shared is not None:
        execution["evaluators"] = shared
    top: dict[str, JsonValue] = {"$schema": "agentv-eval-v2"}
    if source.get("description").text():
        top["description"] = source.get("description").text()
    tags = [f"{key}={value.text()}" for key, value in source.get("tags").entries()]
    if tags:
        top["tags"] = tags
    given = {key: place.value for key, place in source.get("commandLineOptions").get("var").entries()}
    if suite.vars or given:
        top["vars"] = {**suite.vars, **given}
    if execution:
        top["execution"] = execution
    if len(suite.prompts) > 1:
        top["prompts"] = _prompts(suite.prompts)
    return {**top, "evalcases": cases}


def _shared_evaluators(cases: list[dict[str, JsonValue]] | dict[str, JsonValue]) -> JsonValue:
    """Take the evaluators out of the cases if all have the same; return them, None if they differ."""
    listed = [cases["case"]] if isinstance(cases, dict) else cases
    found: list[JsonValue] = [case["evaluators"] for case in listed if isinstance(case, dict)]
    if any(evaluators != found[0] for evaluators in found):
        return None
    for case in listed:
        if isinstance(case, dict):
            del case["evaluators"]
    return found[0]


def _prompts(prompts: Sequence[Prompt]) -> list[JsonValue]:
    ids: set[str] = set()
    made: list[JsonValue] = []
    for number, prompt in enumerate(prompts, 1):
        id_ = prompt.id if prompt.id and prompt.id not in ids else f"prompt-{number}"
        ids.add(id_)
        made.append({"id": id_, "messages": list(prompt.messages)})
    return made
