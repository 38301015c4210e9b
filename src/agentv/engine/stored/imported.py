"""Runs that `agentv convert` made from the logs of other programs."""

from collections.abc import Mapping

from msgspec import Struct

from agentv.types.json_value import JsonObject


class ImportedLog(Struct, frozen=True):
    """The log that a run was converted from."""

    program: str
    file: str
    status: str
    """As recorded in the log."""
    failure: str | None = None
    """As recorded in the log."""

    @property
    def note(self) -> str:
        """The note for reports on where the run comes from."""
        return f"converted from {self._log}; its results are judged by the default gate"

    @property
    def why_incomplete(self) -> str | None:
        """The reason for missing results, None if the log records none."""
        return None if self.failure is None else f"{self.program} recorded the failure {self.failure}"

    @property
    def refusal(self) -> str:
        """The reason why the run cannot be continued or judged again, to follow its name."""
        return f"was converted from {self._log}: its cases and evaluators are not files of agentv"

    @property
    def _log(self) -> str:
        return f"a log of {self.program} (status {self.status}), {self.file}"


def imported_log(plan: JsonObject) -> ImportedLog | None:
    """Return the log that the run with this plan was converted from, None for a run of agentv."""
    value = plan.get("imported")
    if not isinstance(value, Mapping):
        return None
    program = " ".join(str(value[key]) for key in ("program", "version") if value.get(key))
    failure = value.get("error")
    return ImportedLog(
        program=program,
        file=str(value.get("file")),
        status=str(value.get("status")),
        failure=failure if isinstance(failure, str) else None,
    )
