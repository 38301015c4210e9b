"""Reading of an eval file as EvalSuite: its top level, the project's settings, and the source of its cases."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.criteria.criteria import named_criteria, read_criteria
from agentv.loading.files.attached import FileFinder
from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.files.dotenv import load_env
from agentv.loading.files.kinds import CASE_KEYS, YAML_SUFFIXES
from agentv.loading.files.path_guard import FileProblemError, find_matching, guard_for, is_pattern
from agentv.loading.files.places import find_repository_root, side_file
from agentv.loading.files.text import read_bytes, read_lines, sha256_of, shown
from agentv.loading.files.yaml import open_yaml
from agentv.loading.importers.agentv_files import AgentvImport, check_readable, later_problem, problems_of, start_import
from agentv.loading.models.reader import Reader, raise_errors
from agentv.loading.project import ProjectConfig, find_criteria_file, read_named_definitions, read_project
from agentv.loading.suites.case_sources import LINES_CHECKED_AT_LOAD, JoinedCases, JsonLinesCases, repeated_id
from agentv.loading.suites.cases import CaseScope, check_workspace, read_case
from agentv.loading.suites.evaluators import EvaluatorScope, check_single_form, read_evaluators
from agentv.loading.suites.models import CaseFilesModel, SuiteExecutionModel, SuiteModel, read_grader, warned_once
from agentv.registry import Specs
from agentv.types.cases import BrokenCase, CaseSource, EvalCase, EvalSuite, ListedCases, Location
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem, Severity


class CasesReader(Struct):
    """The sources of one suite's cases; `problems` are those of all files but the eval file itself."""

    scope: CaseScope
    parts: list[CaseSource] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    _ids: dict[str, Location] = field(default_factory=dict)

    def source(self) -> CaseSource:
        """Return all cases as one source."""
        return JoinedCases(tuple(self.parts), self.scope.files.repository_root)

    def read(self, reader: Reader) -> None:
        """Read `evalcases` in the eval file itself."""
        raw = reader.document.value
        key = SuiteModel.names().spelling_in(raw, "evalcases")
        if key is None:
            reader.error(
                (), "the key 'evalcases' is missing", allowed="it must list the cases, or name files that contain them"
            )
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
        cases: list[EvalCase] = []
        for index, item in enumerate(raw):
            if isinstance(item, str) and scope.is_foreign:
                self._add(cases)
                self._read_files(reader, (*at, index), item.removeprefix("file://"))
                cases = []
            elif (case := self._read_case(reader, (*at, index), scope)) is not None:
                cases.append(case)
        self._add(cases)

    def _add(self, cases: Sequence[EvalCase]) -> None:
        if cases or not self.parts:
            self.parts.append(ListedCases(tuple(cases)))

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
        folder = self.scope.files.base_dir / pattern.removeprefix("file://")
        if self.scope.is_foreign and folder.is_dir():
            self._read_folder(reader, at, folder)
            return
        files = self._matching(reader, at, pattern.removeprefix("file://") if self.scope.is_foreign else pattern)
        self.files += files
        for path in files:
            if path.suffix == ".jsonl":
                self.read_json_lines(path)
            elif path.suffix in YAML_SUFFIXES:
                self._read_yaml(path)
            else:
                reader.error(at, f"{path.name!r} is not a file of cases", allowed="allowed: .yaml, .yml, .jsonl")

    def _read_folder(self, reader: Reader, at: JsonPath, folder: Path) -> None:
        """Read the `case.yaml` of each folder in a folder; the name of its folder is the id of a case without one."""
        files = [path for suffix in YAML_SUFFIXES for path in folder.glob(f"*/case{suffix}")]
        if not files:
            reader.error(at, "the folder has no cases", allowed="each case is NAME/case.yaml in it")
        for path in sorted(files):
            self.files.append(path)
            self._read_yaml(path, case_id=path.parent.name)

    def _matching(self, reader: Reader, at: JsonPath, pattern: str) -> Iterable[Path]:
        finder = self.scope.files
        try:
            if not is_pattern(pattern):
                return [finder.find(pattern)]
            found = find_matching(pattern, finder.base_dir, finder.guard)
        except FileProblemError as error:
            reader.error(at, error.message, allowed=error.allowed, suggestion=error.suggestion)
            return []
        if not found:
            reader.error(at, f"no file matches {pattern!r}", allowed=f"searched in {finder.base_dir}")
        return found

    def _read_yaml(self, path: Path, case_id: str | None = None) -> None:
        """Read a YAML file of cases: a list, an object with `evalcases`, or one case.

        `case_id` is the id of a case without one.
        """
        try:
            reader = open_yaml(path)
        except EvalFileError as error:
            self.problems += error.problems
            return
        scope = self._scope_of(path)
        reader = scope.opened(reader)
        raw = reader.document.value
        key = next((key for key in CASE_KEYS if isinstance(raw, Mapping) and key in raw), None)
        if isinstance(raw, dict) and case_id is not None:
            raw.setdefault("id", case_id)
        if isinstance(raw, Mapping) and key is None:
            case = self._read_case(reader, (), scope)
            self.parts.append(ListedCases((case,) if case is not None else ()))
        else:
            self._read_list(reader, () if key is None else (key,), scope)
        self.problems += problems_of(reader)

    def read_json_lines(self, path: Path) -> None:
        """Add a JSON Lines file as a stream, after checking its first lines."""
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


class ParsedSuite(Struct, frozen=True):
    """The readable part of an eval file, and all problems of its files.

    `reader` is that of its top level, for further checks. `files` are those of its cases. `dialect` says which AgentV
    the file is of, "" for our own.
    """

    suite: EvalSuite | None
    problems: tuple[Problem, ...]
    project: ProjectConfig = field(default_factory=ProjectConfig)
    reader: Reader | None = None
    files: tuple[Path, ...] = ()
    dialect: str = ""


def load_suite(path: str | Path, *, specs: Specs, allow_paths: Sequence[str] = ()) -> EvalSuite:
    """Return an eval file as a suite. Raises EvalFileError with all its problems.

    In a JSON Lines file, the first 1,000 lines are checked now, the others when they are read.
    """
    read = read_suite(Path(path), specs, allow_paths=allow_paths)
    warnings = raise_errors(shown(Path(path)), read.problems)
    if read.suite is None:  # only with errors
        raise EvalFileError(shown(Path(path)), read.problems)
    return replace(read.suite, warnings=warnings)


def read_suite(
    path: Path,
    specs: Specs,
    *,
    plugins_imported: bool = True,
    content: bytes | None = None,
    allow_paths: Sequence[str] = (),
) -> ParsedSuite:
    """Return the readable part of an eval file. Without its plug-ins, an unknown type is only a warning.

    `content`, if given, is read instead of the current content of a YAML file. `allow_paths` are folders outside of
    the root of the eval file that its files may lie in, too.
    """
    try:
        check_readable(path)
        data = b"" if path.suffix == ".jsonl" else read_bytes(path) if content is None else content
        reader = _open_top_level(path, data)
        base = path.resolve().parent
        root = find_repository_root(base)
        guard = guard_for(base, cwd=Path.cwd(), allow_paths=allow_paths)
        importer = _importer(path, reader, base, guard.root, specs)
    except EvalFileError as error:
        return ParsedSuite(None, error.problems)
    if importer.concerns(reader.document.value):
        reader = importer.suite(reader)
    project, problems = read_project(base, root)
    unknown: Severity = "warning" if project.plugins and not plugins_imported else "error"
    scope = EvaluatorScope(specs.evaluators, str(base), guard, unknown_type=unknown)
    named, criteria_problems = read_named_definitions(find_criteria_file(base, root), scope)
    criteria = read_criteria(reader, ("criteria",), named_criteria(named.criteria, named.sets))
    scope = replace(
        scope,
        profiles=named.evaluators,
        criteria=named_criteria(named.criteria, named.sets),
        criteria_names=frozenset(criterion.name for criterion in criteria),
    )
    finder = FileFinder(
        base_dir=base,
        repository_root=root,
        cwd=Path.cwd(),
        guard=guard,
        guideline_patterns=project.guideline_patterns,
    )
    cases = CasesReader(CaseScope(scope, finder, relative_name(path, root), importer))
    if path.suffix == ".jsonl":
        cases.read_json_lines(path)
    elif isinstance(reader.document.value, Mapping):
        cases.read(reader)
    suite = _suite(reader, scope, criteria, cases)
    found = (*problems_of(reader), *cases.problems, *problems, *criteria_problems)
    if suite is not None:
        is_stream = path.suffix == ".jsonl" and not any(problem.severity == "error" for problem in found)
        sha256 = sha256_of(path) if is_stream else hashlib.sha256(data).hexdigest()
        suite = _with_project(suite, sha256, finder, project)
        suite = replace(suite, about=importer.about, dialect=importer.sentence)
    return ParsedSuite(
        suite,
        tuple(warned_once(found)),
        project=project,
        reader=reader,
        files=tuple(cases.files),
        dialect=importer.sentence,
    )


_LINES_LOOKED_AT = 100


def _importer(path: Path, reader: Reader, base: Path, root: Path, specs: Specs) -> AgentvImport:
    """Return the import of an eval file. Raises EvalFileError for a file of AgentV 5."""
    value = reader.document.value
    problem = later_problem(value, path, reader)
    if problem is not None:
        raise EvalFileError(shown(path), (problem,))
    lines = list(islice(_parsed_lines(path), _LINES_LOOKED_AT)) if path.suffix == ".jsonl" else []
    env = load_env(base, os.environ)
    known = specs.evaluators.__contains__
    return start_import(value, base=base, root=root, is_known_type=known, env=env, lines=lines)


def _parsed_lines(path: Path) -> Iterator[JsonValue]:
    """Yield the values of the lines that are JSON."""
    for line in read_lines(path):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _open_top_level(path: Path, data: bytes) -> Reader:
    """Return a reader of the suite's top level; that of a JSON Lines file is in its side file, if there is one."""
    if path.suffix != ".jsonl":
        return open_yaml(path, data)
    side = side_file(path)
    if side is None:
        return Reader(Document(shown(path), {}))
    return open_yaml(side)


def _suite(
    reader: Reader, scope: EvaluatorScope, criteria: tuple[EvaluationCriteria, ...], cases: CasesReader
) -> EvalSuite | None:
    model = reader.read(SuiteModel)
    evaluators = read_evaluators(reader, ("execution", "evaluators"), scope)
    if model is None:
        return None
    check_single_form(reader, (), model, scope)
    grader = read_grader(reader, (), model)
    execution = model.execution or SuiteExecutionModel()
    check_workspace(reader, ("execution", "workspace"), execution.workspace, cases.scope.files)
    return EvalSuite(
        path=cases.scope.file,
        cases=cases.source(),
        dataset=model.dataset or Path(cases.scope.file).stem,
        description=model.description,
        tags=tuple(model.tags),
        target=execution.target or model.target,
        targets=tuple(execution.targets),
        evaluators=evaluators,
        evaluator=model.evaluator or grader,
        criteria=criteria,
        workers=execution.workers,
        trials=execution.trials or 1,
        timeout_s=execution.timeout_seconds,
        evaluator_timeout_s=execution.evaluator_timeout_seconds,
        workspace=execution.workspace.given() if execution.workspace else None,
        gates=tuple(model.gates or ()),
        pass_score=execution.pass_score,
    )


def _with_project(suite: EvalSuite, sha256: str, finder: FileFinder, project: ProjectConfig) -> EvalSuite:
    """Return the suite with the values from its location and from the project."""
    return replace(
        suite,
        base_dir=str(finder.base_dir),
        repository_root=str(finder.repository_root),
        prices=project.prices,
        redact=project.redact,
        sha256=sha256,
    )
