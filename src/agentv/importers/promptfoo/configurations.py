"""Configurations of promptfoo as eval files with their targets."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.importers.agentv.generations import is_agentv_suite
from agentv.importers.located import Converted, Located, Losses, lost_reason, open_located, require
from agentv.importers.promptfoo.assertions import ASSERTION_SET_KEYS, Assertion, Settings, convert_assertion
from agentv.importers.promptfoo.code import VARIABLES_KEY, PromptfooCode, PythonModule, relative_path
from agentv.importers.promptfoo.prompts import Prompt, read_prompts
from agentv.importers.promptfoo.providers import Targets, names_of, provider_entries
from agentv.importers.promptfoo.templates import is_template, our_text, variables_of
from agentv.importers.promptfoo.tests import (
    DEFAULT_KEYS,
    LOSING_KEYS,
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
from agentv.types.messages_json import short_messages

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
_MOST_CASES = 50_000
_LOSING_TOP_LEVEL_KEYS = ("extensions", "redteam")
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
    code: PromptfooCode
    targets: Targets
    prompts: tuple[Prompt, ...]
    answering: tuple["_AnsweringTarget", ...] = ()
    """The targets of the configuration's own providers."""
    cases: list[dict[str, JsonValue]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    stored_outputs: frozenset[str] = frozenset()
    """The variables that hold the answers to other tests in promptfoo."""
    vars: dict[str, JsonValue] = field(default_factory=dict)
    """Its variables: the defaults of a dataset, and an empty string for those that some tests lack."""
    needs_default_judge: bool = False

    @property
    def lost(self) -> tuple[str, ...]:
        """What is lost of all tests."""
        return () if self.source.get("extensions").value is None else (_not_carried_over("extensions"),)


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
    code = PromptfooCode(PythonModule(folder, f"{stem}_judges.py"), PythonModule(folder, f"{stem}_targets.py"))
    default = source.get("defaultTest")
    if isinstance(default.value, str):
        default = open_located(default.require_inside(default.folder / default.text().removeprefix("file://")), losses)
    default.drop_unsupported(DEFAULT_KEYS, "defaultTest", losing=LOSING_KEYS)
    report_options(default.get("options"))
    prompts = read_prompts(source.get("prompts"))
    suite = _Suite(source, default, code, targets=Targets(folder, code), prompts=prompts)
    if not prompts:
        source.get("prompts").lose("there is no prompt", "write `input` of the cases")
        suite.prompts = (Prompt(None, lost=("there is no prompt",)),)
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
        unread=tuple(code.unread),
        losses=tuple(losses.found),
    )


def _drop_unsupported_keys(source: Located) -> None:
    written = json.dumps(source.value, ensure_ascii=False)
    for key, place in source.entries():
        if key not in _TOP_LEVEL_KEYS:
            if f'"#/{key}' not in written:  # a key named in a `$ref` only holds values for reuse
                place.drop(f"`{key}` is not a known key of promptfoo; it is not carried over")
        elif _TOP_LEVEL_KEYS[key] is not None:
            record = place.lose if key in _LOSING_TOP_LEVEL_KEYS else place.drop
            record(_not_carried_over(key), _TOP_LEVEL_KEYS[key])
    for key in ("evaluateOptions", "commandLineOptions"):
        for name, place in source.get(key).entries():
            advice = _RUN_OPTIONS.get(name, _OPTION_ADVICE)
            if advice is not None:
                place.drop(_not_carried_over(name), advice)


def _not_carried_over(key: str) -> str:
    return f"`{key}` is not carried over"


def _add_cases(suite: _Suite, folder: Path) -> list[dict[str, JsonValue]] | dict[str, JsonValue]:
    """Return the cases, or the dataset that holds them. A test that cannot be read is a case with `skip`."""
    losses = suite.source.losses
    before = len(losses.errors)
    sources = find_tests(suite.source.get("tests"))
    scenarios = scenario_tests(suite.source.get("scenarios"))
    unread = [problem.message for problem in losses.errors[before:]]
    if suite.source.get("redteam").value is not None:
        unread.append("the tests of `redteam` are not carried over")
    listed = [*sources.listed, *scenarios]
    if sources.datasets and not listed and not unread:
        return _dataset(suite, sources.datasets, folder)
    tests = [*listed, *(test for dataset in sources.datasets for test in tests_in_file(*dataset))]
    if not tests and not unread:
        tests = [Located(suite.source.document, losses, suite.source.folder, at=("prompts",), value={})]
    suite.stored_outputs = frozenset(
        name for test in (*tests, suite.default) if (name := test.get("options").get("storeOutputAs").text())
    )
    for complete, variants, lost in _expanded_tests(suite, tests):
        for variant in variants:
            case_id = _id(suite, variant.description)
            suite.cases.append({"id": case_id, **_case(suite, variant, case_id=case_id, lost=lost)})
        if not variants and lost:
            suite.cases.append({"id": _id(suite, complete.description), "skip": lost_reason(lost)})
    suite.cases += [{"id": _id(suite, ""), "skip": lost_reason((reason,))} for reason in unread]
    return suite.cases


def _expanded_tests(suite: _Suite, tests: Sequence[Located]) -> list[tuple[Test, list[Test], tuple[str, ...]]]:
    """Return each test, with the tests that its lists of values make, and what of it is lost."""
    losses = suite.source.losses
    found: list[tuple[Test, list[Test], tuple[str, ...]]] = []
    count = 0
    for test in tests:
        before = len(losses.errors)
        complete = with_defaults(test, suite.default)
        variants = expanded(complete)
        count += len(variants)
        too_many = f"its tests expand to more than {_MOST_CASES:,} cases"
        advice = "move the variables to a CSV file and name it under `tests`"
        require(count <= _MOST_CASES, Path(suite.source.document.path), f"{too_many}; {advice}")
        found.append((complete, variants, losses.reasons_since(before)))
    return found


def _dataset(suite: _Suite, tables: Sequence[tuple[Path, Located]], folder: Path) -> dict[str, JsonValue]:
    """Return the dataset of tables that have only variables as columns."""
    files = [relative_path(path, folder) for path, _ in tables]
    first = next(iter(tests_in_file(*tables[0])), None)
    columns = tuple(key for key, _ in first.get("vars").entries()) if first is not None else ()
    empty = Located(suite.source.document, suite.source.losses, suite.source.folder, at=("tests",), value={})
    before = len(suite.source.losses.errors)
    test = with_defaults(empty, suite.default)
    template = _case(suite, test, columns=columns, lost=suite.source.losses.reasons_since(before))
    defaults = template.pop("vars", None)
    if isinstance(defaults, Mapping):  # a row has precedence over them, as in promptfoo
        suite.vars.update(defaults)
    return {"file": files[0] if len(files) == 1 else files, "case": template}


def _id(suite: _Suite, description: str) -> str:
    """Return a unique id, made of the test's description if there is one."""
    stem = re.sub(r"[^\w.]+", "-", description.lower()).strip("-")[:60] or f"test-{len(suite.cases) + 1}"
    name, number = stem, 1
    while name in suite.ids:
        number += 1
        name = f"{stem}-{number}"
    suite.ids.add(name)
    return name


def _case(
    suite: _Suite, test: Test, *, columns: tuple[str, ...] = (), case_id: str | None = None, lost: tuple[str, ...]
) -> dict[str, JsonValue]:
    """Return a case without its id. `columns` are variables that the rows of a dataset give.

    `lost` are the parts of the test that were lost when it was read. A case that cannot be asked or judged has `skip`,
    one that is judged only in part has `incomplete`.
    """
    losses = suite.source.losses
    before = len(losses.errors)
    values = {name: _filled(value, test) for name, value in test.values.items()}
    parts = _CaseParts(suite, test, (*values, *columns))
    execution = _execution(parts, case_id)
    messages = _messages(suite, test)
    unasked = (*lost, *losses.reasons_since(before))
    evaluators = _evaluators(parts)
    case: dict[str, JsonValue] = {}
    if values:
        case["vars"] = values
    if messages:
        case["input"] = short_messages(messages, "user")
    metadata = _metadata(parts)
    if metadata:
        case["metadata"] = metadata
    if evaluators:
        case["evaluators"] = evaluators
    if parts.has_own_limits and "pass_score" not in execution:  # `required` decides, not the score
        execution["pass_score"] = 0
    if execution:
        case["execution"] = execution
    before = len(losses.errors)
    _set_missing_variables(parts)
    lost_of_all = (*suite.lost, *_lost_of_prompts(suite))
    unasked = (*unasked, *losses.reasons_since(before), *lost_of_all, *parts.lost_of_targets)
    return {**case, **_effect_of_losses(parts, unasked)}


def _effect_of_losses(parts: "_CaseParts", unasked: tuple[str, ...]) -> Settings:
    """Return `skip` for a case that cannot be asked, or judged at all, `incomplete` for one judged in part; else {}."""
    if unasked:
        return {"skip": lost_reason(tuple(dict.fromkeys(unasked)))}
    if not parts.lost_assertions:
        return {}
    # With a threshold, the mean of all assertions decides, so that the others alone decide nothing.
    is_undecided = parts.is_all_lost or parts.test.threshold.value is not None
    return {"skip" if is_undecided else "incomplete": lost_reason(tuple(dict.fromkeys(parts.lost_assertions)))}


def _metadata(parts: "_CaseParts") -> Settings:
    """Return the metadata of a case: the test's, what evaluators read there, and the variables for Python providers."""
    test = parts.test
    described = {"description": test.description} if test.description else {}
    metadata: Settings = {**described, **test.metadata, **parts.metadata}
    if parts.suite.code.targets.functions and parts.test_variables:
        metadata[VARIABLES_KEY] = {name: f"{{{{ {name} }}}}" for name in parts.test_variables}
    return metadata


def _set_missing_variables(parts: "_CaseParts") -> None:
    """Give variables without a value the empty text, as promptfoo does; record them."""
    suite, test = parts.suite, parts.test
    used = {name for prompt in suite.prompts for name in prompt.variables} | parts.used_variables
    known = {*parts.test_variables, *_command_line_variables(suite), "_conversation", "env"}
    for name in sorted(used - known):
        suite.vars.setdefault(name, "")
        if name in suite.stored_outputs:
            test.place.lose(f"`{{{{ {name} }}}}` is the answer to another test", "write one case with `turns`")
        else:
            test.place.drop(f"`{{{{ {name} }}}}` has no value in this test; it is the empty text, as in promptfoo")


def _lost_of_prompts(suite: _Suite) -> tuple[str, ...]:
    """Return what is lost of the only prompt; of several prompts, the lost ones have `skip` themselves."""
    return suite.prompts[0].lost if len(suite.prompts) == 1 else ()


def _execution(parts: "_CaseParts", case_id: str | None) -> dict[str, JsonValue]:
    """Return the options for running one case: its targets and prompts, its trials, and the score that it needs."""
    suite, test = parts.suite, parts.test
    execution: dict[str, JsonValue] = {}
    given = test.output.value
    if given is not None and case_id is None:
        test.output.lose("`providerOutput` for all rows of a table is not carried over", "score it with `agentv score`")
    if given is not None and case_id is not None:
        answer = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        targets: list[JsonValue] | None = [suite.targets.add_given(case_id, answer)]
    else:
        targets = _targets(suite, test)
    parts.targets = [each.name for each in suite.answering] if targets is None else list(map(str, targets))
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
        test.providers.lose("none of these providers is carried over")
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
        test.prompts.lose("none of these prompts is carried over")
        return None
    return None if len(found) == len(suite.prompts) else list(found)


def _filled(value: JsonValue, test: Test) -> JsonValue:
    """Return a value in which variables of the same test are filled in, as promptfoo does."""
    if not isinstance(value, str) or not is_template(value):
        return value
    for name in variables_of(value):
        other = test.values.get(name)
        if isinstance(other, str | int | float) and "{{" not in str(other):
            quoted = str(other).replace("\\", r"\\")
            value = re.sub(rf"\{{\{{\s*{re.escape(name)}\s*\}}\}}", quoted, value)
    if is_template(value):
        test.place.get("vars").lose("a variable inside a value is not filled in", "write the whole value")
    return value


def _messages(suite: _Suite, test: Test) -> list[JsonObject]:
    """Return the messages of the only prompt, with the test's prefix and suffix; none if there are several prompts."""
    messages = [dict(message) for message in suite.prompts[0].messages] if len(suite.prompts) == 1 else []
    for key in ("prefix", "suffix"):
        place = test.options.get(key)
        if place.value is None:
            continue
        if not messages:
            place.lose(f"`{key}` is not carried over, as there are several prompts")
            continue
        content = messages[-1]["content"]
        if isinstance(content, str):
            text = our_text(place.text(), place)
            messages[-1]["content"] = f"{text}{content}" if key == "prefix" else f"{content}{text}"
        else:
            place.lose(f"`{key}` is not carried over: the message has parts")
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
    targets: list[str] = field(default_factory=list)
    """The names of the targets that answer the case."""
    lost_assertions: list[str] = field(default_factory=list)
    """The reasons why assertions are lost."""
    is_all_lost: bool = False
    """True if no assertion that counts is left."""

    @property
    def lost_of_targets(self) -> tuple[str, ...]:
        """What is lost of the requests to the targets, and of their answers."""
        return tuple(reason for name in self.targets for reason in self.suite.targets.lost.get(name, ()))

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
            if self.test.threshold.value is None:
                self.has_own_limits = True
            else:
                _let_mean_count(settings)
        return settings

    def _of_set(self, source: Located, number: int) -> Settings | None:
        """Return a composite of the assertions of a set; None if none is carried over.

        A set with a threshold is lost with any of its assertions, as its mean then decides nothing.
        """
        before = len(source.losses.errors)
        source.drop_unsupported(ASSERTION_SET_KEYS, "an assertion set", losing=("config",))
        members = [
            member
            for index, item in enumerate(source.get("assert").items(), 1)
            if (member := self.evaluator(item, number * 100 + index)) is not None
        ]
        threshold = source.get("threshold").number()
        is_lossy = len(source.losses.errors) > before
        if not members or (is_lossy and threshold is not None):
            return None
        if self.test.threshold.number() is not None:  # only the mean counts
            return {"type": "composite", "aggregator": {"type": "weighted_average"}, "evaluators": members}
        if threshold is None:
            return {"type": "composite", "aggregator": {"type": "all"}, "evaluators": members}
        self.has_own_limits = True
        for member in members:
            _let_mean_count(member)
        mean: JsonObject = {"type": "weighted_average"}
        return {"type": "composite", "aggregator": mean, "evaluators": members, "required": threshold}


def _let_mean_count(settings: Settings) -> None:
    """Change an evaluator so that only its score counts. One that may be skipped must still give a score."""
    may_be_skipped = str(settings.get("python")).endswith(":javascript")
    if may_be_skipped:
        settings["required"] = 0
    else:
        settings.pop("required", None)


def _evaluators(parts: _CaseParts) -> list[JsonValue]:
    """Return the evaluators of a test. All of them must pass, unless the test has a threshold.

    The reasons for lost assertions are added to `parts`, except for those with weight 0, which never fail.
    """
    test, losses = parts.test, parts.suite.source.losses
    found: list[Settings] = []
    for number, source in enumerate(test.assertions, 1):
        before = len(losses.errors)
        settings = parts.evaluator(source, number)
        if source.get("weight").value != 0:
            parts.lost_assertions += losses.reasons_since(before)
        if settings is not None:
            found.append(settings)
    evaluators = [_required(settings, parts, is_only=len(found) == 1) for settings in found]
    parts.is_all_lost = all(settings.get("weight") == 0 for settings in evaluators)
    if not test.assertions:
        test.place.drop("it has no assertions: only an empty answer fails here", "add an evaluator")
    if parts.is_all_lost and not parts.lost_assertions:  # those with weight 0 never fail a test
        evaluators = [*evaluators, {"name": "answered", "type": "length", "min": 1}]
    return list(evaluators)


def _required(settings: Settings, parts: _CaseParts, *, is_only: bool) -> Settings:
    """Return an evaluator with `required`, unless it is the only one, has no weight, or the mean of all counts."""
    if settings.get("weight") == 0:
        return {key: value for key, value in settings.items() if key != "required"}
    if parts.test.threshold.value is None and (not is_only or parts.has_own_limits):
        return {"required": True, **settings}
    return settings


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
            suite.targets.by_name[target]["judge"] = name


def _top_level(
    suite: _Suite, answering: Sequence[str], cases: list[dict[str, JsonValue]] | dict[str, JsonValue]
) -> JsonObject:
    """Return the eval file: its own keys, and the cases or the dataset."""
    source = suite.source
    settings: dict[str, JsonValue] = {}
    if len(answering) == 1:
        settings["target"] = answering[0]
    elif answering:
        settings["targets"] = list(answering)
    options = [source.get("evaluateOptions"), source.get("commandLineOptions")]
    for key, ours in (("maxConcurrency", "workers"), ("repeat", "trials"), ("timeoutMs", "timeout_seconds")):
        value = next((number for place in options if (number := place.get(key).number()) is not None), None)
        if value is not None:
            settings[ours] = value / 1000 if key == "timeoutMs" else int(value)
    shared = _shared_evaluators(cases)
    if shared is not None:
        settings["evaluators"] = shared
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
    if len(suite.prompts) > 1:
        top["prompts"] = _prompts(suite.prompts)
    return {**top, **settings, "evalcases": cases}


def _command_line_variables(suite: _Suite) -> dict[str, JsonValue]:
    """Return the variables of promptfoo's own command line."""
    return {key: place.value for key, place in suite.source.get("commandLineOptions").get("var").entries()}


def _shared_evaluators(cases: list[dict[str, JsonValue]] | dict[str, JsonValue]) -> JsonValue:
    """Take the evaluators out of the cases if all that have any have the same; return them, None if they differ."""
    listed = [cases["case"]] if isinstance(cases, dict) else cases
    judged = [case for case in listed if isinstance(case, dict) and "evaluators" in case]
    if not judged or any(case["evaluators"] != judged[0]["evaluators"] for case in judged):
        return None
    shared: JsonValue = judged[0]["evaluators"]
    for case in judged:
        del case["evaluators"]
    return shared


def _prompts(prompts: Sequence[Prompt]) -> list[JsonValue]:
    pairs = zip(_prompt_ids(prompts), prompts, strict=True)
    return [
        {"id": id_, **({"skip": lost_reason(prompt.lost)} if prompt.lost else {"messages": list(prompt.messages)})}
        for id_, prompt in pairs
    ]


def _prompt_ids(prompts: Sequence[Prompt]) -> list[str]:
    ids: list[str] = []
    for number, prompt in enumerate(prompts, 1):
        ids.append(prompt.id if prompt.id and prompt.id not in ids else f"prompt-{number}")
    return ids
