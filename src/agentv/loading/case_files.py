"""What stands under `evalcases` → sources of cases: a list, other files, or a JSON Lines file that is a stream."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.attached_files import FileProblemError
from agentv.loading.case_sources import LINES_CHECKED_AT_LOAD, JoinedCases, JsonLinesCases, repeated_id
from agentv.loading.cases import CaseScope, read_case
from agentv.loading.documents import JsonPath
from agentv.loading.eval_models import CaseFilesModel, SuiteModel
from agentv.loading.file_kinds import CASE_KEYS, YAML_SUFFIXES
from agentv.loading.reader import Reader
from agentv.loading.text_files import shown
from agentv.loading.yaml_files import open_yaml
from agentv.types.cases import BrokenCase, CaseSource, EvalCase, ListedCases, Location
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem


class CasesReader(Struct):
    """Collects the sources of one suite's cases; `problems` are those of all files but the first."""

    scope: CaseScope
    parts: list[CaseSource] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _ids: dict[str, Location] = field(default_factory=dict)

    def source(self) -> CaseSource:
        """Return all cases as one source."""
        return JoinedCases(tuple(self.parts), self.scope.files.repository_root)

    def read(self, reader: Reader) -> None:
        """Read what stands under `evalcases` in the eval file itself."""
        raw = reader.document.value
        key = SuiteModel.names().written(raw, "evalcases")
        if key is None:
            reader.error((), "the key 'evalcases' is missing", allowed="it lists the cases, or names files with cases")
            return
        value = reader.document.at((key,))
        if isinstance(value, str):
            self._read_files(reader, (key,), value)
        elif isinstance(value, Mapping):
            model = reader.read(CaseFilesModel, (key,))
            if model is not None:
                self._read_files(reader, (key, "file"), model.file)
        else:
            self._read_list(reader, (key,), self.scope)

    def _read_list(self, reader: Reader, at: JsonPath, scope: CaseScope) -> None:
        raw = reader.document.at(at)
        if not isinstance(raw, list | tuple) or not raw:
            allowed = "a list with at least one case, {file: cases.jsonl}, or a pattern of files"
            reader.error(at, "there are no cases", allowed=allowed)
            return
        cases = [self._read_case(reader, (*at, index), scope) for index in range(len(raw))]
        self.parts.append(ListedCases(tuple(case for case in cases if case is not None)))

    def _read_case(self, reader: Reader, at: JsonPath, scope: CaseScope) -> EvalCase | None:
        case_id = reader.document.at((*at, "id"))
        if isinstance(case_id, str):
            place = Location(scope.file, reader.document.mark(at).line)
            first = self._ids.setdefault(case_id, place)
            if first is not place:
                problem = repeated_id(case_id, place, first)
                reader.error((*at, "id"), problem.message, allowed=problem.allowed)
        return read_case(reader, at, scope)

    def _read_files(self, reader: Reader, at: JsonPath, pattern: str) -> None:
        """Read the cases of the files that a path or pattern names."""
        files = self._matching(reader, at, pattern)
        for path in files:
            if path.suffix == ".jsonl":
                self.read_json_lines(path)
            elif path.suffix in YAML_SUFFIXES:
                self._read_yaml(path)
            else:
                reader.error(at, f"{path.name!r} is no file of cases", allowed="allowed: .yaml, .yml, .jsonl")

    def _matching(self, reader: Reader, at: JsonPath, pattern: str) -> Iterable[Path]:
        finder = self.scope.files
        if "*" not in pattern:
            try:
                return [finder.find(pattern)]
            except FileProblemError as error:
                reader.error(at, error.message, allowed=error.allowed, suggestion=error.suggestion)
                return []
        found = sorted(path for path in finder.base_dir.glob(pattern) if path.is_file())
        if not found:
            reader.error(at, f"no file matches {pattern!r}", allowed=f"searched in {finder.base_dir}")
        return found

    def _read_yaml(self, path: Path) -> None:
        """Read a YAML file of cases: a list, an object with `evalcases`, or one case."""
        try:
            reader = open_yaml(path)
        except EvalFileError as error:
            self.problems += error.problems
            return
        raw = reader.document.value
        scope = self._scope_of(path)
        key = next((key for key in CASE_KEYS if isinstance(raw, Mapping) and key in raw), None)
        if isinstance(raw, Mapping) and key is None:
            case = self._read_case(reader, (), scope)
            self.parts.append(ListedCases((case,) if case is not None else ()))
        else:
            self._read_list(reader, () if key is None else (key,), scope)
        self.problems += reader.problems

    def read_json_lines(self, path: Path) -> None:
        """Add a JSON Lines file as a stream, after a look at its first lines."""
        scope = self._scope_of(path)
        try:
            stream = JsonLinesCases(path, shown(path), scope).with_head(LINES_CHECKED_AT_LOAD)
            self.parts.append(stream)
            self.problems += self._first_problems(stream)
        except EvalFileError as error:
            self.problems += error.problems

    def _first_problems(self, stream: JsonLinesCases) -> Iterator[Problem]:
        empty = True
        for case in islice(stream, LINES_CHECKED_AT_LOAD):
            empty = False
            if isinstance(case, BrokenCase):
                yield from case.problems
                continue
            place = case.location or Location("")
            first = self._ids.setdefault(case.id, place)
            if first is not place:
                yield replace(repeated_id(case.id, place, first), path=stream.shown)
        if empty:
            yield Problem(stream.shown, "the file has no cases", 1, 1, allowed="one case per line, as a JSON object")

    def _scope_of(self, path: Path) -> CaseScope:
        return replace(self.scope, file=relative_name(path, self.scope.files.repository_root))


def relative_name(path: Path, root: Path) -> str:
    """Return a file's name in reports: relative to the repository root, with `/`."""
    real = path.resolve()
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else real.as_posix()
