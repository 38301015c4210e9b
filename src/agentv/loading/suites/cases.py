"""Reading of one eval case of a file as EvalCase."""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.criteria.criteria import read_criteria
from agentv.loading.files.attached import FileFinder
from agentv.loading.files.documents import JsonPath
from agentv.loading.files.path_guard import FileProblemError
from agentv.loading.importers.agentv_files import AgentvImport
from agentv.loading.models.reader import Reader, kind_of
from agentv.loading.suites.evaluators import EvaluatorScope, check_single_form, read_evaluators
from agentv.loading.suites.models import (
    CaseModel,
    MessageModel,
    PartModel,
    RubricItemModel,
    WorkspaceModel,
    read_grader,
)
from agentv.types.cases import EvalCase, EvaluatorConfig, Location, RubricItem
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Content, FilePart, Message, Part, TextPart


def read_content(reader: Reader, at: JsonPath, message: JsonValue, files: FileFinder) -> Content | None:
    """Return the content of the message at `at`, with its files read; None if it has none.

    Problems are recorded.
    """
    if not isinstance(message, Mapping):
        return None
    raw = message.get("content")
    place = (*at, "content")
    if isinstance(raw, str | Mapping):
        return raw
    if isinstance(raw, list | tuple):
        parts = [_part(reader, (*place, index), files) for index in range(len(raw))]
        return tuple(part for part in parts if part is not None)
    if raw is not None:
        allowed = "put it in quotes" if isinstance(raw, int | float) else None
        reader.error(place, f"must be a string, a list of parts or an object, but is {kind_of(raw)}", allowed=allowed)
    elif MessageModel.names().spelling_in(message, "tool_calls") is None:
        reader.error(at, "a message needs `content`, or `tool_calls`")
    return None


def _part(reader: Reader, at: JsonPath, files: FileFinder) -> Part | None:
    model = reader.read(PartModel, at)
    if model is None:
        return None
    if model.type == "text":
        return TextPart(model.value)
    return _attach(reader, (*at, "value"), model.value, files)


def _attach(reader: Reader, at: JsonPath, written: str, files: FileFinder) -> FilePart | None:
    try:
        return files.attach(written)
    except FileProblemError as error:
        reader.error(at, error.message, allowed=error.allowed, suggestion=error.suggestion)
        return None


def check_workspace(reader: Reader, at: JsonPath, workspace: WorkspaceModel | None, files: FileFinder) -> None:
    """Record a problem if a workspace that an eval file describes is copied from outside of the project."""
    if workspace is None:
        return
    sources: list[tuple[JsonPath, str | None]] = [(("template",), workspace.template), (("git",), workspace.git)]
    sources += [(("repos", index, "git"), repo.git) for index, repo in enumerate(workspace.repos or ())]
    for place, written in sources:
        if written is not None and not (place[-1] == "git" and _REMOTE.match(written)):
            try:
                files.guard.check(files.base_dir / written.removeprefix("file://"), written)
            except FileProblemError as error:
                reader.error((*at, *place), error.message, allowed=error.allowed)


_REMOTE = re.compile(r"(?!file://)[A-Za-z][A-Za-z0-9+.-]*://|[^/]+@[^/]+:")


class CaseScope(Struct, frozen=True):
    """The names and files that a case may refer to. `file` is its own file, relative to the repository root.

    `importer` translates the cases of a file of AgentV; None for our own files.
    """

    evaluators: EvaluatorScope
    files: FileFinder
    file: str
    importer: AgentvImport | None = None

    def opened(self, reader: Reader) -> Reader:
        """Return a reader of a document of cases, translated if they are AgentV's."""
        if self.importer is None or not self.importer.concerns(reader.document.value):
            return reader
        return self.importer.cases(reader)

    @property
    def is_foreign(self) -> bool:
        """True if the cases have the meanings of an earlier AgentV."""
        return self.importer is not None and self.importer.generation.is_foreign


def read_case(reader: Reader, at: JsonPath, scope: CaseScope) -> EvalCase | None:
    """Return the case at a path; None if it is invalid. All problems are recorded."""
    raw = reader.document.at(at)
    if isinstance(raw, Mapping):
        _check_outcome(reader, at, raw, is_foreign=scope.is_foreign)
    model = reader.read(CaseModel, at)
    if not isinstance(raw, Mapping):
        return None
    criteria = read_criteria(reader, (*at, "criteria"), scope.evaluators.criteria)
    inputs = _contents(reader, at=at, case=raw, name="input_messages", files=scope.files)
    expected = _contents(reader, at=at, case=raw, name="expected_messages", files=scope.files)
    evaluators = _evaluators(reader, at, scope.evaluators, criteria)
    if model is None:
        return None
    check_single_form(reader, at, model, scope.evaluators)
    execution = model.execution
    workspace = execution.workspace if execution else None
    check_workspace(reader, (*at, "execution", "workspace"), workspace, scope.files)
    return EvalCase(
        id=model.id,
        input_messages=_messages(model.input_messages, inputs),
        expected_outcome=model.expected_outcome,
        expected_messages=_messages(model.expected_messages, expected),
        conversation_id=model.conversation_id,
        tags=tuple(model.tags),
        metadata=model.metadata,  # type: ignore[arg-type] # parsed JSON
        rubrics=_rubrics(reader, (*at, "rubrics"), model),
        evaluators=evaluators,
        evaluator=model.evaluator,
        grader=read_grader(reader, at, model),
        criteria=criteria,
        trials=execution.trials if execution else None,
        workspace=workspace.given() if workspace else None,
        timeout_s=execution.timeout_seconds if execution else None,
        pass_score=execution.pass_score if execution else None,
        location=Location(scope.file, reader.document.mark(at).line),
    )


def _check_outcome(reader: Reader, at: JsonPath, case: JsonObject, *, is_foreign: bool) -> None:
    """Record a problem if a case says nothing of a good answer; AgentV's may have a reference or evaluators instead."""
    if CaseModel.names().spelling_in(case, "expected_outcome") is not None:
        return
    if not is_foreign:
        reader.error(at, "the key 'expected_outcome' is missing")
    elif not any(case.get(key) for key in ("expected_messages", "evaluators", "rubrics")):
        reader.error(at, "the case has neither `criteria`, nor `expected_output`, nor `assertions`")


def _evaluators(
    reader: Reader, at: JsonPath, scope: EvaluatorScope, criteria: tuple[EvaluationCriteria, ...]
) -> tuple[EvaluatorConfig, ...] | None:
    """Return the case's own evaluators, preferably those under `execution`. Both lists are checked."""
    if scope.criteria_names is not None and criteria:
        scope = replace(scope, criteria_names=scope.criteria_names | {criterion.name for criterion in criteria})
    under_execution = read_evaluators(reader, (*at, "execution", "evaluators"), scope)
    top_level = read_evaluators(reader, (*at, "evaluators"), scope)
    return top_level if under_execution is None else under_execution


def _contents(reader: Reader, at: JsonPath, case: JsonObject, name: str, files: FileFinder) -> list[Content | None]:
    """Return the contents of messages; they are checked even if the case has other problems."""
    key = CaseModel.names().spelling_in(case, name)
    messages = None if key is None else case[key]
    if key is None or not isinstance(messages, list | tuple):
        return []
    return [read_content(reader, (*at, key, index), message, files) for index, message in enumerate(messages)]


def _messages(models: list[MessageModel], contents: list[Content | None]) -> tuple[Message, ...]:
    return tuple(model.to_message(content) for model, content in zip(models, contents, strict=True))


def _rubrics(reader: Reader, at: JsonPath, model: CaseModel) -> tuple[RubricItem, ...]:
    """Return the rubric items; an item without an id is named by its position."""
    items: list[RubricItem] = []
    seen: set[str] = set()
    for index, entry in enumerate(model.rubrics):
        item = RubricItemModel(description=entry) if isinstance(entry, str) else entry
        id_ = item.id or f"rubric-{index + 1}"
        if id_ in seen:
            reader.error((*at, index), f"a second rubric item with the id {id_!r}")
        seen.add(id_)
        items.append(
            RubricItem(
                id=id_,
                description=item.description,
                weight=item.weight,
                required=item.required,
                scale=item.scale,
                min_value=item.min_value,
            )
        )
    return tuple(items)
