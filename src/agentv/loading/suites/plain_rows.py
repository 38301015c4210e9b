"""The fast path for rows of tables: cases made of columns of text."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from agentv.loading.datasets.rows import Row
from agentv.loading.models.eval_files import ROLES
from agentv.loading.suites.cases import ReadRow, RowRules, is_case
from agentv.scoring.keys.identity import canonical_json, digest_of_texts
from agentv.types.cases import METADATA_PREFIX, EvalCase, Location
from agentv.types.messages import Message
from agentv.types.structs import blank

ID_DIGITS = 12
"""The length of an id that is made of a row without one."""
_OTHER_COLUMNS = frozenset(
    "messages metadata output outputs response run_type span_kind tags".split()  # noqa: SIM905 - a list of words
)
"""Columns with which a row may be a log or an export, or whose texts are read further."""
_BLANK_CASE = blank(EvalCase)

_Kind: TypeAlias = tuple[bool, bool]
"""Whether a case has a reference answer, and whether it has an expected outcome."""


class _Columns(NamedTuple):
    """The columns of the parts of a case; "" for a part without a column."""

    question: str
    id: str
    reference: str
    outcome: str
    metadata: tuple[tuple[str, str], ...]
    """The columns `metadata.NAME`, each with its name."""
    all: tuple[tuple[str, str], ...]
    """All columns, sorted, each with its JSON, for the id of a row without one."""


class PlainRows:
    """Makes the cases of rows whose columns need no more than to be copied.

    The first row of each kind is compared with the case that the general reader makes of it. If they differ, or there
    is a warning, all rows of its kind are left to the general reader.
    """

    def __init__(self, rules: RowRules) -> None:
        parts, scope = rules.scope.parts, rules.scope
        varies = rules.template is not None or rules.columns or (parts is not None and parts.vary_by_case)
        self._file = scope.file
        self._columns: _Columns | None = None
        self._is_new = not (varies or scope.is_foreign)
        self._is_plain: dict[_Kind, bool] = {}

    def case(self, row: Row) -> EvalCase | None:
        """Return the case of a row, None if the general reader must make it."""
        case = self._make(row)
        return case if case is not None and self._is_plain.get(_kind_of(case)) else None

    def compare(self, row: Row, read: list[ReadRow]) -> None:
        """Compare the case of a row with the one that the general reader made, unless its kind was compared before."""
        case = self._make(row)
        if case is not None:
            self._is_plain.setdefault(_kind_of(case), read == [ReadRow(case)])

    def _make(self, row: Row) -> EvalCase | None:
        if row.problems:
            return None
        values = cast(Mapping[str, str], row.values)  # the cells of a table are texts
        if self._is_new:
            self._columns, self._is_new = _find_columns(values), False
        if self._columns is None:
            return None
        question_column, id_column, reference_column, outcome_column, metadata, names = self._columns
        question = values[question_column]
        if not question:
            return None
        reference = values[reference_column] if reference_column else ""
        return replace(
            _BLANK_CASE,
            id=(values[id_column] if id_column else "") or digest_of_texts(values, names)[:ID_DIGITS],
            input_messages=(Message("user", question),),
            expected_outcome=values[outcome_column] if outcome_column else "",
            expected_messages=(Message("assistant", reference),) if reference else (),
            metadata={name: values[column] for name, column in metadata},
            location=Location(self._file, row.line),
        )


def _kind_of(case: EvalCase) -> _Kind:
    return bool(case.expected_messages), bool(case.expected_outcome)


def _find_columns(names: Collection[str]) -> _Columns | None:
    """Return the columns of a table; None if its rows need the general reader, or have no question."""
    is_other = any(name in _OTHER_COLUMNS for name in names) or is_case(dict.fromkeys(names, ""))
    found: dict[str, str] = {}
    for name, role in ROLES.items():
        if name in names:
            found.setdefault(role, name)
    if is_other or "input" not in found:
        return None
    metadata = tuple((name.removeprefix(METADATA_PREFIX), name) for name in names if name.startswith(METADATA_PREFIX))
    return _Columns(
        question=found["input"],
        id=found.get("id", ""),
        reference=found.get("expected", ""),
        outcome=found.get("expected_outcome", ""),
        metadata=metadata,
        all=tuple((name, canonical_json(name)) for name in sorted(names)),
    )
