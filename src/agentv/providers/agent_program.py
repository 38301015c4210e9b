"""Where an agent's program is: found, or refused with what was looked for and where."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure


def find_program(executable: str, *, base_dir: Path, env: Mapping[str, str], install: str) -> str:
    """Return the path of a program given by name (looked for in PATH) or by path (a relative one from `base_dir`).

    Raises ProviderError that names the places and how to `install` the program.
    """
    if os.sep in executable:
        path = base_dir / Path(executable).expanduser()
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.absolute())
        problem = "is not a program that can be run" if path.exists() else "is not there"
        raise ProviderError(_missing(f"{path} {problem}; `executable` names it", install))
    search = env.get("PATH", os.environ.get("PATH", os.defpath))
    found = shutil.which(executable, path=search)
    if found is None:
        places = ", ".join(dict.fromkeys(place for place in search.split(os.pathsep) if place))
        raise ProviderError(_missing(f"there is no {executable!r} in PATH ({places})", install))
    return str(Path(found).absolute())


def _missing(what: str, install: str) -> Failure:
    message = f"{what}; install it with `{install}`, or name its path as `executable`"
    return Failure("target_missing", message, stage="healthcheck")
