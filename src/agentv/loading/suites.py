"""An eval file → EvalSuite: the top level, what the project says, and a source of its cases."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.loading.attached_files import FileFinder
from agentv.loading.case_files import CasesReader, relative_name
from agentv.loading.cases import CaseScope
from agentv.loading.criteria import named_criteria, read_criteria
from agentv.loading.documents import Document
from agentv.loading.eval_models import SuiteExecutionModel, SuiteModel
from agentv.loading.evaluator_configs import EvaluatorScope, check_single_form, read_evaluators
from agentv.loading.legacy import read_grader, warned_once
from agentv.loading.places import find_repository_root, side_file
from agentv.loading.project import ProjectConfig, find_criteria_file, read_named_parts, read_project
from agentv.loading.reader import Reader, raise_errors
from agentv.loading.text_files import read_bytes, sha256_of, shown
from agentv.loading.yaml_files import open_yaml
from agentv.registry import Specs
from agentv.types.cases import EvalSuite
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem, Severity
from agentv.types.scales import EvaluationCriteria


class ReadSuite(Struct, frozen=True):
    """What could be read of an eval file, and every problem of the files it consists of.

    `reader` is that of its top level, which may note more.
    """

    suite: EvalSuite | None
    problems: tuple[Problem, ...]
    project: ProjectConfig = field(default_factory=ProjectConfig)
    reader: Reader | None = None


def load_suite(path: str | Path, *, specs: Specs) -> EvalSuite:
    """Return an eval file as a suite. Raises EvalFileError with all its problems.

    Of a JSON Lines file the first 1,000 lines are checked now, the others when they are read.
    """
    read = read_suite(Path(path), specs)
    warnings = raise_errors(shown(Path(path)), read.problems)
    if read.suite is None:  # there is none only when there are errors
        raise EvalFileError(shown(Path(path)), read.problems)
    return replace(read.suite, warnings=warnings)


def read_suite(path: Path, specs: Specs, *, plugins_imported: bool = True, content: bytes | None = None) -> ReadSuite:
    """Return what can be read of an eval file. Without its plug-ins an unknown type is only a warning.

    `content` is what a YAML file is going to hold: it is read in the place of what stands there now, if anything does.
    """
    try:
        data = b"" if path.suffix == ".jsonl" else read_bytes(path) if content is None else content
        reader = _open_top_level(path, data)
    except EvalFileError as error:
        return ReadSuite(None, error.problems)
    base = path.resolve().parent
    root = find_repository_root(base)
    project, problems = read_project(base, root)
    unknown: Severity = "warning" if project.plugins and not plugins_imported else "error"
    scope = EvaluatorScope(specs.evaluators, str(base), unknown_type=unknown)
    named, criteria_problems = read_named_parts(find_criteria_file(base, root), scope)
    criteria = read_criteria(reader, ("criteria",), named_criteria(named.criteria, named.sets))
    scope = replace(
        scope,
        profiles=named.evaluators,
        criteria=named_criteria(named.criteria, named.sets),
        criteria_names=frozenset(criterion.name for criterion in criteria),
    )
    finder = FileFinder(base, root, Path.cwd(), project.guideline_patterns, project.allow_outside)
    cases = CasesReader(CaseScope(scope, finder, relative_name(path, root)))
    if path.suffix == ".jsonl":
        cases.read_json_lines(path)
    elif isinstance(reader.document.value, Mapping):
        cases.read(reader)
    suite = _suite(reader, scope, criteria, cases)
    found = (*reader.problems, *cases.problems, *problems, *criteria_problems)
    if suite is not None:
        is_stream = path.suffix == ".jsonl" and not any(problem.severity == "error" for problem in found)
        sha256 = sha256_of(path) if is_stream else hashlib.sha256(data).hexdigest()
        suite = _with_surroundings(suite, sha256, finder, project)
    return ReadSuite(suite, tuple(warned_once(found)), project, reader)


def _open_top_level(path: Path, data: bytes) -> Reader:
    """Return a reader of the suite's top level, which for a JSON Lines file stands in its side file, if anywhere."""
    if path.suffix != ".jsonl":
        return open_yaml(path, data)
    beside = side_file(path)
    if beside is None:
        return Reader(Document(shown(path), {}))
    return open_yaml(beside)


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
    return EvalSuite(
        path=cases.scope.file,
        cases=cases.source(),
        dataset=model.dataset or Path(cases.scope.file).stem,
        description=model.description,
        tags=tuple(model.tags),
        target=execution.target or model.target,
        evaluators=evaluators,
        evaluator=model.evaluator or grader,
        criteria=criteria,
        workers=execution.workers,
        trials=execution.trials or 1,
        timeout_s=execution.timeout_seconds,
        evaluator_timeout_s=execution.evaluator_timeout_seconds,
        workspace=execution.workspace.given() if execution.workspace else None,
        gates=tuple(model.gates or ()),
    )


def _with_surroundings(suite: EvalSuite, sha256: str, finder: FileFinder, project: ProjectConfig) -> EvalSuite:
    """Add what comes from the file's place and from the project."""
    return replace(
        suite,
        base_dir=str(finder.base_dir),
        repository_root=str(finder.repository_root),
        prices=project.prices,
        redact=project.redact,
        sha256=sha256,
    )
