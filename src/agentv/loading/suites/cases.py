"""Reading of one eval case of a file as EvalCase."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.attached import FileFinder
from agentv.loading.files.documents import JsonPath
from agentv.loading.files.path_guard import FileProblemError
from agentv.loading.models.eval_files import (
    TURN_KEYS,
    CaseModel,
    TurnModel,
    WorkspaceModel,
    read_grader,
)
from agentv.loading.models.reader import Reader, in_order
from agentv.loading.suites.contents import is_message, read_case_messages, read_content_of
from agentv.loading.suites.criteria import read_criteria
from agentv.loading.suites.evaluators import EvaluatorScope, check_single_form, listed_evaluators, read_evaluators
from agentv.loading.suites.prompts import INPUT_VARIABLE, SuitePrompt, make_fill
from agentv.loading.suites.variables import SuiteVariables, Template
from agentv.loading.translation.importers import SuiteImport
from agentv.scoring.results.applicable import (
    ADVICE_ON_WEIGHT,
    WITHOUT_WEIGHT,
    all_evaluators,
    applicable_evaluators,
    criteria_of,
    evaluators_of_suite,
    evaluators_of_turn,
    lack_weight,
)
from agentv.templating.case_variables import Fault
from agentv.types.cases import (
    ITEM_PREFIX,
    BrokenCase,
    CaseTurn,
    EvalCase,
    EvalSuite,
    EvaluatorConfig,
    Location,
    PromptMessages,
    RubricItem,
    TurnRules,
)
from agentv.types.errors import nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role
from agentv.types.problems import Problem, Severity
from agentv.types.scales import EvaluationCriteria
from agentv.types.workspaces import local_repository, unfetched_submodules, written_path


def check_workspace(reader: Reader, at: JsonPath, workspace: WorkspaceModel | None, files: FileFinder) -> None:
    """Record a problem if a workspace of an eval file comes from outside of the project, or lacks submodules."""
    if workspace is None:
        return
    sources: list[tuple[JsonPath, str | None]] = [(("template",), workspace.template), (("git",), workspace.git)]
    sources += [(("repos", index, "git"), repo.git) for index, repo in enumerate(workspace.repos or ())]
    for place, written in sources:
        if written is None:
            continue
        find_folder = local_repository if place[-1] == "git" else written_path
        folder = find_folder(written, files.base_dir)
        if folder is not None:
            try:
                files.guard.check(folder, written)
            except FileProblemError as error:
                reader.error((*at, *place), error.message, allowed=error.allowed)
                continue
            if place[-1] == "git" and (message := _unfetched_submodules(workspace, place, written, folder)) is not None:
                reader.error((*at, *place), message, severity="warning")


def _unfetched_submodules(workspace: WorkspaceModel, place: JsonPath, written: str, folder: Path) -> str | None:
    """Return a message about the submodules that a local repository has now; None without any."""
    repos = workspace.repos or []
    listed = folder / ".gitmodules"
    try:
        gitmodules = listed.read_text("utf-8", "replace") if listed.is_file() else ""
    except OSError:
        return None
    own = repos[place[1]].path if len(place) > 1 and isinstance(place[1], int) else ""
    return unfetched_submodules(written, gitmodules, [repo.path for repo in repos], folder=own)


class SuiteParts(Struct, frozen=True):
    """The evaluators, criteria and prompts of a suite, which complete its cases.

    Evaluators and criteria that depend on the case are templates, filled for each case; the others are in `suite`.
    """

    suite: EvalSuite
    evaluators: Template | None = None
    criteria: Template | None = None
    prompts: tuple[SuitePrompt, ...] = ()
    needs_outcomes: bool = True
    """False if it is unknown which evaluators will judge, and so whether they need an expected outcome."""

    @property
    def vary_by_case(self) -> bool:
        """True if there are templates or prompts, which are filled for each case."""
        return self.evaluators is not None or self.criteria is not None or bool(self.prompts)

    @property
    def needs_messages(self) -> bool:
        """True if a case must have messages of its own; prompts may give all of them."""
        return not self.prompts or any(prompt.has_case_messages for prompt in self.prompts)


class CaseScope(Struct, frozen=True):
    """The names and files that a case may refer to."""

    evaluators: EvaluatorScope
    files: FileFinder
    file: str
    """Its own file, relative to the repository root."""
    importer: SuiteImport | None = None
    """Translates the cases of a file of AgentV; None for our own files."""
    variables: SuiteVariables | None = None
    """The variables of the eval file; None if it declares none and reads no dataset."""

    parts: SuiteParts | None = None

    def translated(self, reader: Reader) -> Reader:
        """Return a reader of the same cases in our own keys; the same reader unless they are AgentV's."""
        if self.importer is None or not self.importer.applies_to(reader.document.value):
            return reader
        return self.importer.cases(reader)

    @property
    def is_foreign(self) -> bool:
        """True if the cases have the meanings of an earlier AgentV."""
        return self.importer is not None and self.importer.is_foreign


class RowRules(Struct, frozen=True):
    """The rules by which rows become cases."""

    scope: CaseScope
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of roles, if they are not named after them."""
    template: Template | None = None


class ReadRow(NamedTuple):
    """The case of a row, with the warnings about it."""

    case: EvalCase | BrokenCase | None
    """None if the row is a part of a logged trace."""
    warnings: tuple[Problem, ...] = ()


_CASE_ONLY_KEYS = frozenset({"evaluators", "add_evaluators", "execution", "rubrics", "outcome"})
"""Keys of cases that plain rows of `input` and `expected` do not have."""


def is_case(values: JsonValue) -> bool:
    """Return True for a row that is already a case.

    It has `input_messages`, an `input` beside a key that only cases have, messages as `input` and no key that cases do
    not have, or turns that all have an `input`.
    """
    if not isinstance(values, Mapping):
        return False
    if "input_messages" in values or "inputMessages" in values:
        return True
    question = values.get("input")
    if question is not None and not _CASE_ONLY_KEYS.isdisjoint(values):
        return True
    if isinstance(question, list | tuple) and any(map(is_message, question)):
        return all(CaseModel.names().of(key) is not None for key in values)  # else an export of an API
    turns = values.get("turns")
    return isinstance(turns, list | tuple) and all(isinstance(each, Mapping) and "input" in each for each in turns)


def make_read_row(case: EvalCase | None, found: Iterable[Problem], location: Location, case_id: JsonValue) -> ReadRow:
    """Return the case of a row with its warnings; without a case, or with errors, a BrokenCase."""
    problems = in_order(found)
    if case is not None and not any(problem.severity == "error" for problem in problems):
        return ReadRow(case if case.location == location else replace(case, location=location), problems)
    broken_id = case_id if isinstance(case_id, str) and case_id else f"line-{location.line}"
    return ReadRow(BrokenCase(broken_id, problems, location))


def without_content(read: ReadRow) -> ReadRow:
    """Return a row with no more of its case than id and location, which are what its checks need."""
    case = read.case
    return read if not isinstance(case, EvalCase) else read._replace(case=EvalCase(case.id, (), location=case.location))


def found_cases(read: Iterable[ReadRow]) -> tuple[EvalCase | BrokenCase, ...]:
    """Return the cases among rows that were read."""
    return tuple(each.case for each in read if each.case is not None)


def read_case(reader: Reader, at: JsonPath, scope: CaseScope, row: JsonObject | None = None) -> EvalCase | None:
    """Return the case at a path; None if it is invalid. All problems are recorded.

    `row` holds the columns of the dataset row that the case is made from.
    """
    raw = reader.document.at(at)
    if scope.variables is not None:
        own = raw.get("vars") if isinstance(raw, Mapping) else None
        values = scope.variables.of_case(row=row, own=own if isinstance(own, Mapping) else None)
        scope = replace(scope, evaluators=replace(scope.evaluators, variables=values))
    before = _count_errors(reader)
    if scope.is_foreign and isinstance(raw, Mapping):
        _check_has_expectation(reader, at, raw)
    case = _read_without_parts(reader, at, scope)
    if case is not None and _count_errors(reader) == before:
        return complete_case(reader, at, case, scope)
    if case is None and isinstance(raw, Mapping):
        _check_outcome_of_invalid(reader, at, raw, scope)
    return case


def _check_outcome_of_invalid(reader: Reader, at: JsonPath, raw: JsonObject, scope: CaseScope) -> None:
    """Record that an invalid case also lacks an expected outcome, if that is certain without reading the case."""
    parts = scope.parts
    if parts is None or not parts.needs_outcomes or parts.vary_by_case:
        return
    names = CaseModel.names()
    if not any(names.spelling_in(raw, key) for key in ("expected_outcome", "expected", *_EVALUATOR_KEYS)):
        _check_outcome(reader, at, EvalCase("", ()), suite=parts.suite, scope=scope.evaluators)


def _check_has_expectation(reader: Reader, at: JsonPath, case: JsonObject) -> None:
    """Record a problem if a case of AgentV has no expectation; AgentV skips such a case."""
    keys = ("expected_outcome", "outcome", "expected", "evaluators", "evaluator", "rubrics", "turns")
    if not any(case.get(key) for key in keys):
        reader.error(at, "the case has neither `criteria`, nor `expected_output`, nor `assertions`")


_EVALUATOR_KEYS = ("evaluators", "add_evaluators", "evaluator", "grader", "rubrics", "execution", "criteria")


def complete_case(reader: Reader, at: JsonPath, case: EvalCase, scope: CaseScope) -> EvalCase:
    """Return a case completed by the suite's parts, filled with the variables in `scope`.

    Problems are recorded, including a missing expected outcome.
    """
    if scope.parts is None:
        return case
    case = _with_added(reader, at, case, scope)
    if case.skip is not None:  # it is not sent and not judged, so that its variables and evaluators need not be there
        return replace(case, prompts=tuple(PromptMessages(each.id, ()) for each in _chosen(case, scope.parts)))
    before = _count_errors(reader)
    if scope.parts.vary_by_case or case.prompt_ids:
        case = _with_parts(reader, at, case, parts=scope.parts, scope=scope)
        case = _with_prompts(reader, at, case, parts=scope.parts, scope=scope)
    if scope.parts.needs_outcomes or scope.is_foreign:
        _check_judged(reader, at, case, scope.parts.suite, is_foreign=scope.is_foreign)
    _check_weights(reader, at, case, scope.parts.suite)
    if scope.parts.needs_outcomes and not case.expected_outcome and _count_errors(reader) == before:
        _check_outcome(reader, at, case, suite=scope.parts.suite, scope=scope.evaluators)
    return case


def _with_added(reader: Reader, at: JsonPath, case: EvalCase, scope: CaseScope) -> EvalCase:
    """Return a case with its `add_evaluators` after the suite's evaluators."""
    place = (*at, "add_evaluators")
    raw = reader.document.at(at)
    if scope.parts is None or not isinstance(raw, Mapping) or reader.document.at(place) is None:
        return case
    if case.evaluators or case.evaluator or case.grader:
        message = "`add_evaluators` adds to the evaluators of the file, and this case has a list of its own"
        reader.error(place, message, allowed="put all evaluators into one of them", on_key=True)
        return case
    added = read_evaluators(reader, place, scope.evaluators) or ()
    if scope.parts.evaluators is not None:
        case = _with_filled_evaluators(reader, at, case, scope.parts.evaluators, scope)
    inherited = case.evaluators or evaluators_of_suite(scope.parts.suite)
    names = {each.name for each in inherited if isinstance(each, EvaluatorConfig)}
    for index, each in enumerate(added):
        if each.name in names:
            reader.error((*place, index), f"the file has an evaluator named {each.name!r}", allowed="use another name")
    return replace(case, evaluators=(*inherited, *added))


def _count_errors(reader: Reader) -> int:
    return sum(problem.severity == "error" for problem in reader.problems)


def _with_parts(reader: Reader, at: JsonPath, case: EvalCase, parts: SuiteParts, scope: CaseScope) -> EvalCase:
    """Return a case with the suite's evaluators and criteria, filled with its variables."""
    values = scope.evaluators.variables or {}
    severity: Severity = scope.variables.undefined_severity if scope.variables else "error"
    if parts.criteria is not None:
        part_reader, _ = parts.criteria.filled(values, severity)
        read = read_criteria(part_reader, parts.criteria.at, scope.evaluators.criteria)
        own = {criterion.name for criterion in case.criteria}
        case = replace(case, criteria=(*(each for each in read if each.name not in own), *case.criteria))
        _move_problems(reader, at, part_reader)
    if parts.evaluators is not None and not case.evaluators and not (case.evaluator or case.grader):
        return _with_filled_evaluators(reader, at, case, parts.evaluators, scope)
    return case


def _with_filled_evaluators(
    reader: Reader, at: JsonPath, case: EvalCase, template: Template, scope: CaseScope
) -> EvalCase:
    """Return a case with the suite's evaluators, filled with its variables."""
    severity: Severity = scope.variables.undefined_severity if scope.variables else "error"
    part_reader, _ = template.filled(scope.evaluators.variables or {}, severity)
    evaluators = read_evaluators(part_reader, template.at, scope.evaluators)
    _move_problems(reader, at, part_reader)
    return replace(case, evaluators=evaluators)


def _with_prompts(reader: Reader, at: JsonPath, case: EvalCase, parts: SuiteParts, scope: CaseScope) -> EvalCase:
    """Return a case with its messages for each of the suite's prompts."""
    values = {**_input_text(case), **(scope.evaluators.variables or {})}
    # In a file without variables a name in braces may be meant as text, which is sent as written.
    severity: Severity = "warning" if scope.variables is None else scope.variables.undefined_severity

    def applied(prompt: SuitePrompt) -> PromptMessages:
        def report(fault: Fault) -> None:
            message = f"prompt {prompt.id!r}: {fault.message}"
            reader.error(at, message, allowed=fault.allowed, suggestion=fault.suggestion, severity=severity)

        return prompt.applied_to(case.input_messages, make_fill(values, report))

    known = [prompt.id for prompt in parts.prompts]
    for index, name in enumerate(case.prompt_ids):
        if name not in known:
            listed = f"known: {', '.join(known)}" if known else "the suite has no `prompts`"
            place = (*at, "execution", "prompts", index)
            reader.error(place, f"unknown prompt {name!r}", allowed=listed, suggestion=nearest(name, known))
    return replace(case, prompts=tuple(map(applied, _chosen(case, parts))))


def _input_text(case: EvalCase) -> dict[str, JsonValue]:
    """Return the text of a case's only message as the variable `input`; nothing for several messages or parts."""
    contents = [message.content for message in case.input_messages]
    return {INPUT_VARIABLE: contents[0]} if len(contents) == 1 and isinstance(contents[0], str) else {}


def _chosen(case: EvalCase, parts: SuiteParts) -> list[SuitePrompt]:
    """Return the suite's prompts that a case is sent with."""
    return [prompt for prompt in parts.prompts if not case.prompt_ids or prompt.id in case.prompt_ids]


def _move_problems(reader: Reader, at: JsonPath, part: Reader) -> None:
    """Record the problems of a part of the suite; for a case of another file, at the position of the case."""
    for problem in part.problems:
        if reader.document.path == problem.path:
            reader.problems.append(problem)
        else:
            reader.problems.append(in_row(problem, reader.document.path, reader.document.mark(at).line))


def in_row(problem: Problem, path: str, line: int) -> Problem:
    """Return a problem of the eval file at a line of another file, whose data causes it."""
    message = f"{problem.message} (used in {problem.path}:{problem.line}:{problem.column})"
    return replace(problem, path=path, line=line, column=1, message=message)


_ADVICE_WITHOUT_REFERENCE = "write it, or give a reference answer (`expected`) or other evaluators"


def _check_outcome(reader: Reader, at: JsonPath, case: EvalCase, suite: EvalSuite, scope: EvaluatorScope) -> None:
    """Record a problem if an evaluator needs the expected outcome that the case does not have."""
    evaluators, _ = applicable_evaluators(case, suite)
    judged = [(at, evaluators, bool(case.expected_messages))]
    for index, turn in enumerate(case.turns):
        if not turn.expected_outcome:
            judged.append(((*at, "turns", index), evaluators_of_turn(turn), bool(turn.expected_messages)))
    criteria = frozenset(criterion.name for criterion in (*suite.criteria, *case.criteria))
    for place, listed, has_reference in judged:
        name = scope.outcome_needs.first_in_need(listed, scope.registry, has_reference=has_reference, criteria=criteria)
        if name is not None:
            reader.error(
                place,
                f"the key 'expected_outcome' is missing: evaluator {name!r} compares the answer with it",
                allowed=_ADVICE_WITHOUT_REFERENCE if not has_reference else None,
            )


def _check_judged(reader: Reader, at: JsonPath, case: EvalCase, suite: EvalSuite, *, is_foreign: bool) -> None:
    """Record that nothing in a conversation is judged: a warning in files of AgentV, where its result is skipped."""
    if not case.turns or all_evaluators(case, suite):
        return
    keys = "`expected_output` or `assertions`" if is_foreign else "`expected`, `rubrics` or `evaluators`"
    reader.error(
        (*at, "turns"),
        "no turn of the case has anything to check, and the case has no evaluators",
        allowed=f"give a turn {keys}",
        severity="warning" if is_foreign else "error",
    )


def _check_weights(reader: Reader, at: JsonPath, case: EvalCase, suite: EvalSuite) -> None:
    """Warn if no evaluator of the case, or of one of its turns, has weight: the score is then 0."""
    judged = [((*at, "turns", index), evaluators_of_turn(turn)) for index, turn in enumerate(case.turns)]
    if not case.turns:
        judged = [(at, applicable_evaluators(case, suite)[0])]
    for owner, evaluators in judged:
        if lack_weight(evaluators, criteria_of(case, suite)):
            places = [(*each, *keys) for each in (owner, ()) for keys in _EVALUATOR_LISTS]
            place = next((each for each in places if reader.document.at(each)), None)
            reader.error(
                owner if place is None else (*place, 0, "weight"),
                WITHOUT_WEIGHT,
                allowed=ADVICE_ON_WEIGHT,
                severity="warning",
            )


_EVALUATOR_LISTS = (("evaluators",), ("execution", "evaluators"), ("add_evaluators",))


def _read_without_parts(reader: Reader, at: JsonPath, scope: CaseScope) -> EvalCase | None:
    """Return the case at a path without the parts of its suite; None if it is invalid."""
    model = reader.read(CaseModel, at)
    raw = reader.document.at(at)
    if not isinstance(raw, Mapping):
        return None
    parts = scope.parts
    needs_messages = (parts is None or parts.needs_messages) and "turns" not in raw and "skip" not in raw
    if needs_messages and _given(raw, "input") is None:
        reader.error(at, "the key 'input' is missing")
    criteria = read_criteria(reader, (*at, "criteria"), scope.evaluators.criteria)
    inputs = _messages(reader, at, "input", scope.files)
    expected = _messages(reader, at, "expected", scope.files)
    evaluators = _evaluators(reader, at, scope.evaluators, criteria)
    if model is None or (needs_messages and not inputs):
        return None
    check_single_form(reader, at, model, scope.evaluators)
    execution = model.execution
    turns = tuple(
        make_turn(reader, (*at, "turns", index), turn, scope.files, scope.evaluators)
        for index, turn in enumerate(model.turns)
    )
    _check_turns(reader, at, raw, turns)
    workspace = execution.workspace if execution else None
    check_workspace(reader, (*at, "execution", "workspace"), workspace, scope.files)
    return EvalCase(
        id=model.id,
        input_messages=inputs,
        expected_outcome=model.expected_outcome,
        expected_messages=expected,
        conversation_id=model.conversation_id,
        tags=tuple(model.tags),
        metadata=model.metadata,  # type: ignore[arg-type] # parsed JSON
        rubrics=read_rubrics(reader, (*at, "rubrics"), model.rubrics),
        evaluators=evaluators,
        evaluator=model.evaluator,
        grader=read_grader(reader, at, model),
        criteria=criteria,
        trials=execution.trials if execution else None,
        workspace=workspace.given() if workspace else None,
        timeout_s=execution.timeout_seconds if execution else None,
        pass_score=execution.pass_score if execution else None,
        targets=tuple(execution.targets) if execution else (),
        prompt_ids=tuple(execution.prompts) if execution else (),
        depends_on=tuple(execution.depends_on) if execution else (),
        on_dependency_failure=execution.on_dependency_failure if execution else "skip",
        turns=turns,
        turn_rules=execution.turn_rules if execution else TurnRules(),
        skip=model.skip,
        incomplete=model.incomplete,
        location=Location(scope.file, reader.document.mark(at).line),
    )


def make_turn(
    reader: Reader, at: JsonPath, turn: TurnModel, files: FileFinder | None, scope: EvaluatorScope | None
) -> CaseTurn:
    """Return the turn at a path; its content and evaluators are checked.

    From Python, `files` and `scope` are None: content may have any known shape, and the evaluators are read later.
    """
    content = read_content_of(reader, (*at, "input"), cast(JsonValue, turn.input), files)
    key = TurnModel.names().spelling_in(reader.document.at(at), "expected")
    expected = None if key is None else read_content_of(reader, (*at, key), cast(JsonValue, turn.expected), files)
    evaluators_at = (*at, "evaluators")
    return CaseTurn(
        input=Message("user", content),
        expected_messages=() if expected is None else (Message("assistant", expected),),
        expected_outcome=turn.expected_outcome,
        rubrics=read_rubrics(reader, (*at, "rubrics"), turn.rubrics),
        evaluators=(
            listed_evaluators(reader, evaluators_at) if scope is None else read_evaluators(reader, evaluators_at, scope)
        )
        or (),
    )


def _check_turns(reader: Reader, at: JsonPath, raw: JsonObject, turns: Sequence[CaseTurn]) -> None:
    """Record a problem for options of conversations in a case without turns."""
    execution = raw.get("execution")
    if turns or not isinstance(execution, Mapping):
        return
    for key in TURN_KEYS:
        if key in execution:
            reader.error((*at, "execution", key), f"`{key}` needs `turns`", on_key=True)


def _evaluators(
    reader: Reader, at: JsonPath, scope: EvaluatorScope, criteria: tuple[EvaluationCriteria, ...]
) -> tuple[EvaluatorConfig, ...] | None:
    """Return the case's own evaluators, preferably those under `execution`. Both lists are checked."""
    if scope.criteria_names is not None and criteria:
        scope = replace(scope, criteria_names=scope.criteria_names | {criterion.name for criterion in criteria})
    under_execution = read_evaluators(reader, (*at, "execution", "evaluators"), scope)
    top_level = read_evaluators(reader, (*at, "evaluators"), scope)
    return top_level if under_execution is None else under_execution


_MESSAGE_ROLES: Mapping[str, Role] = {"input": "user", "expected": "assistant"}


def _messages(reader: Reader, at: JsonPath, name: str, files: FileFinder) -> tuple[Message, ...]:
    """Return the messages under a key of a case; they are checked even if the case has other problems."""
    raw = reader.document.at(at)
    spellings = [key for key in raw if CaseModel.names().of(key) == name] if isinstance(raw, Mapping) else []
    for other in spellings[1:]:
        reader.error((*at, other), f"{spellings[0]!r} and {other!r} mean the same", allowed="keep one", on_key=True)
    return read_case_messages(reader, (*at, spellings[0]), _MESSAGE_ROLES[name], files) if spellings else ()


def _given(case: JsonObject, name: str) -> JsonValue:
    key = CaseModel.names().spelling_in(case, name)
    return None if key is None else case[key]


def read_rubrics(reader: Reader, at: JsonPath, listed: Sequence[str | RubricItem]) -> tuple[RubricItem, ...]:
    """Return the rubric items of a list; a text becomes an item that is named by its position."""
    items: list[RubricItem] = []
    seen: set[str] = set()
    for number, entry in enumerate(listed, start=1):
        item = RubricItem(f"{ITEM_PREFIX}-{number}", entry) if isinstance(entry, str) else entry
        if item.id in seen:
            reader.error((*at, number - 1), f"a second rubric item with the id {item.id!r}")
        seen.add(item.id)
        items.append(item)
    return tuple(items)
