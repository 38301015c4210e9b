"""What a stored run is judged by: the gates, pass scores and judges that it had, whatever its files say today."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from agentv.engine.planning.inputs import SuiteInput
from agentv.engine.planning.plan import RunPlan, gates_to_json
from agentv.engine.planning.planning import gates_of_files
from agentv.engine.planning.provenance import digest_of
from agentv.engine.plugins.loading import load_specs_without
from agentv.engine.running.recorder import JUDGES_CHANGED
from agentv.loading.files.places import find_repository_root
from agentv.loading.project import config_files, load_project
from agentv.loading.suites.suites import load_suite, relative_name
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import AgentvError, StorageError
from agentv.types.json_value import JsonObject, JsonValue, objects_of


def stored_gates(plan: JsonObject) -> tuple[ScopedGate, ...] | None:
    """Return the gates in the plan of a run; None for the default one, and for an older run that stored none."""
    gates = plan.get("gates")
    return tuple(map(ScopedGate.from_json, objects_of(gates))) if isinstance(gates, list) else None


def with_stored_pass_scores(
    suites: Sequence[SuiteInput], plan: JsonObject
) -> tuple[tuple[SuiteInput, ...], tuple[str, ...]]:
    """Return the suites of a run, read again, with the pass scores stored in its plan, and a note on each change."""
    notes: list[str] = []
    judged: list[SuiteInput] = []
    for item in suites:
        stored = _stored_suite(item.suite.path, item.suite.sha256, plan)
        own = item.suite.pass_score
        score = stored.get("pass_score", own)
        if not isinstance(score, int | float | None) or score == own:
            judged.append(item)
            continue
        notes.append(_score_change(item.suite.path, own, score))
        judged.append(replace(item, suite=replace(item.suite, pass_score=score)))
    return tuple(judged), tuple(notes)


def with_stored_gates(plan: RunPlan, stored: JsonObject) -> RunPlan:
    """Return a run's plan, made again, with the gates stored with the run and a warning if its files have others now.

    Only an eval file that the run did not have yet adds its own gates.
    """
    if "file_gates" not in stored:  # an older agentv
        return plan
    gates = stored_gates(stored)
    present = {suite.suite.path: suite.suite.sha256 for suite in plan.suites}
    renamed = {
        str(each.get("path")): path
        for path, sha256 in present.items()
        for each in objects_of(stored.get("suites"))
        if each.get("path") not in present and each.get("sha256") == sha256
    }
    if gates is not None:
        known = {*(str(each.get("path")) for each in objects_of(stored.get("suites"))), *renamed.values()}
        kept = (replace(each, suite=renamed.get(each.suite or "", each.suite)) for each in gates)
        added = (each for each in plan.gates or () if each.suite is not None and each.suite not in known)
        gates = (*kept, *added)
    warnings = () if plan.options.gates is not None else tuple(_gate_notes(stored, plan))
    return replace(
        plan, gates=gates, replaced_gates=stored_replaced_gates(stored), warnings=(*plan.warnings, *warnings)
    )


def stored_replaced_gates(stored: JsonObject) -> str | None:
    """Return the clause of a stored plan that names the gates of files that `--gate` replaced."""
    replaced = stored.get("replaced_gates")
    return replaced if isinstance(replaced, str) else None


def _gate_notes(stored: JsonObject, plan: RunPlan) -> Iterator[str]:
    before = stored.get("file_gates")
    now: JsonValue = None if plan.file_gates is None else gates_to_json(plan.file_gates)
    if _gates_text(before) != _gates_text(now):
        yield gate_change(before, now)


def present_file_notes(run: StoredRun) -> tuple[str, ...]:
    """Return notes on the gates and pass scores that the files of a run have now, if they are not those stored with it.

    No note for a run without eval files, nor if its files are as they were, are gone or cannot be read. No code runs.
    """
    stored, folder = run.run.plan, run.run.plan.get("folder")
    if "file_gates" not in stored or not isinstance(folder, str):
        return ()
    root = _root_of(run)
    if root is None or not _has_changed_files(stored, root):
        return ()
    inputs = [Path(root, str(suite.get("path"))) for suite in objects_of(stored.get("suites"))]
    try:
        with contextlib.chdir(Path(run.folder.resolve().parent.parent.parent, folder)):
            return tuple(_present_notes(inputs, root, stored))
    except (AgentvError, OSError):
        return ()


def refuse_changed_judges(run: StoredRun) -> None:
    """Raise StorageError if files of evaluators were changed while a run was in progress, and still are changed."""
    changed: Mapping[str, JsonValue] = {}
    for event in run.events():
        files = event.fields.get("files")
        if event.type == "started":
            changed = {}
        elif event.type == JUDGES_CHANGED and isinstance(files, Mapping):
            changed = files
    root = _root_of(run)
    still = [name for name, digest in changed.items() if root is not None and digest_of(Path(root, name)) != digest]
    if still:
        raise StorageError(
            f"run {run.run_id}: files of evaluators were changed while it was in progress: {', '.join(still)}. Restore "
            "them and resume. To judge with the changed files instead, start a new run; or restore them, resume, "
            "change them again and run `agentv rescore`"
        )


def _root_of(run: StoredRun) -> Path | None:
    """Return the root of the repository that a run was started in; None if its plan has no valid folder."""
    folder = run.run.plan.get("folder")
    if not isinstance(folder, str):
        return None
    try:
        return find_repository_root(Path(run.folder.resolve().parent.parent.parent, folder).resolve())
    except (OSError, ValueError):  # a folder that cannot exist
        return None


def _has_changed_files(stored: JsonObject, root: Path) -> bool:
    files = stored.get("files")
    digests = dict(files) if isinstance(files, Mapping) else {}
    digests |= {str(suite.get("path")): suite.get("sha256") for suite in objects_of(stored.get("suites"))}
    suites = {Path(root, str(suite.get("path"))).parent for suite in objects_of(stored.get("suites"))}
    settings = {relative_name(file, root) for folder in suites for file in config_files(folder, root)}
    is_new = any(file not in digests for file in settings)
    return is_new or any(digest_of(Path(root, path)) != digest for path, digest in digests.items())


def _present_notes(paths: Sequence[Path], root: Path, stored: JsonObject) -> Iterator[str]:
    plugins = tuple(dict.fromkeys(name for path in paths for name in load_project(path.parent, root).plugins))
    specs = load_specs_without(plugins)
    recorded = objects_of(stored.get("suites"))
    suites = [
        load_suite(path, specs=specs, plugins_imported=False, name=str(before.get("path")))
        for path, before in zip(paths, recorded, strict=True)
    ]
    for suite, before in zip(suites, recorded, strict=True):
        if suite.pass_score != before.get("pass_score"):
            yield _score_change(suite.path, suite.pass_score, before.get("pass_score"))
    project_gates = next((found for path in paths if (found := load_project(path.parent, root).gates)), ())
    gates = gates_of_files([(suite.path, suite.gates) for suite in suites], project_gates)
    now: JsonValue = None if gates is None else [{"expression": gate, "suite": suite} for gate, suite in gates]
    options = stored.get("options")
    has_own = isinstance(options, Mapping) and options.get("gates") is not None
    if not has_own and _gates_text(now) != _gates_text(stored.get("file_gates")):
        yield gate_change(stored.get("file_gates"), now)


def _score_change(path: str, now: JsonValue, stored: JsonValue) -> str:
    return f"{path}: pass_score is {_shown(now)} now; this run is judged by the one stored with it, {_shown(stored)}"


def gate_change(before: JsonValue, now: JsonValue) -> str:
    """Return a note that the files of a run have other gates `now` than `before`, when it began."""
    return (
        f"the gates of the eval files have changed since this run began, from {_gates_text(before)} to "
        f"{_gates_text(now)}; this run is judged by those stored with it"
    )


def _gates_text(gates: JsonValue) -> str:
    texts = [
        f"{each['suite']}: {each['expression']}" if each.get("suite") else f"{each['expression']}"
        for each in objects_of(gates)
    ]
    return ", ".join(f"'{text}'" for text in texts) or ("no gate" if isinstance(gates, list) else "the default gate")


def _stored_suite(path: str, sha256: str, plan: JsonObject) -> JsonObject:
    """Return the entry of a suite in a stored plan, found by its path or, if it was renamed, by its content."""
    suites = objects_of(plan.get("suites"))
    named = [each for each in suites if each.get("path") == path]
    return next(iter(named or [each for each in suites if each.get("sha256") == sha256]), {})


def _shown(score: JsonValue) -> str:
    return "not set" if score is None else f"{score}"
