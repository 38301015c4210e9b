"""Reading of a targets file as TargetConfigs.

References are filled later, so that the variables of unused targets may be unset.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.documents import JsonPath
from agentv.loading.files.text import shown
from agentv.loading.files.yaml import open_yaml
from agentv.loading.models.reader import Reader, in_order, raise_errors
from agentv.loading.suites.references import OpenReader, holds_reference
from agentv.loading.targets.models import TargetsFileModel
from agentv.loading.targets.settings import check_target, check_texts, lift_settings
from agentv.registry import Specs
from agentv.types.errors import EvalFileError, nearest
from agentv.types.problems import Problem, Severity
from agentv.types.targets import TargetConfig


class ParsedTargets(Struct, frozen=True):
    """The readable targets of a file, and its problems."""

    targets: tuple[TargetConfig, ...]
    problems: tuple[Problem, ...]


def load_targets(path: str | Path, *, specs: Specs) -> tuple[TargetConfig, ...]:
    """Return the targets of a file. Raises EvalFileError with all its problems.

    Variables are not checked: resolve_target does that for the targets in use.
    """
    read = read_targets(Path(path), specs)
    raise_errors(shown(Path(path)), read.problems)
    return read.targets


def read_targets(path: Path, specs: Specs, *, unknown_provider: Severity = "error") -> ParsedTargets:
    """Return the readable targets of a file, and its problems."""
    try:
        reader = open_targets(path)
    except EvalFileError as error:
        return ParsedTargets((), error.problems)
    model = reader.read(TargetsFileModel)
    targets: list[TargetConfig] = []
    for index in range(len(model.targets) if model else 0):
        target = _read_target(reader, ("targets", index), specs, unknown_provider)
        if target is not None:
            targets.append(target)
    _check_names(reader, targets)
    return ParsedTargets(tuple(targets), in_order(reader.problems))


def open_targets(path: Path) -> OpenReader:
    """Return a reader of a targets file. Raises EvalFileError when it is not YAML."""
    plain = open_yaml(path)
    return OpenReader(plain.document, plain.problems)


def _read_target(reader: Reader, at: JsonPath, specs: Specs, unknown_provider: Severity) -> TargetConfig | None:
    raw = reader.document.at(at)
    if not isinstance(raw, Mapping):
        reader.error(at, "must be an object with name and provider")
        return None
    lift_settings(reader, at, raw, specs.providers)
    check_target(reader, at, raw, specs.providers, unknown_provider=unknown_provider)
    check_texts(reader, at, raw)
    name, provider = raw.get("name"), raw.get("provider")
    if not isinstance(name, str) or not isinstance(provider, str):
        return None
    path = reader.document.path
    return TargetConfig(
        name=name,
        provider=provider,
        settings={key: value for key, value in raw.items() if key not in ("name", "provider")},
        path=path,
        line=reader.document.mark(at).line,
        base_dir=str(Path(path).resolve().parent),
    )


def _check_names(reader: Reader, targets: Sequence[TargetConfig]) -> None:
    """Record duplicate names, and unknown judge targets."""
    entries = reader.document.at(("targets",))
    names = {target.name for target in targets}
    lines: dict[str, int] = {}
    for index, raw in enumerate(entries if isinstance(entries, list) else ()):
        name = raw.get("name") if isinstance(raw, Mapping) else None
        if isinstance(name, str):
            line = reader.document.mark(("targets", index)).line
            if lines.setdefault(name, line) != line:
                message = f"a second target named {name!r}, first in line {lines[name]}"
                reader.error(("targets", index, "name"), message)
        for key in ("judge_target", "judgeTarget"):
            judge = raw.get(key) if isinstance(raw, Mapping) else None
            if isinstance(judge, str) and judge not in names and not holds_reference(judge):
                allowed = f"known: {', '.join(sorted(names))}"
                place = ("targets", index, key)
                reader.error(place, f"unknown target {judge!r}", allowed=allowed, suggestion=nearest(judge, names))
