"""A retry or rescore that was cut short: `agentv resume` goes on with it as it was asked for."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from agentv.pipeline.selection import is_meant
from agentv.scoring.aggregation import row_state
from agentv.storage.stored_run import StoredRun
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.result import CaseResult

GENERATION_STARTED = "generation_started"


class AskedGeneration(Struct, frozen=True):
    """What was asked for when rows of a finished run were to be done again, as the run's events keep it.

    `only` (`errors`, `failed`, `cases`) and `globs` say which rows a retry does, `evaluators` is the file that a
    rescore judges with, beside the `.agentv` folder. `rows` is how many lines of rows there were before.
    """

    purpose: str
    only: str = "errors"
    globs: tuple[str, ...] = ()
    evaluators: str | None = None
    rows: int = 0

    def to_event(self) -> JsonObject:
        """Return the fields of its event."""
        fields: dict[str, JsonValue] = {"purpose": self.purpose}
        if self.purpose == "retry":
            fields |= {"only": self.only, "cases": list(self.globs), "rows": self.rows}
        else:
            fields["evaluators"] = self.evaluators
        return fields


def unfinished_generation(run: StoredRun) -> AskedGeneration | None:
    """Return the retry or rescore that was begun and did not finish, if there is one."""
    begun = None
    for event in run.events():
        if event.type == GENERATION_STARTED:
            begun = _asked(event.fields)
        elif event.type == "ended" and event.fields.get("state") == "finished":
            begun = None
    return begun


def chosen_rows(only: str, globs: Sequence[str], *, before: int | None = None) -> Callable[[CaseResult], bool]:
    """Return which rows a retry does; with `before` none that stand behind that line, which it has done already."""

    def is_chosen(row: CaseResult) -> bool:
        if before is not None and row.seq is not None and row.seq >= before:
            return False
        if only == "cases":
            return any(is_meant(row.eval_id, glob) for glob in globs)
        return row_state(row) == "error" or (only == "failed" and row_state(row) not in ("pass", "skipped"))

    return is_chosen


def _asked(fields: JsonObject) -> AskedGeneration | None:
    purpose, evaluators, rows = fields.get("purpose"), fields.get("evaluators"), fields.get("rows")
    globs = fields.get("cases")
    if purpose == "rescore":
        return AskedGeneration("rescore", evaluators=evaluators if isinstance(evaluators, str) else None)
    if purpose != "retry" or not isinstance(rows, int):
        return None
    names = tuple(glob for glob in globs if isinstance(glob, str)) if isinstance(globs, list) else ()
    return AskedGeneration("retry", str(fields.get("only")), names, rows=rows)
