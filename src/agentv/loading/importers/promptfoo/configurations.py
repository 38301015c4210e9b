"""Configurations of promptfoo as eval files with their targets."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.importers.generations import is_agentv_suite
from agentv.loading.importers.located import Converted, Located, Losses, open_located, require
from agentv.loading.importers.promptfoo.assertions import ASSERTION_SET_KEYS, Assertion, Settings, convert_assertion
from agentv.loading.importers.promptfoo.code import PythonCode, PythonModule, relative_path
from agentv.loading.importers.promptfoo.prompts import Prompt, read_prompts
from agentv.loading.importers.promptfoo.providers import Targets, names_of, provider_entries
from agentv.loading.importers.promptfoo.templates import our_text, variables_of
from agentv.loading.importers.promptfoo.tests import (
    TEST_KEYS,
    Test,
    expanded,
    find_tests,
    matches_name,
    report_options,
    scenario_tests,
    tests_in_file,
    with_defaults,
)
from agentv.types.json_value import JsonObject, JsonValue

_PROMPTFOO_KEYS = frozenset({"prompts", "providers", "defaultTest", "scenarios", "evaluateOptions", "redteam"})
_TOP_LEVEL_KEYS = {
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
_RUN_OPTIONS = {
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
_OPTION_ADVICE = "use the options of `agentv run`"


def is_promptfoo(value: JsonValue) -> bool:
    """Return True for the content of a promptfoo configuration.

    `prompts` alone is not enough: our files and AgentV's may have it too.
    """
    if not isinstance(value, Mapping) or is_agentv_suite(value):
        return False
    return bool(_PROMPTFOO_KEYS & value.keys())


class _AnsweringTarget(Struct, frozen=True):
    """A target, with the label and id of the provider that it was made from."""

    name: str
    provider: tuple[str, ...]


class _Suite(Struct):
    """The eval file that is being made."""

    source: Located
    default: Located
    code: PythonCode
    targets: Targets
    prompts: tuple[Prompt, ...]
    answering: tuple["_AnsweringTarget", ...] = ()
    """The targets of the configuration's own providers."""
    cases: list[dict[str, JsonValue]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    vars: dict[str, JsonValue] = field(default_factory=dict)
    """Its variables: the defaults of a dataset, and an empty string for those that some tests lack."""
    needs_default_judge: bool = False


def convert_promptfoo(path: Path, output: Path) -> Converted:
    """Return the eval file that `output` will hold, with its targets and code.

    Raises EvalFileError or ConfigError for a file that cannot be read, is not an object or is outside the project.
    """
    losses = Losses()
    source = open_located(path, losses)
    require(isinstance(source.value, Mapping), path, "it is not an object")
    _drop_unsupported_keys(source)
    folder = output.parent
    stem = re.sub(r"\W", "_", output.stem)
    code = PythonCode(PythonModule(folder, f"{stem}_judges.py"), PythonModule(folder, f"{stem}_targets.py"))
    default = source.get("defaultTest")
    if isinstance(default.value, str):
        default = open_located(default.require_inside(default.folder / default.text().removeprefix("file://")), losses)
    default.drop_unsupported({key: TEST_KEYS[key] for key in TEST_KEYS if key != "description"}, "defaultTest")
    report_options(default.get("options"))
    prompts = read_prompts(source.get("prompts"))
    suite = _Suite(source, default, code, targets=Targets(folder, code), prompts=prompts)
    if not prompts:
        source.get("prompts").drop("no prompt is carried over", "write `input_messages` of the cases")
    providers = source.get("providers") if source.get("providers").value is not None else source.get("targets")
    suite.answering = tuple(
        _AnsweringTarget(name, names_of(entry))
        for entry in provider_entries(providers)
        if (name := suite.targets.add(entry)) is not None
    )
    cases = _add_cases(suite, folder)
    _set_judge(suite)
    top = _top_level(suite, [each.name for each in suite.answering], cases)
    return Converted(
        program="promptfoo",
        suite=top,
        cases=None if isinstance(cases, Mapping) else len(cases),
        targets=suite.targets.listed(),
        code=code.files(),
        losses=tuple(losses.found),
    )


def _drop_unsupported_keys(source: Located) -> None:
    written = json.dumps(source.value, ensure_ascii=False)
    for key, place in source.entries():
        if key not in _TOP_LEVEL_KEYS:
            if f'"#/{key}' not in written:  # a key named in a `$ref` only holds values for reuse
                place.drop(f"`{key}` is not a known key of promptfoo; it is not carried over")
        elif _TOP_LEVEL_KEYS[key] is not None:
            place.drop(f"`{key}` is not carried over", _TOP_LEVEL_KEYS[key])
    for key in ("evaluateOptions", "commandLineOptions"):
        for name, place in source.get(key).entries():
            advice = _RUN_OPTIONS.get(name, _OPTION_ADVICE)
            if advice is not None:
                place.drop(f"`{name}` is not carried over", advice)


def _add_cases(suite: _Suite, folder: Path) -> list[dict[str, JsonValue]] | dict[str, JsonValue]:
    """Return the cases, or the dataset that holds them."""
    sources = find_tests(suite.source.get("tests"))
    scenarios = scenario_tests(suite.source.get("scenarios"))
    listed = [*sources.listed, *scenarios]
    if sources.datasets and not listed:
        files = [relative_path(path, folder) for path, _ in sources.datasets]
        first = next(iter(tests_in_file(*sources.datasets[0])), None)
        columns = tuple(key for key, _ in first.get("vars").entries()) if first is not None else ()
        empty = Located(suite.source.document, suite.source.losses, suite.source.folder, at=("tests",), value={})
        template = _case(suite, with_defaults(empty, suite.default), columns=columns)
        defaults = template.pop("vars", None)
        if isinstance(defaults, Mapping):  # a row has precedence over them, as in promptfoo
            suite.vars.update(defaults)
        return {"file": files[0] if len(files) == 1 else files, "case": template}
    tests = [*listed, *(test for dataset in sources.datasets for test in tests_in_file(*dataset))]
    if not tests:
        tests = [Located(suite.source.document, suite.source.losses, suite.source.folder, at=("prompts",), value={})]
    for test in tests:
        for variant in expanded(with_defaults(test, suite.default)):
            case_id = _id(suite, variant)
            suite.cases.append({"id": case_id, **_case(suite, variant, case_id=case_id)})
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


def _case(
    suite: _Suite, test: Test, *, columns: tuple[str, ...] = (), case_id: str | None = None
) -> dict[str, JsonValue]:
    """Return a case without its id. `columns` are variables that the rows of a dataset give."""
    values = {name: _filled(value, test) for name, value in test.values.items()}
    names = (*values, *columns)
    used = {name for prompt in suite.prompts for name in prompt.variables}
    parts = _CaseParts(suite, test, names)
    evaluators, metadata = _evaluators(parts), parts.metadata
    used |= parts.used_variables
    case: dict[str, JsonValue] = {}
    if values:
        case["vars"] = values
    if len(suite.prompts) == 1:
        case["input_messages"] = _messages(suite.prompts[0], test)
    else:
        for key in ("prefix", "suffix"):
            if test.options.get(key).value is not None:
                test.options.get(key).drop(f"`{key}` is not carried over, as there are several prompts")
    described = {"description": test.description} if test.description else {}
    all_metadata = {**described, **test.metadata, **metadata}
    if all_metadata:
        case["metadata"] = all_metadata
    case["evaluators"] = evaluators
    execution = _execution(parts, case_id)
    if execution:
        case["execution"] = execution
    for name in sorted(used - set(names) - _command_line_variables(suite).keys() - {"_conversation", "env"}):
        suite.vars.setdefault(name, "")
        test.place.drop(f"`{{{{ {name} }}}}` has no value in this test; it is the empty text, as in promptfoo")
    return case


def _execution(parts: "_CaseParts", case_id: str | None) -> dict[str, JsonValue]:
    """Return the options for running one case: its targets and prompts, its trials, and the score that it needs."""
    suite, test = parts.suite, parts.test
    execution: dict[str, JsonValue] = {}
    given = test.output.value
    if given is not None and case_id is None:
        test.output.drop("`providerOutput` for all rows of a table is not carried over", "score it with `agentv score`")
    if given is not None and case_id is not None:
        answer = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        targets: list[JsonValue] | None = [suite.targets.add_given(case_id, answer)]
    else:
        targets = _targets(suite, test)
    if targets is not None:
        execution["targets"] = targets
    chosen = _chosen_prompts(suite, test)
    if chosen is not None:
        execution["prompts"] = chosen
    repeat = test.options.get("repeat").number()
    if repeat is not None:
        execution["trials"] = int(repeat)
    threshold = test.threshold.number()
    if threshold is not None:
        execution["pass_score"] = threshold
    elif parts.has_own_limits:  # `required` decides, not the score
        execution["pass_score"] = 0
    return execution


def _targets(suite: _Suite, test: Test) -> list[JsonValue] | None:
    """Return the targets that answer a test; None if all do."""
    if test.provider.value is not None:
        label, id_ = names_of(test.provider)
        known = [each.name for each in suite.answering if matches_name(label or id_, each.provider)]
        target = known[0] if known else suite.targets.add(test.provider)
        return None if target is None else [target]
    if test.providers.value is None:
        return None
    wanted = [item.text() for item in test.providers.items()]
    found = [each.name for each in suite.answering if any(matches_name(name, each.provider) for name in wanted)]
    if not found:
        test.providers.drop("none of these providers is carried over; all targets answer this case")
        return None
    return None if len(found) == len(suite.answering) else list(found)


def _chosen_prompts(suite: _Suite, test: Test) -> list[JsonValue] | None:
    """Return the ids of the prompts that a test chooses; None if it is sent with all prompts."""
    if test.prompts.value is None:
        return None
    ids = _prompt_ids(suite.prompts)
    wanted = [item.text() for item in test.prompts.items()]
    found = [
        ids[number]
        for number, prompt in enumerate(suite.prompts)
        if any(matches_name(name, (prompt.id or "", ids[number])) for name in wanted)
    ]
    if not found:
        test.prompts.drop("none of these prompts is carried over; this case is sent with all")
        return None
    return None if len(found) == len(suite.prompts) else list(found)


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
        test.place.get("vars").drop("a variable inside a value is not filled in", "write the whole value")
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
            place.drop(f"`{key}` is not carried over: the message has parts")
    return list(messages)


class _CaseParts(Struct):
    """The evaluators made for a case, and the variables that they use."""

    suite: _Suite
    test: Test
    test_variables: tuple[str, ...]
    """The names of all variables of the test."""
    used_variables: set[str] = field(default_factory=set)
    """The names of the variables that evaluators use."""
    metadata: Settings = field(default_factory=dict)
    evaluator_names: set[str] = field(default_factory=set)
    has_own_limits: bool = False
    """True if an evaluator requires a score other than the default."""

    def evaluator(self, source: Located, number: int) -> Settings | None:
        """Return the evaluator of an assertion or set; None if there is none."""
        is_set = source.get("type").text() == "assert-set"
        settings = self._of_set(source, number) if is_set else self._of_assertion(source, number)
        if settings is None:
            return None
        stem = source.get("metric").text() or source.get("type").text()
        if "{{" in stem:
            source.get("metric").drop("a name with variables is not carried over")
            stem = source.get("type").text()
        name, repeat = stem, 1
        while name in self.evaluator_names:
            repeat += 1
            name = f"{stem}-{repeat}"
        self.evaluator_names.add(name)
        weight = source.get("weight").number()
        return {"name": name, **settings, **({} if weight is None else {"weight": weight})}

    def _of_assertion(self, source: Located, number: int) -> Settings | None:
        """Return the evaluator of one assertion; collect the variables and metadata that it needs."""
        assertion = Assertion(
            source,
            source.get("type").text(),
            self.suite.code,
            judge=self.suite.targets.add_judge,
            options=self.test.options,
            test_variables=self.test_variables,
            number=number,
        )
        settings = convert_assertion(assertion)
        self.used_variables |= assertion.variables
        self.metadata |= assertion.metadata
        if settings is not None and assertion.needs_judge and "target" not in settings:
            self.suite.needs_default_judge = True
        if settings is not None and "required" in settings:
            if self.test.threshold.number() is None:
                self.has_own_limits = True
            else:  # only the mean counts
                del settings["required"]
        return settings

    def _of_set(self, source: Located, number: int) -> Settings | None:
        """Return a composite of the assertions of a set; None if none is carried over."""
        source.drop_unsupported(ASSERTION_SET_KEYS, "an assertion set")
        members = [
            member
            for index, item in enumerate(source.get("assert").items(), 1)
            if (member := self.evaluator(item, number * 100 + index)) is not None
        ]
        if not members:
            return None
        if self.test.threshold.number() is not None:  # only the mean counts
            return {"type": "composite", "aggregator": {"type": "weighted_average"}, "evaluators": members}
        threshold = source.get("threshold").number()
        if threshold is None:
            return {"type": "composite", "aggregator": {"type": "all"}, "evaluators": members}
        self.has_own_limits = True
        mean: JsonObject = {"type": "weighted_average"}
        return {"type": "composite", "aggregator": mean, "evaluators": members, "required": threshold}


def _evaluators(parts: _CaseParts) -> list[JsonValue]:
    """Return the evaluators of a test. All of them must pass, unless the test has a threshold."""
    test = parts.test
    found = [parts.evaluator(source, number) for number, source in enumerate(test.assertions, 1)]
    evaluators = [settings for settings in found if settings is not None]
    if test.threshold.number() is None and (len(evaluators) > 1 or parts.has_own_limits):
        evaluators = [
            settings if settings.get("weight") == 0 else {"required": True, **settings} for settings in evaluators
        ]
    if not evaluators:
        reason = "none of its assertions is carried over" if test.assertions else "it has no assertions"
        test.place.drop(f"{reason}: only an empty answer fails here", "add an evaluator")
        evaluators = [{"name": "answered", "type": "length", "min": 1}]
    return list(evaluators)


def _set_judge(suite: _Suite) -> None:
    """Make promptfoo's default model the judge, if an assertion names no other."""
    if not suite.needs_default_judge:
        return
    name = suite.targets.add_default_judge()
    suite.source.get("providers").drop(
        f"no judge is named: promptfoo's default becomes the target {name!r}", "change it in targets.yaml"
    )
    for target in suite.targets.by_name:
        if target not in suite.targets.judges:
            suite.targets.by_name[target]["judge_target"] = name


def _top_level(
    suite: _Suite, answering: Sequence[str], cases: list[dict[str, JsonValue]] | dict[str, JsonValue]
) -> JsonObject:
    """Return the eval file: its own keys, and the cases or the dataset."""
    source = suite.source
    execution: dict[str, JsonValue] = {}
    if len(answering) == 1:
        execution["target"] = answering[0]
    elif answering:
        execution["targets"] = list(answering)
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
    values = {**suite.vars, **_command_line_variables(suite)}
    if values:
        top["vars"] = values
    for _, place in source.get("commandLineOptions").get("var").entries():
        place.drop("the variable is carried over; promptfoo itself takes it only from its command line")
    if execution:
        top["execution"] = execution
    if len(suite.prompts) > 1:
        top["prompts"] = _prompts(suite.prompts)
    return {**top, "evalcases": cases}


def _command_line_variables(suite: _Suite) -> dict[str, JsonValue]:
    """Return the variables of promptfoo's own command line."""
    return {key: place.value for key, place in suite.source.get("commandLineOptions").get("var").entries()}


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
    pairs = zip(_prompt_ids(prompts), prompts, strict=True)
    return [{"id": id_, "messages": list(prompt.messages)} for id_, prompt in pairs]


def _prompt_ids(prompts: Sequence[Prompt]) -> list[str]:
    ids: list[str] = []
    for number, prompt in enumerate(prompts, 1):
        ids.append(prompt.id if prompt.id and prompt.id not in ids else f"prompt-{number}")
    return ids
