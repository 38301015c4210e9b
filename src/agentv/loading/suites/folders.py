"""What all eval files of one folder share: its project, environment and root. It is read once for all of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.dotenv import load_env
from agentv.loading.files.path_guard import PathGuard, guard_for
from agentv.loading.files.places import find_repository_root
from agentv.loading.project import ProjectConfig, read_project
from agentv.loading.suites.named_definitions import find_criteria_file
from agentv.types.problems import Problem


class SuiteFolder(Struct, frozen=True):
    """What the eval files of one folder share."""

    path: Path
    """The folder, with links resolved."""
    repository_root: Path
    guard: PathGuard
    env: Mapping[str, str]
    """The variables of this process and of the nearest `.env` file."""
    project: ProjectConfig
    problems: tuple[Problem, ...]
    """The problems of the project files."""
    criteria_file: Path | None


class SuiteFolders:
    """The folders of eval files, each read when its first file is; `allow_paths` are those of the options."""

    def __init__(self, allow_paths: Sequence[str] = ()) -> None:
        self._allow_paths = tuple(allow_paths)
        self._by_path: dict[Path, SuiteFolder] = {}

    def folder_of(self, file: Path) -> SuiteFolder:
        """Return the folder of an eval file. Raises EvalFileError for a broken `.env` file."""
        path = file.resolve().parent
        found = self._by_path.get(path)
        if found is None:
            found = self._by_path[path] = self._read(path)
        return found

    def _read(self, path: Path) -> SuiteFolder:
        root = find_repository_root(path)
        project, problems = read_project(path, root)
        return SuiteFolder(
            path=path,
            repository_root=root,
            guard=guard_for(path, cwd=Path.cwd(), allow_paths=self._allow_paths),
            env=load_env(path, os.environ),
            project=project,
            problems=problems,
            criteria_file=find_criteria_file(path, root),
        )
