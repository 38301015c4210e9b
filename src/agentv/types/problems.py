"""A located problem of a file, as loaders report it and `agentv check` prints it."""

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning"]


class Problem(Struct, frozen=True):
    """One problem in a file, with its position and what is allowed instead.

    `line` and `column` count from 1; 0 means the whole file. `json_path` starts with `$`.
    `allowed` is a clause on what is allowed instead; `suggestion` completes "did you mean …?".
    """

    path: str
    message: str
    line: int = 0
    column: int = 0
    json_path: str = "$"
    allowed: str | None = None
    suggestion: str | None = None
    severity: Severity = "error"

    def render(self) -> str:
        """Return `path:line:col  $.json.path  what is wrong; what is allowed; did you mean …?` on one line."""
        parts = [self.message]
        if self.allowed:
            parts.append(self.allowed)
        if self.suggestion:
            parts.append(f"did you mean {self.suggestion!r}?")
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        mark = "warning: " if self.severity == "warning" else ""
        return f"{place}  {self.json_path}  {mark}{'; '.join(parts)}"
