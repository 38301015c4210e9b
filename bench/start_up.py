"""The start-up time of the command line: CPU time of the process, compared with that of a bare interpreter."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.installed import installed_environment
from bench.measuring import Effort, children_time, seconds_per_call
from bench.rows import Row, row_of

CALLS = 5
QUICKSTART = Path(__file__).parent.parent / "examples" / "quickstart"
COMMANDS = {"agentv --help": ("--help",), "agentv run quickstart --dry-run": ("run", "quickstart", "--dry-run")}


def measure(effort: Effort) -> Iterator[Row]:
    """Yield a row for each command, for orientation."""
    with TemporaryDirectory() as folder:
        shutil.copytree(QUICKSTART, Path(folder, "quickstart"))
        environment = installed_environment(Path(folder, "compiled"))

        def start(*arguments: str) -> None:
            command = [sys.executable, *arguments]
            subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)  # noqa: S603 - ours

        for shown, arguments in COMMANDS.items():
            own, bare = seconds_per_call(
                partial(start, "-m", "agentv", *arguments),
                partial(start, "-c", "pass"),
                calls=CALLS,
                effort=effort,
                clock=children_time,
            )
            yield row_of(shown, own, beside="python -c pass", theirs=bare)
