"""The description of a run of given answers, for run.json."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.engine.calling.given_answer import GIVEN_ANSWER
from agentv.engine.planning.provenance import load_git_state
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import Clock
from agentv.types.records.run import RunRecord
from agentv.version import __version__


class ScoredRun(Struct, frozen=True):
    """A run of given answers before its first line."""

    suite: str
    sha256: str
    configuration: JsonObject
    home: Path
    """The `.agentv` folder."""
    folder: str
    """The working folder."""
    name: str | None = None
    targets: tuple[str, ...] = ()
    gates: Sequence[ScopedGate] | None = None
    options: JsonObject = field(default_factory=dict)
    reading: JsonObject = field(default_factory=dict)
    """How the lines were read, so that the run can be resumed; empty for answers from Python."""
    store: str | None = None

    def to_record(self, run_id: str, *, clock: Clock) -> RunRecord:
        """Return the content of run.json."""
        plan: dict[str, JsonValue] = {
            "folder": os.path.relpath(self.folder, self.home.parent),
            "rows": None,
            "suites": [{"path": self.suite, "sha256": self.sha256, "cases": None}],
            "targets": [{"name": name, "provider": GIVEN_ANSWER} for name in self.targets],
            "options": self.options,
            "scored": {"configuration": self.configuration, **self.reading},
            "python": platform.python_version(),
        }
        if self.store is not None:
            plan["store"] = self.store
        if self.gates is not None:
            plan["gates"] = [{"expression": each.gate.expression, "suite": None} for each in self.gates]
        return RunRecord(
            run_id=run_id,
            created_at=clock(),
            agentv_version=__version__,
            plan=plan,
            name=self.name,
            git=load_git_state(self.folder),
        )
