"""Which database the team's runs are kept in: an option, an environment variable, or the project's file."""

from collections.abc import Mapping
from pathlib import Path

from agentv.loading.dotenv import load_env
from agentv.loading.places import find_repository_root
from agentv.loading.project import load_project
from agentv.templating.environment import fill_variables, variables_in
from agentv.types.errors import ConfigError

STORE_VARIABLE = "AGENTV_STORE"
NO_STORE = "none"


def choose_store(option: str | None, cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the team's database, None when there is none.

    It is the option, else `AGENTV_STORE` (of the environment or `.env`), else `store:` of the nearest `.agentv.yaml`,
    whose `${{ NAME }}` are filled in; `none` at an earlier place turns off a later one. Raises ConfigError for a
    variable that is not set, and EvalFileError for a broken file.
    """
    env = load_env(cwd, environ)
    found = option or env.get(STORE_VARIABLE)
    if not found:
        project = load_project(cwd, find_repository_root(cwd))
        found = project.store and _filled(project.store, env, project.sources["store"])
    return None if not found or found == NO_STORE else found


def _filled(text: str, env: Mapping[str, str], path: Path) -> str:
    missing = [name for name in variables_in(text) if not env.get(name)]
    if missing:
        raise ConfigError(
            f"{path}: `store` needs the environment variable {missing[0]}, which is not set; "
            "set it, or give --store none to keep the run on this machine alone"
        )
    return fill_variables(text, env)
