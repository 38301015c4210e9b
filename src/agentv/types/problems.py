"""A located problem of a file, as loaders report it and `agentv check` prints it."""

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning"]


class Problem(Struct, frozen=True):
    """One problem in a file, with its position and what is allowed instead."""

    path: str
    message: str
    line: int = 0
    """Counted from 1; 0 means the whole file."""
    column: int = 0
    """Counted from 1; 0 means the whole file."""
    json_path: str = "$"
    """Starts with `$`."""
    allowed: str | None = None
    """A clause on what is allowed instead."""
    suggestion: str | None = None
    """Completes "did you mean …?"."""
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
