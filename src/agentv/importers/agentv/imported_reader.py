"""The reader of a translated document, and the paths that its problems have in the file before the translation."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from agentv.loading.files.documents import Document, Mark, containers, shown_path
from agentv.loading.models.reader import Reader
from agentv.types.problems import Problem


class ImportedReader(Reader):
    """A reader of a translated document. all_problems() gives its problems the paths of the file before translation."""

    def __init__(self, document: Document, problems: Sequence[Problem], source: Reader, written: Document) -> None:
        super().__init__(document, problems)
        self._source = source
        self._written = written

    def all_problems(self) -> list[Problem]:
        """Return the problems of the translation, then those of reading the result."""
        of_translation = self._source.problems
        if self._source.document is not self._written:
            of_translation = with_source_paths(of_translation, self._written)
        return [*of_translation, *with_source_paths(self.problems, self._written)]


def with_source_paths(problems: Iterable[Problem], source: Document) -> list[Problem]:
    """Return problems of a translated file, each with the path that its position has in the source."""
    listed = list(problems)
    if not any(problem.path == source.path and problem.line for problem in listed):
        return listed
    paths: dict[Mark, list[str]] = {source.start: [shown_path(())]}
    for path, container in containers(source.value):
        for key, spot in source.marks.get(id(container), {}).items():
            for mark in {spot.key, spot.value}:
                paths.setdefault(mark, []).append(shown_path((*path, key)))
    return [_with_path(problem, paths) if problem.path == source.path else problem for problem in listed]


def _with_path(problem: Problem, paths: Mapping[Mark, Sequence[str]]) -> Problem:
    """Return a problem with the source path at its position, preferably one that ends with the same key.

    Without a path at its position, return it unchanged.
    """
    found = paths.get(Mark(problem.line, problem.column), ())
    if not found or problem.json_path in found:
        return problem
    last_step = problem.json_path[max(problem.json_path.rfind("."), problem.json_path.rfind("[")) :]
    return replace(problem, json_path=next((path for path in found if path.endswith(last_step)), found[0]))
