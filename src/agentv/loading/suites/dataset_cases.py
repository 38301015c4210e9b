"""Cases made from the rows of datasets: by the roles of columns, and by a template of a case."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.datasets.rows import ListedRows, ListFile, ParquetFile, Row, RowFile, SpanFile, TableFile
from agentv.loading.files.documents import Document, JsonPath, Mark
from agentv.loading.models.eval_files import ROLES, CaseModel
from agentv.loading.models.reader import Reader, kind_of
from agentv.loading.suites.cases import (
    ReadRow,
    RowRules,
    complete_case,
    found_cases,
    in_row,
    is_case,
    make_read_row,
    read_case,
    without_content,
)
from agentv.loading.suites.plain_rows import ID_DIGITS, PlainRows
from agentv.loading.suites.variables import Template
from agentv.messages.logs.fields import at_path
from agentv.scoring.keys.identity import digest
from agentv.templating.case_variables import as_text
from agentv.types.cases import METADATA_PREFIX, BrokenCase, CaseSource, EvalCase, ListedCases, Location
from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import messages_to_json, pretty_json
from agentv.types.problems import Problem

if TYPE_CHECKING:
    from agentv.loading.datasets.log_rows import LoggedRow

_COLUMNS_SHOWN = 50
_HEAD_BYTES = 16 << 20
"""The maximum size of the texts of cases that are cached."""
_TAG_SEPARATOR = re.compile(r"[,;]")


def read_row(row: Row, shown: str, rules: RowRules) -> ReadRow:
    """Return the case of a row of the file `shown`; a BrokenCase for one with errors."""
    location = Location(rules.scope.file, row.line)
    if row.problems and not row.values:
        return ReadRow(BrokenCase(f"line-{row.line}", row.problems, location))
    reader = Reader(row.document or Document(shown, row.values, Mark(row.line, 1)), row.problems)
    if is_case(row.values):
        case = read_case(reader, row.at, rules.scope)
        return make_read_row(case, reader.problems, location, row.values.get("id"))
    logged = _read_logged(reader, row, shown, rules.columns)
    if isinstance(logged, ReadRow):
        return logged
    roles = _RoleValues(reader, row.at, row.values, rules=rules, logged=logged)
    if rules.template is None:
        return make_read_row(_case_by_roles(roles, location), reader.problems, location, roles.id)
    return _row_by_template(roles, rules.template, location, shown)


def _read_logged(reader: Reader, row: Row, shown: str, columns: Mapping[str, str]) -> "LoggedRow | ReadRow | None":
    """Return the conversation that a row logs; problems are recorded.

    A row that is a part of a trace gives a ReadRow with a warning. Return None for a row that logs nothing, and if
    `columns` names the column of the question.
    """
    # Here and below: datasets whose rows are cases need no reader of logs.
    from agentv.loading.datasets.log_rows import LoggedRow, is_logged, read_logged_row  # noqa: PLC0415

    paths = {"messages": columns["messages"]} if "messages" in columns else {}
    if "input" in map(_role, columns) or not (paths or is_logged(row.values)):
        return None
    if paths and at_path(row.values, paths["messages"]) is None:
        return None  # reported with the other columns
    try:
        logged = read_logged_row(row.values, paths)
    except EvalFileError as error:
        for each in error.problems:
            reader.error(row.at, f"{each.json_path} {each.message}".removeprefix("$ "), allowed=_COLUMNS_ADVICE)
        return None
    if isinstance(logged, LoggedRow):
        return logged
    message = f"no case, because it is a part of a trace: {logged.kind}"
    return ReadRow(None, (Problem(shown, message, row.line, 1, severity="warning"),))


_COLUMNS_ADVICE = "name other columns with `columns: {messages: PATH}` or `columns: {input: PATH, expected: PATH}`"


class _RoleValues:
    """The parts of a case that a row gives, by the roles of its columns; a wrong value is recorded as a problem.

    A `logged` conversation gives the messages and the session, and the reference if no column does. Its id and metadata
    replace the row's own `id` and `metadata`, except an id from a column that `rules.columns` names.
    """

    def __init__(
        self, reader: Reader, at: JsonPath, row: JsonObject, rules: RowRules, logged: "LoggedRow | None" = None
    ) -> None:
        self.reader, self.at, self.rules, self._logged = reader, at, rules, logged
        self.row = row if logged is None else {**logged.variables, **row}
        self._columns = _columns_by_role(row, rules.columns, reader, at)
        found = self._value("id")
        if logged is not None and logged.id and "id" not in rules.columns:
            found = logged.id  # an export may have another `id` beside that of its conversation
        self.id = as_text(found) if found not in (None, "") else digest(row)[:ID_DIGITS]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages before the answer; () without a question."""
        if self._logged is not None:
            return self._logged.messages
        question = self._question
        return () if question is None else (question,)

    @property
    def session_id(self) -> str | None:
        """The session of a logged conversation."""
        return None if self._logged is None else self._logged.session_id

    @property
    def _question(self) -> Message | None:
        """The question as a user message."""
        column, value = self._columns.get("input"), self._value("input")
        if column is None or value is None:
            return None
        if isinstance(value, Mapping):
            return Message("user", value)
        if not isinstance(value, str | int | float):
            is_list = isinstance(value, list | tuple)
            advice = f"name messages with `columns: {{messages: {column}}}`" if is_list else None
            message = f"the question must be a text or an object, but is {kind_of(value)}"
            self.reader.error((*self.at, column), message, allowed=advice)
            return None
        if value == "":
            self.reader.error((*self.at, column), f"the column {column!r}, the question, is empty")
            return None
        return Message("user", as_text(value))

    @property
    def reference(self) -> Message | None:
        """The reference answer as an assistant message; None for an empty one."""
        value = self._value("expected")
        if value is None and self._logged is not None:
            value = self._logged.expected
        if value is None or value == "":
            return None
        return Message("assistant", pretty_json(value) if isinstance(value, list | tuple) else _content(value))

    @property
    def outcome(self) -> str:
        """The expected outcome; "" for none."""
        value = self._value("expected_outcome")
        return "" if value is None else as_text(value)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags: a text is split at each `,` and `;`."""
        value = self._value("tags")
        if value is None:
            return ()
        parts = _TAG_SEPARATOR.split(as_text(value)) if not isinstance(value, list | tuple) else map(as_text, value)
        return tuple(part.strip() for part in parts if part.strip())

    @property
    def metadata(self) -> dict[str, JsonValue]:
        """The columns `metadata.X`, and an object in a column `metadata`."""
        whole = self.row.get("metadata")
        entries = dict(whole) if isinstance(whole, Mapping) else {}
        if self._logged is not None:
            entries = dict(self._logged.metadata)
        for role, column in self._columns.items():
            if role.startswith(METADATA_PREFIX) and (column in self.row or self._value(role) is not None):
                entries[role.removeprefix(METADATA_PREFIX)] = self._value(role)
        return entries

    @property
    def same_as_built_in(self) -> frozenset[str]:
        """The columns with the same name and value as a built-in variable of prompts."""
        columns = (self._columns.get(role) for role in ("input", "expected", "expected_outcome"))
        names = ("question", "input", "prompt", "expected_output", "expected_outcome")
        return frozenset(column for column in columns if column in names)

    def report_no_question(self) -> None:
        """Record the problem that no column gives the question."""
        roles = ("input", "question", "prompt")
        near = next(filter(None, (nearest(name, roles) for name in islice(self.row, _COLUMNS_SHOWN))), None)
        self.reader.error(
            self.at,
            "the row has no question: no column `input`, `question` or `prompt`",
            allowed=f"columns: {_listed(self.row)}; name one in `columns: {{input: …}}`, or write `case: {{input: …}}`",
            suggestion=near,
        )

    def _value(self, role: str) -> JsonValue:
        column = self._columns.get(role)
        if column is None:
            return None
        return self.row[column] if column in self.row else at_path(self.row, column)


def _listed(columns: Collection[str]) -> str:
    """Return the first columns of a row, and the number of all others."""
    more = len(columns) - _COLUMNS_SHOWN
    return ", ".join(islice(columns, _COLUMNS_SHOWN)) + (f" and {more:,} more" if more > 0 else "") or "none"


def _role(name: str) -> str:
    return ROLES.get(name, name)


def _content(value: JsonValue) -> str | JsonObject:
    return value if isinstance(value, Mapping) else as_text(value)


def _columns_by_role(row: JsonObject, given: Mapping[str, str], reader: Reader, at: JsonPath) -> dict[str, str]:
    """Return the column of each role: the one in `given`, else the first in the order of ROLES."""
    columns: dict[str, str] = {}
    for role, column in given.items():
        columns[_role(role)] = column
        if column not in row and at_path(row, column) is None:
            near = nearest(column, row)
            message = f"there is no column {column!r}, which `columns` names"
            reader.error(at, message, allowed=f"columns: {_listed(row)}", suggestion=near)
    for name, role in ROLES.items():
        if name in row and role not in columns:
            columns[role] = name
    for name in row:
        if name.startswith(METADATA_PREFIX):
            columns.setdefault(name, name)
    return columns


def _case_by_roles(roles: _RoleValues, location: Location) -> EvalCase | None:
    """Return a case made from the columns of a row."""
    messages, reference, scope = roles.messages, roles.reference, roles.rules.scope
    needs_question = scope.parts is None or scope.parts.needs_messages
    if not messages and (needs_question or roles.reader.problems):
        if not roles.reader.problems:
            roles.report_no_question()
        return None
    case = EvalCase(
        id=roles.id,
        input_messages=messages,
        expected_outcome=roles.outcome,
        expected_messages=() if reference is None else (reference,),
        tags=roles.tags,
        metadata=roles.metadata,
        conversation_id=roles.session_id,
        location=location,
    )
    if scope.parts is None or (case.expected_outcome and not scope.parts.vary_by_case):
        return case
    if scope.variables is not None and scope.parts.vary_by_case:
        values = scope.variables.of_case(row=roles.row)
        evaluators = replace(scope.evaluators, variables=values, same_as_built_in=roles.same_as_built_in)
        scope = replace(scope, evaluators=evaluators)
    return complete_case(roles.reader, roles.at, case, scope)


def _row_by_template(roles: _RoleValues, template: Template, location: Location, shown: str) -> ReadRow:
    """Return the case of a template that is filled from a row; keys that the template lacks come from the columns."""
    scope = roles.rules.scope
    variables = scope.variables
    written = template.value
    own = written.get("vars") if isinstance(written, Mapping) else None
    own = own if isinstance(own, Mapping) else None
    values = {} if variables is None else variables.of_case(row=roles.row, own=own)
    reader, filled = template.filled(values, "error" if variables is None else variables.undefined_severity)
    if isinstance(filled, dict):
        _add_roles(filled, roles)
    problems = [*roles.reader.problems]
    case = None if problems else read_case(reader, template.at, scope, row=roles.row)
    for each in reader.problems:
        is_of_suite = each.path == template.document.path
        roles.reader.problems.append(in_row(each, shown, location.line) if is_of_suite else each)
    case_id = filled.get("id") if isinstance(filled, Mapping) else None
    return make_read_row(case, roles.reader.problems, location, case_id)


def _add_roles(filled: dict[str, JsonValue], roles: _RoleValues) -> None:
    """Add the keys that a filled template lacks, from the columns of a row."""
    names = CaseModel.names()
    present = {name for key in filled if (name := names.of(key)) is not None}
    if "id" not in present:
        filled["id"] = roles.id
    if present.isdisjoint(("input", "turns", "skip")):
        messages = roles.messages
        if messages:
            filled["input"] = messages_to_json(messages)
        elif not roles.reader.problems and (roles.rules.scope.parts is None or roles.rules.scope.parts.needs_messages):
            roles.report_no_question()
    if "expected" not in present and (reference := roles.reference) is not None:
        filled["expected"] = [{"role": "assistant", "content": cast(JsonValue, reference.content)}]
    if "conversation_id" not in present and roles.session_id is not None:
        filled["conversation_id"] = roles.session_id
    if "expected_outcome" not in present and roles.outcome:
        filled["expected_outcome"] = roles.outcome
    if "tags" not in present and roles.tags:
        filled["tags"] = list(roles.tags)
    metadata = filled.get("metadata")
    if roles.metadata and (metadata is None or isinstance(metadata, Mapping)):
        filled["metadata"] = {**roles.metadata, **(metadata or {})}


def _split_records(row: Row, columns: Mapping[str, str]) -> Iterator[Row]:
    """Yield the records of a page that an API returned as rows; any other row unchanged.

    A row that has one of `columns` is also unchanged.
    """
    if any(at_path(row.values, column) is not None for column in columns.values()):
        yield row
        return
    from agentv.loading.datasets.log_rows import records_of  # noqa: PLC0415

    for each in records_of(row.values, is_whole=row.is_whole):
        yield row if each is row.values else Row(row.line, each)


class DatasetCases(Struct, frozen=True):
    """The cases of a file of rows, which is read again on each iteration."""

    rows: RowFile
    rules: RowRules
    head: tuple[EvalCase | BrokenCase, ...] = ()
    """The first cases, cached."""

    @property
    def count(self) -> int | None:
        """Return None: the length is unknown before the file is read."""
        return None

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the case of each row; a row with errors becomes a BrokenCase."""
        yield from self.head
        last = self.head[-1].location if self.head else None
        for found in self._found(after_line=0 if last is None else last.line):
            case = found.case if isinstance(found, ReadRow) else found
            if case is not None:
                yield case

    def read(self) -> Iterator[ReadRow]:
        """Yield the rows, each as a case with its warnings."""
        return (found if isinstance(found, ReadRow) else ReadRow(found) for found in self._found())

    def _found(self, *, after_line: int = 0) -> Iterator[ReadRow | EvalCase]:
        """Yield the rows after line `after_line`: a case if there are no warnings, else what was read."""
        name, rules = self.rows.shown, self.rules
        plain = PlainRows(rules) if isinstance(self.rows, TableFile) else None
        rows: Iterable[Row] = self.rows
        if isinstance(rows, SpanFile | ListFile):
            from agentv.loading.datasets.trace_rows import joined_rows  # noqa: PLC0415 - few datasets are traces

            rows = joined_rows(rows, name)
        for row in rows:
            if row.line <= after_line:
                continue
            case = None if plain is None else plain.case(row)
            if case is not None:
                yield case
                continue
            read = [read_row(each, name, rules) for each in _split_records(row, rules.columns)]
            if plain is not None:
                plain.compare(row, read)
            yield from read

    def count_rows(self) -> int | None:
        """Return the number of rows, without making cases of them; None if it cannot be counted."""
        return self.rows.count()


def check_rows(rows: RowFile, rules: RowRules, *, most: int) -> tuple[CaseSource, list[ReadRow]]:
    """Return the cases of a file of rows, and its first rows: at most `most`, but all of a JSON or YAML file.

    Rows of a table or Parquet file after the first 16 MiB are returned without the content of their cases.

    Raises EvalFileError for a file that cannot be read, AgentvError for a function that fails.
    """
    if isinstance(rows, ListFile | ListedRows):
        read = list(DatasetCases(rows, rules).read())
        return ListedCases(found_cases(read)), read
    read, head, size = list[ReadRow](), list[EvalCase | BrokenCase](), 0
    for row in islice(DatasetCases(rows, rules).read(), most):
        size += _size_of(row.case) if isinstance(rows, TableFile | ParquetFile) else 0
        read.append(row if size <= _HEAD_BYTES else without_content(row))
        if size <= _HEAD_BYTES and row.case is not None:
            head.append(row.case)
    if len(read) < most and size <= _HEAD_BYTES:
        return ListedCases(tuple(head)), read
    # With cached rows, reading would continue at the line after them, but the spans of many lines are joined.
    return DatasetCases(rows, rules, () if isinstance(rows, SpanFile) else tuple(head)), read


def _size_of(case: EvalCase | BrokenCase | None) -> int:
    """Return the bytes that the texts of a case take."""
    messages = (*case.input_messages, *case.expected_messages) if isinstance(case, EvalCase) else ()
    return sum(getsizeof(message.content) for message in messages)
