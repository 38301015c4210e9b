"""Reading of an eval file as EvalSuite: its top level, the project's settings, and the source of its cases."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.files.attached import FileFinder
from agentv.loading.files.documents import Document, JsonPath, shown_path
from agentv.loading.files.kinds import (
    CASE_KEYS,
    FUNCTION_REFERENCE,
    LINE_SUFFIXES,
    ROW_SUFFIXES,
    TABLE_SUFFIXES,
    YAML_SUFFIXES,
    is_span_file,
)
from agentv.loading.files.path_guard import FileProblemError, case_files, find_matching, is_pattern
from agentv.loading.files.places import find_repository_root, is_folder_path, side_file
from agentv.loading.files.text import read_bytes, sha256_of, shown
from agentv.loading.models.eval_files import (
    SINGLE_FORM_KEYS,
    DatasetModel,
    SuiteModel,
    read_grader,
    warned_once,
)
from agentv.loading.models.reader import Reader, kind_of, open_yaml, raise_errors
from agentv.loading.project import ProjectConfig
from agentv.loading.suites.case_sources import (
    JoinedCases,
    JsonLinesCases,
    UnknownCases,
    in_order_of_dependencies,
    repeated_id,
)
from agentv.loading.suites.cases import (
    CaseScope,
    ReadRow,
    RowRules,
    SuiteParts,
    check_workspace,
    found_cases,
    read_case,
)
from agentv.loading.suites.criteria import named_criteria, read_criteria
from agentv.loading.suites.evaluators import EvaluatorScope, check_single_form, read_evaluators
from agentv.loading.suites.folders import SuiteFolders
from agentv.loading.suites.named_definitions import read_named_definitions
from agentv.loading.suites.prompts import read_prompts
from agentv.loading.suites.scored_digest import scored_sha256
from agentv.loading.suites.settings import check_places, setting_path, suite_settings
from agentv.loading.suites.variables import (
    SuiteVariables,
    Template,
    fill_in_place,
    has_prompt,
    needs_filling,
    read_variables,
    used_variables,
)
from agentv.loading.suites.whole_suite import suite_warnings
from agentv.loading.translation.importers import SuiteImport, importers_of
from agentv.registry import Specs
from agentv.types.cases import (
    CASES_CHECKED_AHEAD,
    DEFAULT_CONFIRM_RERUNS,
    METADATA_PREFIX,
    CaseSource,
    EvalCase,
    EvalSuite,
    ListedCases,
    Location,
)
from agentv.types.errors import AgentvError, ConfigError, EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem, Severity
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import TargetConfig, name_of_target

if TYPE_CHECKING:
    from agentv.loading.datasets.rows import RowFile


class CasesReader(Struct):
    """The sources of one suite's cases."""

    scope: CaseScope
    eval_file: str
    """The name of the eval file in messages."""
    calls_functions: bool = True
    """If False, no function of a dataset is called; a warning reports that its cases are unknown."""
    parts: list[CaseSource] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """The problems of every file except the eval file itself."""
    row_problems: list[Problem] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    """The files of cases."""
    code: list[Path] = field(default_factory=list)
    """The files with functions that return cases."""
    _ids: dict[str, Location] = field(default_factory=dict)
    _being_read: set[Path] = field(default_factory=set)
    _dependent_places: dict[str, tuple[Document, JsonPath]] = field(default_factory=dict)
    """The places of listed cases that depend on others, by id."""

    def source(self) -> JoinedCases:
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
            self._read_named(reader, (key,), value, RowRules(self.scope))
        elif isinstance(value, Mapping):
            self._read_dataset(reader, (key,))
        else:
            self._read_list(reader, (key,), self.scope)

    def _read_list(self, reader: Reader, at: JsonPath, scope: CaseScope) -> None:
        raw = reader.document.at(at)
        if not isinstance(raw, list | tuple) or not raw:
            allowed = "a list with at least one case, {file: cases.jsonl}, or a pattern of files"
            reader.error(at, "there are no cases", allowed=allowed)
            return
        cases: list[EvalCase] = []
        with_input: list[JsonPath] = []
        for index, item in enumerate(raw):
            if isinstance(item, str) and scope.is_foreign:
                self._add_listed(cases)
                self._read_named(reader, (*at, index), item, RowRules(self.scope))
                cases = []
            elif (case := self._read_case(reader, (*at, index), scope)) is not None:
                cases.append(case)
                if case.input_messages:
                    with_input.append((*at, index))
        self._add_listed(cases)
        _warn_of_unsent_inputs(reader, with_input, scope)

    def _add_listed(self, cases: Sequence[EvalCase]) -> None:
        if cases or not self.parts:
            self.parts.append(ListedCases(tuple(cases)))

    def _read_dataset(self, reader: Reader, at: JsonPath) -> None:
        model = reader.read(DatasetModel, at)
        if model is None:
            return
        if model.case is not None and not isinstance(model.case, Mapping):
            reader.error((*at, "case"), f"must be an object, but is {kind_of(reader.document.at((*at, 'case')))}")
            return
        template = None if model.case is None else Template(reader.document, (*at, "case"))
        rules = RowRules(self.scope, model.columns, template)
        if isinstance(model.file, str):
            self._read_named(reader, (*at, "file"), model.file, rules)
        else:
            for index, name in enumerate(model.file):
                self._read_named(reader, (*at, "file", index), name, rules)

    def _read_case(self, reader: Reader, at: JsonPath, scope: CaseScope) -> EvalCase | None:
        """Read a listed case, after its variables are filled and its id is compared with earlier ones."""
        if scope.variables is not None and reader.document.path == self.eval_file:
            own = reader.document.at((*at, "vars"))
            values = scope.variables.of_case(own=own if isinstance(own, Mapping) else None)
            fill_in_place(reader, at, values, scope.variables.undefined_severity)
        case_id = reader.document.at((*at, "id"))
        if isinstance(case_id, str):
            place = Location(scope.file, reader.document.mark(at).line)
            first = self._ids.setdefault(case_id, place)
            if first is not place:
                problem = repeated_id(case_id, place, first)
                reader.error((*at, "id"), problem.message, allowed=problem.allowed)
        case = read_case(reader, at, scope)
        if case is not None and case.depends_on:
            self._dependent_places[case.id] = (reader.document, at)
        return case

    def dependency_problem(self, case: EvalCase, index: int, message: str) -> Problem:
        """Return a problem at an entry of a case's `depends_on`; if the case is a row of a dataset, at its line."""
        if case.id in self._dependent_places:
            document, at = self._dependent_places[case.id]
            at = (*at, "execution", "depends_on", index)
            return Problem(document.path, message, *document.mark(at), json_path=shown_path(at))
        place = case.location or Location(self.scope.file)
        name = shown(self.scope.files.repository_root / place.path)
        return Problem(name, message, place.line, 1 if place.line else 0)

    def _read_named(self, reader: Reader, at: JsonPath, name: str, rules: RowRules) -> None:
        """Read the cases of the files that a path or pattern names, or of a function."""
        function = FUNCTION_REFERENCE.fullmatch(name)
        if function is not None:
            self._read_function(reader, at, path=function["path"], name=function["name"], rules=rules)
            return
        if self.scope.is_foreign:
            name = name.removeprefix("file://")
            folder = self.scope.files.base_dir / name
            if is_folder_path(folder):
                self._read_folder(reader, at, folder, name)
                return
        from agentv.loading.datasets.rows import open_rows  # noqa: PLC0415 - few suites have datasets

        files = self._matching_files(reader, at, name)
        self.files += files
        for path in files:
            if path.suffix.lower() in LINE_SUFFIXES:
                self.read_json_lines(path, rules)
            elif path.suffix in YAML_SUFFIXES and (self.scope.is_foreign or self._has_cases(path)):
                self._read_once(reader, at, path)
            elif (rows := open_rows(path)) is not None:
                self._read_rows(rows, self._rules_of(path, rules))
            else:
                allowed = f"allowed: {', '.join(ROW_SUFFIXES)}, or a function as data.py:NAME"
                reader.error(at, f"{path.name!r} is not a file of cases", allowed=allowed)

    def _read_once(self, reader: Reader, at: JsonPath, path: Path) -> None:
        """Read a YAML file of cases, unless it is being read: a file must not contain itself."""
        real = path.resolve()
        if real in self._being_read:
            reader.error(at, f"{path.name!r} contains itself", allowed="name another file")
            return
        self._being_read.add(real)
        self._read_yaml(path)
        self._being_read.discard(real)

    def _read_folder(self, reader: Reader, at: JsonPath, folder: Path, written: str) -> None:
        """Read the `case.yaml` of each folder in a folder; a case without an id gets the name of its folder."""
        try:
            files = case_files(folder, written, self.scope.files.guard)
        except FileProblemError as error:
            reader.error(at, error.message, allowed=error.allowed)
            return
        if not files:
            reader.error(at, "the folder has no cases", allowed="each case is NAME/case.yaml in it")
        for path in files:
            self.files.append(path)
            self._read_yaml(path, is_in_folder=True)

    def _add_folder_parts(self, case: dict[str, JsonValue], folder: Path) -> None:
        """Complete a case from its folder: the folder's name is the id, its subfolder `workspace` the template."""
        case.setdefault("id", folder.name)
        if (folder / "workspace").is_dir():
            template = os.path.relpath(folder / "workspace", self.scope.files.base_dir)
            case.setdefault("workspace", {"template": template, "isolation": "per_test"})

    def _has_cases(self, path: Path) -> bool:
        """Return True for a YAML file with a key for cases; False for a list of rows, or a file that cannot be read."""
        try:
            raw = open_yaml(path).document.value
        except EvalFileError:
            return False
        return isinstance(raw, Mapping) and any(key in raw for key in CASE_KEYS)

    def _read_function(self, reader: Reader, at: JsonPath, path: str, name: str, rules: RowRules) -> None:
        finder = self.scope.files
        try:
            file = finder.find(path)
        except FileProblemError as error:
            reader.error(at, error.message, allowed=error.allowed, suggestion=error.suggestion)
            return
        self.code.append(file)
        if not self.calls_functions:
            reader.warn(at, f"the cases of {path}:{name} are unknown, since the function is not called here")
            self.parts.append(UnknownCases())
            return
        from agentv.loading.datasets.rows import function_rows  # noqa: PLC0415 - few suites have datasets

        self._read_rows(function_rows(file, name), self._rules_of(file, rules))

    def _rules_of(self, path: Path, rules: RowRules) -> RowRules:
        return replace(rules, scope=self._scope_of(path))

    def read_rows(self, rows: "RowFile") -> None:
        """Add rows that were not named by the eval file as a source of cases."""
        self._read_rows(rows, RowRules(self.scope))

    def _read_rows(self, rows: "RowFile", rules: RowRules) -> None:
        """Add rows as a source of cases, after checking the first 1,000, or all rows of a JSON or YAML file."""
        from agentv.loading.suites.dataset_cases import check_rows  # noqa: PLC0415 - few suites have datasets

        try:
            cases, read = check_rows(rows, rules, most=CASES_CHECKED_AHEAD)
        except EvalFileError as error:
            self.problems += error.problems
            return
        except AgentvError as error:
            self.problems.append(Problem(rows.shown, str(error)))
            return
        self.parts.append(cases)
        self._add_row_problems(read, rows.shown)

    def _matching_files(self, reader: Reader, at: JsonPath, pattern: str) -> Iterable[Path]:
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

    def _read_yaml(self, path: Path, *, is_in_folder: bool = False) -> None:
        """Read a YAML file of cases: a list, an object with `evalcases`, or one case.

        With `is_in_folder` the file is a case in a folder of its own, from which it may get its id and workspace.
        """
        try:
            reader = open_yaml(path)
        except EvalFileError as error:
            self.problems += error.problems
            return
        scope = self._scope_of(path)
        if is_in_folder and isinstance(reader.document.value, dict):
            self._add_folder_parts(reader.document.value, path.parent)
        reader = scope.translated(reader)
        raw = reader.document.value
        key = next((key for key in CASE_KEYS if isinstance(raw, Mapping) and key in raw), None)
        if isinstance(raw, Mapping) and key is None:
            case = self._read_case(reader, (), scope)
            self.parts.append(ListedCases((case,) if case is not None else ()))
        else:
            self._read_list(reader, () if key is None else (key,), scope)
        self.problems += reader.all_problems()

    def read_json_lines(self, path: Path, rules: RowRules | None = None) -> None:
        """Add a JSON Lines file as a stream, after checking its first lines."""
        rules = self._rules_of(path, RowRules(self.scope) if rules is None else rules)
        try:
            if is_span_file(path):
                from agentv.loading.datasets.rows import SpanFile  # noqa: PLC0415 - few suites have datasets

                self._read_rows(SpanFile(path, shown(path)), rules)
                return
            stream = JsonLinesCases(path, shown(path), rules)
            read, cases = stream.read_head(CASES_CHECKED_AHEAD)
            self.parts.append(cases)
            self._add_row_problems(read, cases.shown)
        except EvalFileError as error:
            self.problems += error.problems

    def _add_row_problems(self, read: Sequence[ReadRow], name: str) -> None:
        """Record the problems of the first rows of a file."""
        for each in read:
            case = each.case
            if each.warnings:
                self.row_problems += each.warnings
            if isinstance(case, EvalCase):
                place = case.location or Location("")
                first = self._ids.setdefault(case.id, place)
                if first is not place:
                    self.row_problems.append(replace(repeated_id(case.id, place, first), path=name))
            elif case is not None:
                self.row_problems += case.problems
        if len(read) < CASES_CHECKED_AHEAD and not found_cases(read):
            self.problems.append(Problem(name, "the file has no cases", 1, 1))

    def _scope_of(self, path: Path) -> CaseScope:
        return replace(self.scope, file=relative_name(path, self.scope.files.repository_root))


_MAX_LINES_LISTED = 5


def merged_problems(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems of rows; a problem that several rows of a file have is yielded once."""
    found: dict[tuple[str, str, str], list[Problem]] = {}
    for problem in dict.fromkeys(problems):
        found.setdefault((problem.path, problem.json_path, problem.message), []).append(problem)
    yield from (_merged(same) for same in found.values())


def _merged(problems: Sequence[Problem]) -> Problem:
    """Merge equal problems of several rows: the first one, whose message lists the lines of the others."""
    first, others = problems[0], problems[1:]
    if not others:
        return first
    lines = ", ".join(f"{each.line:,}" for each in others[:_MAX_LINES_LISTED])
    more = f" and {len(others) - _MAX_LINES_LISTED:,} more" if len(others) > _MAX_LINES_LISTED else ""
    return replace(first, message=f"{first.message}; also on line{'s' if others[1:] else ''} {lines}{more}")


def relative_name(path: Path, root: Path) -> str:
    """Return a file's name in reports: relative to the repository root, with `/`."""
    real = path.resolve()
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else real.as_posix()


def suite_names(files: Sequence[Path], *, cwd: Path) -> tuple[str, ...]:
    """Return the name of each eval file of a run, under which its results are stored: relative to its repository.

    A file outside of a repository has its bare name. Files that would share a name are named relative to `cwd`; if one
    of them is not there, relative to the folder that has them all. Raises ConfigError if two names are equal even so.
    """
    names = {file: relative_name(file, find_repository_root(file.parent)) for file in dict.fromkeys(files)}
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    for name in shared:
        same = [file for file, its_name in names.items() if its_name == name]
        paths = [file.resolve() for file in same]
        root = cwd.resolve()
        if not all(path.is_relative_to(root) for path in paths):
            root = Path(os.path.commonpath(paths))
        names.update((file, relative_name(path, root)) for file, path in zip(same, paths, strict=True))
    again = next((name for name, count in Counter(names.values()).items() if count > 1), None)
    if again is not None:
        same_name = ", ".join(str(file) for file, name in names.items() if name == again)
        raise ConfigError(f"{same_name} would all be named {again} in the results; run them separately")
    return tuple(names[file] for file in files)


class ParsedSuite(Struct, frozen=True):
    """The readable part of an eval file, and all problems of its files."""

    suite: EvalSuite | None
    own_problems: tuple[Problem, ...]
    """All problems except those of dataset rows."""
    project: ProjectConfig = field(default_factory=ProjectConfig)
    reader: Reader | None = None
    """Reads the top level of the eval file, for further checks."""
    files: tuple[Path, ...] = ()
    """The files that contain the cases."""
    code: tuple[Path, ...] = ()
    """The files of functions that return cases."""
    row_problems: tuple[Problem, ...] = ()
    """The problems of the first rows of datasets, one for each row."""

    dialect: str = ""
    """A sentence with the AgentV version that the file is written for and the number of its ignored keys, or ""."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems; equal problems of several rows are merged."""
        return (*self.own_problems, *merged_problems(self.row_problems))


def load_suite(
    path: str | Path,
    *,
    specs: Specs,
    allow_paths: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    plugins_imported: bool = True,
    evaluators_given: bool = False,
    guideline_patterns: Sequence[str] | None = None,
    content: bytes | None = None,
    rows: "RowFile | None" = None,
    folders: SuiteFolders | None = None,
    name: str | None = None,
) -> EvalSuite:
    """Return an eval file, or a table (CSV, TSV, Parquet), as a suite. Raises EvalFileError with all its problems.

    The first 1,000 rows of a dataset are checked now, the others when they are read. `variables` override those of
    the file. Without `plugins_imported` no function of a dataset is called, and its cases are unknown. With
    `evaluators_given` the caller supplies the evaluators: cases do not get those of the suite. `guideline_patterns`
    replace those of the project. `content` replaces the content of the file, and `rows` its cases. `folders`, made with
    the same `allow_paths`, and `name` (`suite_names`) are given by callers that load several files.
    """
    read = read_suite(
        Path(path),
        specs,
        content=content,
        rows=rows,
        plugins_imported=plugins_imported,
        allow_paths=allow_paths,
        variables=variables,
        evaluators_given=evaluators_given,
        guideline_patterns=guideline_patterns,
        folders=folders,
        name=name,
    )
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
    variables: Mapping[str, str] | None = None,
    evaluators_given: bool = False,
    guideline_patterns: Sequence[str] | None = None,
    rows: "RowFile | None" = None,
    folders: SuiteFolders | None = None,
    name: str | None = None,
) -> ParsedSuite:
    """Return the readable part of an eval file, and all its problems.

    Without `plugins_imported` no code of the project runs: an evaluator of an unknown type is only a warning, and
    functions of datasets are not called. `variables` override those of the file. With `evaluators_given` cases do not
    get the evaluators of the suite. `content`, if given, replaces the content of a YAML file, and `rows` its cases.
    A table is read as an eval file that names it. Files that the eval file names may also lie in the folders
    `allow_paths`. `guideline_patterns` replace those of the project. `folders` and `name`
    are those of `load_suite`.
    """
    if content is None and path.suffix.lower() in TABLE_SUFFIXES:
        content = json.dumps({"evalcases": {"file": path.name}}).encode()
    try:
        importers = importers_of(specs)
        importers.check_readable(path)
        are_lines = path.suffix == ".jsonl" and content is None and rows is None
        data = b"" if are_lines else read_bytes(path) if content is None else content
        folder = (folders or SuiteFolders(allow_paths)).folder_of(path)
        base, root, guard, project = folder.path, folder.repository_root, folder.guard, folder.project
        reader, importer = open_suite(path, data, specs, env=folder.env, root=guard.root)
    except EvalFileError as error:
        return ParsedSuite(None, error.problems)
    unknown_type: Severity = "warning" if project.plugins and not plugins_imported else "error"
    scope = EvaluatorScope(specs.evaluators, str(base), guard, unknown_type=unknown_type, plugins=project.plugins)
    named, criteria_problems = read_named_definitions(folder.criteria_file, scope)
    patterns = project.guideline_patterns if guideline_patterns is None else tuple(guideline_patterns)
    finder = FileFinder(base_dir=base, repository_root=root, cwd=Path.cwd(), guard=guard, guideline_patterns=patterns)
    scope = replace(scope, profiles=named.evaluators, criteria=named_criteria(named.criteria, named.sets))
    own_variables = read_variables(reader, is_stream=are_lines, given=variables or {})
    case_scope = CaseScope(scope, finder, name or relative_name(path, root), importer, variables=own_variables)
    case_scope = _with_suite_parts(reader, case_scope, evaluators_given=evaluators_given)
    parts = case_scope.parts or SuiteParts(EvalSuite(path="", cases=ListedCases(())))
    cases = CasesReader(case_scope, reader.document.path, calls_functions=plugins_imported)
    variable_names = tuple(used_variables(reader)) if own_variables is not None else ()
    if rows is not None:
        cases.read_rows(rows)
    elif are_lines:
        cases.read_json_lines(path)
    elif isinstance(reader.document.value, Mapping):
        cases.read(reader)
    inline_targets = _read_inline_targets(reader, specs, unknown_type)
    suite = _suite(reader, case_scope.evaluators, parts.suite, cases)
    suite, order_problems = _in_order(suite, cases)
    if suite is not None:
        _check_cluster(reader, suite)
    found = [*reader.all_problems(), *cases.problems, *folder.problems, *criteria_problems, *order_problems]
    has_errors = any(problem.severity == "error" for problem in (*found, *cases.row_problems))
    if suite is not None and not has_errors and not evaluators_given:
        found += suite_warnings(reader, suite, specs)
    if has_errors and (other := importers.find_other_program(path)) is not None:
        return ParsedSuite(None, (other,))
    if suite is not None:
        sha256 = sha256_of(path) if are_lines and not has_errors else hashlib.sha256(data).hexdigest()
        suite = replace(suite, inline_targets=inline_targets, files=_files_beside(path, cases, case_scope, importer))
        suite = replace(suite, scored_sha256=sha256 if are_lines else scored_sha256(reader.document.value))
        suite = _with_project(_with_origin(suite, case_scope, importer, variable_names), sha256, finder, project)
    return ParsedSuite(
        suite,
        tuple(warned_once(found)),
        project=project,
        reader=reader,
        files=(*cases.files, *importer.files),
        code=tuple(cases.code),
        row_problems=tuple(cases.row_problems),
        dialect=importer.sentence,
    )


def _files_beside(path: Path, cases: CasesReader, scope: CaseScope, importer: SuiteImport) -> tuple[str, ...]:
    """Return the files of a suite besides its eval file: its side file, and those of its cases and prompts."""
    side = side_file(path) if path.suffix == ".jsonl" else None
    prompts = scope.parts.prompts if scope.parts is not None else ()
    named = (*((side,) if side else ()), *cases.files, *cases.code, *importer.files)
    files = (*map(str, named), *(prompt.file for prompt in prompts if prompt.file is not None))
    return tuple(sorted(set(files)))


def _in_order(suite: EvalSuite | None, reader: CasesReader) -> tuple[EvalSuite | None, Sequence[Problem]]:
    """Return a suite with its cases after those that they depend on, and the problems of these dependencies."""
    if suite is None:
        return None, ()
    cases, problems = in_order_of_dependencies(reader.source(), reader.dependency_problem)
    return replace(suite, cases=cases), problems


def open_suite(
    path: Path, data: bytes, specs: Specs, *, env: Mapping[str, str] | None, root: Path
) -> tuple[Reader, SuiteImport]:
    """Return a reader of an eval file's top level, with keys translated to our own, and the import for its case files.

    `env` fills the references `${{ NAME }}` of AgentV's files; with None they stay as written. The files that it names
    must lie in `root`. Raises EvalFileError for a file that cannot be read, for one of AgentV 5 and for a promptfoo
    configuration.
    """
    reader = _open_top_level(path, data)
    importer = importers_of(specs).start_suite(reader, path, env=env, root=root)
    check_places(reader)
    if not importer.applies_to(reader.document.value):
        return reader, importer
    translated = importer.suite(reader)
    check_places(translated)  # `execution.threshold` is our `pass_score`
    return translated, importer


def _with_suite_parts(reader: Reader, cases: CaseScope, *, evaluators_given: bool) -> CaseScope:
    """Return the scope of a suite's cases with the suite's own evaluators, criteria and prompts."""
    variables, importer = cases.variables, cases.importer
    criteria_template = _template(reader, ("criteria",), variables)
    scope = cases.evaluators
    criteria = read_criteria(reader, ("criteria",), scope.criteria) if criteria_template is None else ()
    scope = replace(scope, criteria_names=frozenset(_criteria_names(criteria, criteria_template)))
    place = setting_path(reader, "evaluators")
    evaluators_template = _template(reader, place, variables)
    evaluators = read_evaluators(reader, place, scope) if evaluators_template is None else None
    single = next((each for key in SINGLE_FORM_KEYS if isinstance(each := reader.document.at((key,)), str)), None)
    defaults = EvalSuite(
        path="",
        cases=ListedCases(()),
        evaluators=evaluators,
        evaluator=single,
        criteria=criteria,
        base_dir=str(cases.files.base_dir),
    )
    prompts = read_prompts(reader, cases.files)
    has_errors = any(each.severity == "error" for each in reader.problems)
    is_foreign = importer is not None and importer.is_foreign
    parts = SuiteParts(
        defaults,
        None if evaluators_given else evaluators_template,
        criteria_template,
        prompts,
        needs_outcomes=not (evaluators_given or is_foreign or has_errors),
    )
    return replace(cases, evaluators=scope, parts=parts)


def _warn_of_unsent_inputs(reader: Reader, cases: Sequence[JsonPath], scope: CaseScope) -> None:
    """Record one warning if no prompt sends the messages that the listed cases at these paths have."""
    prompts = () if scope.parts is None else scope.parts.prompts
    if cases and prompts and not any(prompt.takes_input for prompt in prompts):
        inputs = "the input of 1 case is" if len(cases) == 1 else f"the inputs of {len(cases):,} cases are"
        reader.error(
            cases[0],
            f"{inputs} not sent, because no prompt inserts the messages of a case",
            allowed="write {{ input }} in a prompt, or the entry {case: messages} in its `messages`",
            severity="warning",
        )


def _template(reader: Reader, at: JsonPath, variables: SuiteVariables | None) -> Template | None:
    """Return a part of the suite to be filled for each case; None if it has neither variables nor prompts."""
    value = reader.document.at(at)
    if variables is None or not isinstance(value, list | tuple):
        return None
    if not needs_filling(value) and not has_prompt(value):
        return None
    return Template(reader.document, at)


def _criteria_names(criteria: Sequence[EvaluationCriteria], template: Template | None) -> Iterator[str]:
    """Yield the names of a suite's criteria, including those whose variables are filled for each case."""
    yield from (criterion.name for criterion in criteria)
    raw = None if template is None else template.value
    for entry in raw if isinstance(raw, list | tuple) else ():
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if isinstance(name, str):
            yield name


def _open_top_level(path: Path, data: bytes) -> Reader:
    """Return a reader of the suite's top level. A JSON Lines file has its top-level keys in its side file, if any."""
    if path.suffix != ".jsonl" or data:
        return open_yaml(path, data)
    side = side_file(path)
    if side is None:
        return Reader(Document(shown(path), {}))
    return open_yaml(side)


def _suite(reader: Reader, scope: EvaluatorScope, defaults: EvalSuite, cases: CasesReader) -> EvalSuite | None:
    model = reader.read(SuiteModel)
    if model is None:
        return None
    check_single_form(reader, (), model, scope)
    grader = read_grader(reader, (), model)
    settings = suite_settings(model)
    check_workspace(reader, setting_path(reader, "workspace"), settings.workspace, cases.scope.files)
    return EvalSuite(
        path=cases.scope.file,
        cases=cases.source(),
        dataset=model.dataset or Path(cases.scope.file).stem,
        description=model.description,
        tags=tuple(model.tags),
        target=settings.target,
        targets=tuple(map(_name_of_entry, model.targets or settings.targets)),
        judge=None if model.judge is None else name_of_target(cast(str | JsonObject, model.judge)),
        evaluators=defaults.evaluators,
        evaluator=model.evaluator or grader,
        criteria=defaults.criteria,
        workers=settings.workers,
        trials=settings.trials or 1,
        timeout_s=settings.timeout_seconds,
        evaluator_timeout_s=settings.evaluator_timeout_seconds,
        workspace=settings.workspace.given() if settings.workspace else None,
        gates=tuple(model.gates or ()),
        pass_score=settings.pass_score,
        budget_usd=settings.budget_usd,
        confirm_reruns=model.confirm_reruns or DEFAULT_CONFIRM_RERUNS,
        cluster=model.cluster,
    )


def _read_inline_targets(reader: Reader, specs: Specs, unknown_provider: Severity) -> tuple[TargetConfig, ...]:
    """Return the targets that are objects in the suite's list of targets."""
    entries = reader.document.at(("targets",))
    if not isinstance(entries, list) or not any(isinstance(entry, Mapping) for entry in entries):
        return ()
    from agentv.loading.targets.targets import read_inline_targets  # noqa: PLC0415 - few suites define targets

    return read_inline_targets(reader, specs, unknown_provider)


def _name_of_entry(entry: object) -> str:
    """Return the name in an entry of `targets`; "" for an object without a name, which is reported elsewhere."""
    return str(entry.get("name", "") if isinstance(entry, Mapping) else entry)


def _check_cluster(reader: Reader, suite: EvalSuite) -> None:
    """Record an error if no case has the metadata that `cluster` names; those of a stream are not known yet."""
    if suite.cluster is None or suite.cases.count is None:
        return
    name = suite.cluster.removeprefix(METADATA_PREFIX)
    if not any(isinstance(case, EvalCase) and name in case.metadata for case in suite.cases):
        reader.error(("cluster",), f"no case has {name!r} in its metadata", allowed="name an entry that cases have")


def _with_origin(suite: EvalSuite, cases: CaseScope, importer: SuiteImport, variables: tuple[str, ...]) -> EvalSuite:
    """Return the suite with its variables, its prompts, and the program that its file was written for."""
    prompts = cases.parts.prompts if cases.parts is not None else ()
    return replace(
        suite,
        variables=variables,
        fills_placeholders=cases.variables is not None,
        prompts=tuple(prompt.id for prompt in prompts),
        about=importer.about,
        dialect=importer.sentence,
    )


def _with_project(suite: EvalSuite, sha256: str, finder: FileFinder, project: ProjectConfig) -> EvalSuite:
    """Return the suite with the values from its location and from the project."""
    return replace(
        suite,
        base_dir=str(finder.base_dir),
        repository_root=str(finder.repository_root),
        prices=project.prices,
        redact=project.redact,
        project_workers=project.workers,
        guideline_patterns=finder.guideline_patterns,
        sha256=sha256,
    )
