"""The checks of `agentv check`: eval files, their targets files, and the project's files.

No part of a suite is executed or imported.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.check.equal_prompts import EqualPrompts
from agentv.loading.check.own_judge import own_judges
from agentv.loading.check.slow_judges import slow_judge_note
from agentv.loading.criteria.run_configs import read_run_config
from agentv.loading.files.documents import JsonPath, Key
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.kinds import CASE_KEYS, LINE_SUFFIXES, YAML_SUFFIXES, kind_of_file
from agentv.loading.files.path_guard import guard_for
from agentv.loading.files.places import (
    SkippedFile,
    find_eval_files,
    find_repository_root,
    find_skipped_files,
    find_targets_file,
    listed_and_rest,
    relative_to_cwd,
)
from agentv.loading.files.text import shown
from agentv.loading.models.judges import judge_targets, own_judge_text, settings_with_members
from agentv.loading.models.reader import Reader, in_order
from agentv.loading.models.references import fill, redact_problems
from agentv.loading.models.settings import missing_files
from agentv.loading.project import paths_to_read, read_project
from agentv.loading.suites.evaluators import EvaluatorScope, place_naming_file
from agentv.loading.suites.named_definitions import find_criteria_file, read_named_definitions
from agentv.loading.suites.settings import setting_path
from agentv.loading.suites.short_evaluators import is_rows_file
from agentv.loading.suites.suites import ParsedSuite, merged_problems, read_suite
from agentv.loading.targets.choice import DEFAULT_TARGET, choose_target
from agentv.loading.targets.openai_services import service_advice
from agentv.loading.targets.targets import ParsedTargets, check_target, open_targets, read_targets
from agentv.loading.translation.importers import importers_of
from agentv.registry import Specs, model_spelling, names_model
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.scoring.results.turns import turn_names
from agentv.templating.variables import variable_names
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike, Location, targets_of
from agentv.types.errors import ConfigError, EvalFileError, TargetError, UnknownNameError, nearest
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import message_to_json
from agentv.types.problems import Problem, Severity
from agentv.types.targets import TargetConfig


def check_gate_names(parsed: ParsedSuite, targets: Collection[str] | None) -> Iterator[Problem]:
    """Yield a problem for each gate whose metric is measured for an unknown name, such as `tag(NAME)`.

    `targets` are the names in the targets file, None without one. Two kinds of files are not checked: those with
    errors, and streams, whose cases are read one by one and not held in memory (`cases.count` is None).
    """
    suite = parsed.suite
    has_all_cases = all(problem.severity != "error" for problem in parsed.problems)
    if suite is None or parsed.reader is None or not suite.gates or suite.cases.count is None or not has_all_cases:
        return
    known = _names_by_metric(suite, targets)
    reader = Reader(parsed.reader.document)
    for index, expression in enumerate(suite.gates):
        try:
            gate = parse_gate(expression)
        except ConfigError:  # already reported
            continue
        names = known.get(gate.name)
        if names is not None and gate.argument not in names:
            unknown = UnknownNameError(gate.name, gate.argument or "", known=names)
            reader.error(("gates", index), gate.wrong_argument(str(unknown)).line)
    yield from reader.problems


def _names_by_metric(suite: EvalSuite, targets: Collection[str] | None) -> Mapping[str, Collection[str]]:
    """Return the names that each metric of a gate can be measured for, such as the tags of cases for `tag`."""
    cases = [case for case in suite.cases if isinstance(case, EvalCase)]
    evaluators = [each for case in cases for each in applicable_evaluators(case, suite)[0]]
    known: dict[str, Collection[str]] = {
        "dataset": {suite.dataset},
        "tag": {tag for case in cases for tag in (*suite.tags, *case.tags)},
        "evaluator": {
            *(each.name for each in evaluators if isinstance(each, EvaluatorConfig)),
            *(name for case in cases for name in turn_names(case)),
        },
    }
    return known if targets is None else {**known, "target": targets}


class CheckResult(Struct, frozen=True):
    """The checked files, and all problems in order."""

    files: tuple[Path, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    """Sentences that are no problem: the AgentV version that a file is written for, with the number of its keys without
    meaning here; cases whose evaluators replace those of their file.
    """


def check_paths(
    paths: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    specs: Specs,
    allow_paths: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> CheckResult:
    """Check eval files and the targets and project files that they use; `paths` may name any of these.

    JSON Lines files are read to their end. `allow_paths` are folders outside of the project that files
    named by eval files may lie in. Raises ConfigError for a path that does not exist.
    """
    paths = paths_to_read(paths, cwd=cwd)
    files = find_eval_files(paths, cwd=cwd)
    surroundings = Surroundings(cwd, env, specs, allow_paths=tuple(allow_paths), variables=variables or {})
    notes: list[str] = []
    problems = [problem for file in files for problem in _check_file(file, surroundings, notes)]
    skipped = find_skipped_files(paths, cwd=cwd, found=files)
    return CheckResult(files, (*in_order(problems), *_skipped_problems(skipped, cwd)), tuple(notes))


def _skipped_problems(skipped: Sequence[SkippedFile], cwd: Path) -> Iterator[Problem]:
    """Yield a warning for each skipped file that is listed; the last one counts the rest."""
    listed, more = listed_and_rest(skipped)
    for each in listed:
        rest = f" ({more})" if more and each is listed[-1] else ""
        yield Problem(relative_to_cwd(each.path, cwd), f"skipped: {each.reason}{rest}", severity="warning")


class Surroundings(Struct, frozen=True):
    """The values that all files of one check share."""

    cwd: Path
    env: Mapping[str, str]
    specs: Specs
    allow_paths: tuple[str, ...] = ()
    """Relative to `cwd`."""
    variables: Mapping[str, str] = field(default_factory=dict)


def _rows_problem(path: Path, specs: Specs) -> Problem:
    """Return the problem of a file of rows, which is no eval file, or that of a file of another program."""
    allowed = f"run it with `agentv run {path.name} --evaluator TYPE=VALUE`, or name it in an eval file"
    rows = Problem(shown(path), "a file of rows has no evaluators to check", allowed=allowed)
    return importers_of(specs).find_other_program(path) or rows


def _check_file(path: Path, surroundings: Surroundings, notes: list[str]) -> Iterator[Problem]:
    if is_rows_file(path) and path.suffix not in LINE_SUFFIXES:
        yield _rows_problem(path, surroundings.specs)
        return
    kind = kind_of_file(path) if path.suffix in (*YAML_SUFFIXES, ".json") else "eval"
    if kind == "config":
        yield from _check_project_config(path, surroundings)
    elif kind == "targets":
        root = find_repository_root(path)
        project, _ = read_project(path.parent, root)
        severity = _unknown_name_severity(project.plugins)
        env = load_env(path.resolve().parent, surroundings.env)
        yield from read_targets(
            path, surroundings.specs, env=env, unknown_provider=severity, unset_severity="warning"
        ).problems
    elif kind == "evaluation":
        project, _ = read_project(path.parent, find_repository_root(path))
        yield from _check_run_config(path, surroundings, _unknown_name_severity(project.plugins))
    else:
        yield from _check_suite(path, surroundings, notes)


def _unknown_name_severity(plugins: Sequence[str]) -> Severity:
    """Return the severity of an unknown name: a warning if plug-ins, which are not imported, may define it."""
    return "warning" if plugins else "error"


def _check_project_config(path: Path, surroundings: Surroundings) -> Iterator[Problem]:
    """Check the configuration and the named criteria of the project that has the file `path`."""
    root = find_repository_root(path)
    project, problems = read_project(path.parent, root)
    yield from problems
    guard = guard_for(path.parent, cwd=surroundings.cwd, allow_paths=surroundings.allow_paths)
    severity = _unknown_name_severity(project.plugins)
    scope = EvaluatorScope(surroundings.specs.evaluators, str(path.parent), guard, unknown_type=severity)
    yield from read_named_definitions(find_criteria_file(path.parent, root), scope)[1]


def _check_run_config(path: Path, surroundings: Surroundings, unknown_type: Severity) -> Iterator[Problem]:
    """Check a configuration of `run_evaluation`, and its judges against the targets file."""
    try:
        parsed, problems = read_run_config(
            path, surroundings.specs, unknown_type=unknown_type, allow_paths=surroundings.allow_paths
        )
    except EvalFileError as error:
        yield from error.problems
        return
    yield from problems
    targets_file = find_targets_file(path.parent, find_repository_root(path), surroundings.cwd, None)
    if targets_file is not None:
        targets = read_targets(targets_file, surroundings.specs, env=surroundings.env)
        known = KnownNames(targets.known_names(), targets_file.name, surroundings.specs)
        reader = Reader(parsed.document)
        judge = parsed.other.get("judge")
        if isinstance(judge, str):
            known.check(reader, judge, ("judge",))
        yield from _check_judges(reader, parsed.evaluators, known)


def _check_suite(path: Path, surroundings: Surroundings, notes: list[str]) -> Iterator[Problem]:
    specs = surroundings.specs
    parsed = read_suite(
        path, specs, plugins_imported=False, allow_paths=surroundings.allow_paths, variables=surroundings.variables
    )
    yield from parsed.own_problems
    row_problems = [*parsed.row_problems]
    if parsed.suite is not None:
        equal_prompts = EqualPrompts()
        yield from _check_cases(parsed.suite, row_problems, equal_prompts)
        yield from equal_prompts.problems(parsed)
    if parsed.dialect:
        notes.append(f"{shown(path)}: {parsed.dialect}")
    elif (replaced := _replaced_evaluators(parsed)) is not None:
        notes.append(f"{shown(path)}:{replaced}")
    yield from merged_problems(row_problems)
    try:
        values = load_env(path.resolve().parent, surroundings.env)
    except EvalFileError as error:
        yield from error.problems
        values = dict(surroundings.env)
    targets_file = find_targets_file(path.parent, find_repository_root(path), surroundings.cwd, None)
    known: tuple[TargetConfig, ...] = parsed.suite.inline_targets if parsed.suite else ()
    if targets_file is not None:
        severity = _unknown_name_severity(parsed.project.plugins)
        targets = read_targets(targets_file, specs, env=values, unknown_provider=severity, unset_severity="warning")
        targets = targets.with_inline(parsed.suite.inline_targets if parsed.suite else ())
        used = used_targets(parsed.suite, targets)
        yield from targets.problems if used is None else targets.problems_for(used)
        yield from _check_target_names(parsed, targets, targets_file, specs)
        yield from _check_used_targets(parsed, targets=targets, targets_file=targets_file, env=values, specs=specs)
        yield from check_gate_names(parsed, targets.known_names())
        known = tuple(targets.targets)
        yield from _check_choice(parsed, known)
    else:
        yield from check_gate_names(parsed, None)
    if parsed.suite is not None and (names := own_judges(parsed.suite, known, specs)):
        yield Problem(shown(path), own_judge_text(names), severity="warning")


def _check_choice(parsed: ParsedSuite, targets: Sequence[TargetConfig]) -> Iterator[Problem]:
    """Yield a warning if neither the suite nor the targets file chooses a target, which `--target` may do."""
    if parsed.suite is None or not targets or None not in targets_of(parsed.suite):
        return
    try:
        choose_target(targets, None)
    except TargetError as error:
        yield Problem(parsed.suite.path, str(error), severity="warning")


def _replaced_evaluators(parsed: ParsedSuite) -> str | None:
    """Return a note if listed cases have evaluators of their own, which replace those of the file; else None."""
    reader, suite = parsed.reader, parsed.suite
    if reader is None or suite is None or reader.document.at(setting_path(reader, "evaluators")) is None:
        return None
    listed = {key: cases for key in CASE_KEYS if isinstance(cases := reader.document.at((key,)), list)}
    places: list[JsonPath] = [
        (key, index, *at)
        for key, cases in listed.items()
        for index in range(len(cases))
        for at in (("evaluators",), ("execution", "evaluators"))
        if reader.document.at((key, index, *at)) is not None
    ]
    if not places:
        return None
    subject = "1 case has" if len(places) == 1 else f"{len(places):,} cases have"
    line = reader.document.mark(places[0], on_key=True).line
    verb = "replace those of the file; `add_evaluators` adds to them"
    return f"{line}: {subject} evaluators of {'its' if len(places) == 1 else 'their'} own, which {verb}"


def _check_cases(suite: EvalSuite, row_problems: list[Problem], equal_prompts: EqualPrompts) -> Iterator[Problem]:
    """Add a stream's problems to `row_problems`, and all cases to `equal_prompts`.

    Yield a warning if cases have `{{ names }}` left as text, and for cases and prompts that are skipped or cases that
    are checked only in part.
    """
    first: tuple[EvalCase, str] | None = None
    others = 0
    unchecked, judged = _UncheckedCases(), list[EvalCase]()
    fills_own_cases = suite.fills_placeholders and not suite.path.endswith(".jsonl")
    try:
        for case in suite.cases:
            is_filled = fills_own_cases and case.location is not None and case.location.path == suite.path
            if isinstance(case, BrokenCase):
                row_problems += case.problems if suite.cases.count is None else ()
                continue
            unchecked.add(case)
            equal_prompts.add(case)
            if suite.cases.count is not None:
                judged.append(case)
            if case.skip is None and not is_filled and (name := _first_variable(case)):
                others += first is not None
                first = first or (case, name)
    except EvalFileError as error:
        yield from error.problems
    if first is not None:
        case, name = first
        more = f", and in {others:,} more case{'s' if others > 1 else ''}" if others else ""
        reason = (
            "variables in the values of datasets are not filled"
            if suite.fills_placeholders
            else "variables are filled in judge prompts only, unless the file declares `vars:`"
        )
        message = f"{{{{ {name} }}}} is text here{more}: {reason}"
        yield _warning_at(case, message)
    yield from unchecked.warnings()
    if (slow := slow_judge_note(suite, judged)) is not None:
        yield _warning_at(*slow)


class _CountedCases(Struct):
    """Cases counted with the first one and its reason."""

    first: tuple[EvalCase, str] | None = None
    ids: set[str] = field(default_factory=set)

    def add(self, case: EvalCase, reason: str | None) -> None:
        """Count a case if there is a reason."""
        if reason is not None:
            self.first = self.first or (case, reason)
            self.ids.add(case.id)

    def warning(self, one: str, several: str) -> Iterator[Problem]:
        """Yield one warning about all cases that were counted, at the first one."""
        if self.first is not None:
            case, reason = self.first
            count = len(self.ids)
            subject = f"case {case.id!r} {one}" if count == 1 else f"{count:,} cases {several}, the first"
            yield _warning_at(case, f"{subject}: {reason}")


class _UncheckedCases(Struct):
    """The cases and prompts that are skipped, and the cases that are checked only in part."""

    skipped: _CountedCases = field(default_factory=_CountedCases)
    incomplete: _CountedCases = field(default_factory=_CountedCases)
    prompts: dict[str, tuple[EvalCase, str]] = field(default_factory=dict)

    def add(self, case: EvalCase) -> None:
        """Count a case, and remember its prompts that are not sent."""
        self.skipped.add(case, case.skip)
        if case.skip is not None:
            return
        self.incomplete.add(case, case.incomplete)
        for prompt in case.prompts:
            if prompt.skip is not None:
                self.prompts.setdefault(prompt.id, (case, prompt.skip))

    def warnings(self) -> Iterator[Problem]:
        """Yield one warning about each prompt, about all skipped cases and about all incomplete ones."""
        for name, (case, reason) in self.prompts.items():
            yield _warning_at(case, f"prompt {name!r} is not sent (`skip`): {reason}")
        yield from self.skipped.warning("is not run (`skip`)", "are not run (`skip`)")
        partly = "checked only in part (`incomplete`)"
        yield from self.incomplete.warning(f"is {partly}", f"are {partly}")


def _warning_at(case: EvalCase, message: str) -> Problem:
    place = case.location or Location("")
    return Problem(place.path, message, place.line, min(1, place.line), severity="warning")


def _first_variable(case: EvalCase) -> str | None:
    """Return the first `{{ name }}` in a question or an expectation; else None. `${{ NAME }}` does not count."""
    messages = (*case.input_messages, *case.expected_messages)
    if "{{" not in case.expected_outcome and all(map(_is_plain, messages)):
        return None
    texts = (case.expected_outcome, *(json.dumps(message_to_json(each), ensure_ascii=False) for each in messages))
    plain = (text.replace("${{", "") for text in texts if "{{" in text)
    return next((name for text in plain for name in variable_names(text)), None)


def _is_plain(message: Message) -> bool:
    """Return True for a message that is only a text without `{{`."""
    content = message.content
    is_text = isinstance(content, str) and "{{" not in content
    return is_text and message.name is None and not message.tool_calls and message.metadata is None


def _check_target_names(
    parsed: ParsedSuite, targets: ParsedTargets, targets_file: Path, specs: Specs
) -> Iterator[Problem]:
    """Yield a problem for each unknown target that the suite or one of its cases names."""
    if parsed.reader is None or parsed.suite is None:
        return
    known = KnownNames(targets.known_names(), targets_file.name, specs)
    reader = Reader(parsed.reader.document)
    places = [
        setting_path(reader, "target"),
        *((*setting_path(reader, "targets"), i) for i in range(len(parsed.suite.targets))),
        ("judge",),
    ]
    judge = parsed.suite.judge
    for name in (*targets_of(parsed.suite), None if judge is None or judge.startswith("{") else judge):
        if name is not None:
            known.check(reader, name, next((place for place in places if reader.document.at(place) == name), ()))
    inline = reader.document.at(("judge",))
    if isinstance(inline, Mapping):
        _check_inline_judge(reader, inline.get("provider"), specs)
    yield from _check_judges(reader, tuple(_evaluators_of(parsed.suite)), known)


class KnownNames(Struct, frozen=True):
    """The names of the targets in a file; `PROVIDER:MODEL` is a target as well."""

    names: Sequence[str]
    file: str
    specs: Specs

    def check(self, reader: Reader, name: str, at: JsonPath) -> None:
        """Report the name at the path `at` if it is neither that of a target nor `PROVIDER:MODEL`."""
        if name not in self.names and not names_model(name, self.specs.providers):
            allowed = f"known: {', '.join(self.names) or 'none'}"
            message = f"there is no target {name!r} in {self.file}"
            near = model_spelling(name, self.specs.providers) or nearest(name, self.names)
            reader.error(at, message, allowed=allowed, suggestion=near)


_JUDGE_KEYS = frozenset({"judge", "judges", "judge_target", "llm", "llm_config", "target"})
"""The keys of evaluators that name judges."""


def _check_judges(reader: Reader, evaluators: Sequence[EvaluatorLike], known: KnownNames) -> Iterator[Problem]:
    """Yield the problems of a reader, and one for each unknown target that an evaluator names as its judge."""
    settings = (found for each in evaluators for found in settings_with_members(each, known.specs))
    named = (name for each in settings for name in judge_targets(each))
    for name in dict.fromkeys(name for name in named if not name.startswith("{")):
        known.check(reader, name, _place_of_judge(reader.document.value, name) or ())
    yield from reader.problems


def _place_of_judge(value: JsonValue, name: str) -> JsonPath | None:
    """Return the path of the first `name` under a key of _JUDGE_KEYS in a value; None if there is none."""
    items: Iterable[tuple[Key, JsonValue]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if key in _JUDGE_KEYS and item == name:
            return (key,)
        if key in _JUDGE_KEYS and isinstance(item, list) and name in item:
            return (key, item.index(name))
        inside = _place_of_judge(item, name)
        if inside is not None:
            return (key, *inside)
    return None


def _check_inline_judge(reader: Reader, provider: object, specs: Specs) -> None:
    """Report a missing or unknown provider of a judge that the suite describes in place of a name."""
    if not isinstance(provider, str):
        reader.error(("judge",), "the key 'provider' is missing")
    elif provider not in specs.providers:
        known = sorted(spec.name for spec in specs.providers)
        allowed = service_advice(provider) or f"known: {', '.join(known)}"
        message = f"unknown provider {provider!r}"
        reader.error(("judge", "provider"), message, allowed=allowed, suggestion=nearest(provider, known))


def used_targets(suite: EvalSuite | None, targets: ParsedTargets) -> frozenset[str] | None:
    """Return the targets that `agentv run` without options uses for a suite, and those that its evaluators may name.

    None if it is not known which target would be chosen.
    """
    default = DEFAULT_TARGET if DEFAULT_TARGET in targets.names else None
    chosen = [name or default for name in (targets_of(suite) if suite else (None,))]
    try:
        used = [name or choose_target(targets.targets, None).name for name in chosen]
    except TargetError:
        return None
    if suite is not None and suite.judge is not None and suite.judge in targets.names:
        used.append(suite.judge)
    named = set(_setting_texts(suite)) if suite is not None else set()
    return targets.with_needed([*used, *(name for name in targets.names if name in named and name is not None)])


def _own_evaluators(case: EvalCase) -> Iterator[EvaluatorLike]:
    yield from case.evaluators or ()
    for turn in case.turns:
        yield from turn.evaluators


def _evaluators_of(suite: EvalSuite) -> Iterator[EvaluatorLike]:
    """Yield the evaluators of a suite and of its cases, but not those of a stream's cases."""
    yield from suite.evaluators or ()
    for case in suite.cases if suite.cases.count is not None else ():
        if isinstance(case, EvalCase):
            yield from _own_evaluators(case)


def _setting_texts(suite: EvalSuite) -> Iterator[str]:
    """Yield the texts in the settings of a suite's evaluators, of which some name targets."""
    waiting: list[object] = [each.settings for each in _evaluators_of(suite) if isinstance(each, EvaluatorConfig)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, EvaluatorConfig):
            waiting.append(value.settings)
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def _check_used_targets(
    parsed: ParsedSuite, targets: ParsedTargets, targets_file: Path, env: Mapping[str, str], specs: Specs
) -> Iterator[Problem]:
    """Yield the problems of the suite's targets and of all that these need; unset variables are warnings here."""
    try:
        named = targets_of(parsed.suite) if parsed.suite else (None,)
        chosen = [choose_target(targets.targets, name).name for name in named]
        reader = open_targets(targets_file, specs, env)
    except (TargetError, EvalFileError):
        return
    names = targets.with_needed(chosen)
    for target in targets.targets:
        if target.name in names and target.path == reader.document.path:
            yield from _fill_and_check(Reader(reader.document), target, env, specs)


def _fill_and_check(reader: Reader, target: TargetConfig, env: Mapping[str, str], specs: Specs) -> Iterator[Problem]:
    """Yield the problems of a target with its references filled; unset variables are warnings."""
    entries = reader.document.at(("targets",))
    for index, raw in enumerate(entries if isinstance(entries, list) else ()):
        at = ("targets", index)
        if not isinstance(raw, Mapping) or reader.document.mark(at).line != target.line:
            continue
        if raw.get("provider") not in specs.providers:
            continue
        filled = fill(reader, at=at, value=raw, env=env, target=target.name, unset_severity="warning")
        if isinstance(filled.value, dict):
            before = len(reader.problems)
            checked = check_target(
                reader, at, filled.value, specs.providers, single_references=filled.single_references
            )
            for path in missing_files(checked.settings, target.base_dir):
                reader.error((*at, *place_naming_file(path, raw)), f"there is no file {path}")
            redact_problems(reader, before, filled)
    yield from reader.problems
