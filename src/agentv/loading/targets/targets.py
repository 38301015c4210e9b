"""Reading of a targets file as TargetConfigs.

References are filled later, so that the variables of unused targets may be unset.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.files.documents import JsonPath
from agentv.loading.files.text import shown
from agentv.loading.importers.agentv_targets import translate_targets
from agentv.loading.importers.notes import Translation
from agentv.loading.models.reader import Reader, in_order, open_yaml, raise_errors
from agentv.loading.suites.references import OpenReader, holds_reference
from agentv.loading.targets.models import TargetsFileModel, UseTargetModel
from agentv.loading.targets.settings import check_target, check_texts, lift_settings
from agentv.registry import Registry, Specs, names_model
from agentv.templating.environment import fill_variables, variables_in
from agentv.types.errors import EvalFileError, TemplateError, nearest
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem, Severity
from agentv.types.targets import TargetConfig

MAX_CHAIN = 10
"""The most targets that `use_target` may lead through."""

_ENTRY = re.compile(r"\$\.targets\[(\d+)\]")
_NAMES_TARGETS = ("judge_target", "judgeTarget", "fallback_targets", "fallbackTargets")


class ParsedTargets(Struct, frozen=True):
    """The readable targets of a file, and its problems. `names` are those of all entries, None if an entry has none.

    `used` has the targets that each name stands for, when `use_target` leads to them.
    """

    targets: tuple[TargetConfig, ...]
    problems: tuple[Problem, ...]
    names: tuple[str | None, ...] = ()
    used: Mapping[str, tuple[str, ...]] = {}

    def known_names(self) -> list[str]:
        """Return the names of all targets, also of those that cannot be used."""
        return [name for name in self.names if name is not None]

    def with_used(self, names: Collection[str]) -> frozenset[str]:
        """Return some targets with all those that they need: judges, fallbacks, and what `use_target` names."""
        configs = {target.name: target for target in self.targets}
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            waiting += self.used.get(name, ())
            for key in _NAMES_TARGETS if name in configs else ():
                value = configs[name].settings.get(key)
                waiting += _texts(value)
        return frozenset(found)

    def faults_of(self, name: str) -> tuple[Problem, ...]:
        """Return the problems of the target of that name."""
        return tuple(problem for problem in self.problems if self.owner_of(problem) == name)

    def general_problems(self) -> tuple[Problem, ...]:
        """Return the problems of the file that belong to no target."""
        return tuple(problem for problem in self.problems if _entry_of(problem) is None)

    def problems_for(self, used: Collection[str]) -> Iterator[Problem]:
        """Yield all problems; those of targets that are not used are warnings."""
        for problem in self.problems:
            is_needed = _entry_of(problem) is None or self.owner_of(problem) in used
            yield problem if is_needed else replace(problem, severity="warning")

    def owner_of(self, problem: Problem) -> str | None:
        """Return the name of the target that a problem belongs to; None for one of the file, or without a name."""
        index = _entry_of(problem)
        return self.names[index] if index is not None and index < len(self.names) else None


def _texts(value: JsonValue) -> list[str]:
    """Return a text, or the texts in a list."""
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if isinstance(item, str)]


def _entry_of(problem: Problem) -> int | None:
    found = _ENTRY.match(problem.json_path)
    return int(found[1]) if found else None


def load_targets(path: str | Path, *, specs: Specs, env: Mapping[str, str] | None = None) -> tuple[TargetConfig, ...]:
    """Return the targets of a file. Raises EvalFileError with all its problems.

    Variables are not checked: resolve_target does that for the targets in use. A second name that a variable chooses,
    which is not set, is left out.
    """
    read = read_targets(Path(path), specs, env=env, unset="warning")
    raise_errors(shown(Path(path)), read.problems)
    return read.targets


def read_targets(
    path: Path,
    specs: Specs,
    *,
    env: Mapping[str, str] | None = None,
    unknown_provider: Severity = "error",
    unset: Severity = "error",
) -> ParsedTargets:
    """Return the readable targets of a file, and its problems.

    `env` has the variables that `use_target` may name; one that is not set is a problem of severity `unset`.
    """
    env = env or {}
    try:
        reader, translation = _open(path, specs, env)
    except EvalFileError as error:
        return ParsedTargets((), error.problems)
    model = reader.read(TargetsFileModel)
    count = len(model.targets) if model else 0
    names = tuple(_text_at(reader, ("targets", index, "name")) for index in range(count))
    targets: list[TargetConfig] = []
    used: dict[str, tuple[str, ...]] = {}
    for index in range(count):
        chain = _followed(reader, index, names, env=env, unset=unset)
        if not chain:
            continue
        target = _read_target(reader, ("targets", chain[-1]), specs, unknown_provider)
        if target is not None and names[index] is not None:
            targets.append(replace(target, name=names[index]))
            used[str(names[index])] = tuple(str(names[each]) for each in chain[1:])
    _check_names(reader, names, specs.providers, unknown_judge="error" if translation is None else "warning")
    return ParsedTargets(tuple(targets), in_order(reader.problems), names, used)


def open_targets(path: Path, specs: Specs, env: Mapping[str, str]) -> OpenReader:
    """Return a reader of a targets file; keys of AgentV are translated. Raises EvalFileError when it is not YAML."""
    return _open(path, specs, env)[0]


def _open(path: Path, specs: Specs, env: Mapping[str, str]) -> tuple[OpenReader, Translation | None]:
    plain = open_yaml(path)
    translation = translate_targets(plain.document, specs.providers, env)
    if translation is None:
        return OpenReader(plain.document, plain.problems), None
    return OpenReader(translation.document, (*plain.problems, *translation.problems())), translation


def _text_at(reader: Reader, at: JsonPath) -> str | None:
    value = reader.document.at(at)
    return value if isinstance(value, str) else None


def _followed(
    reader: Reader, index: int, names: Sequence[str | None], env: Mapping[str, str], unset: Severity
) -> tuple[int, ...]:
    """Return the entries that `use_target` leads through, the entry itself first; () if it leads to none."""
    chain = [index]
    while _has(reader, chain[-1], "use_target"):
        at = ("targets", chain[-1])
        reader.read(UseTargetModel, at)
        name = _used_name(reader, at, env, unset)
        if name is None:
            return ()
        if name not in names:
            known = ", ".join(sorted(filter(None, names)))
            suggestion = nearest(name, filter(None, names))
            message = f"unknown target {name!r}"
            reader.error((*at, "use_target"), message, allowed=f"known: {known}", suggestion=suggestion)
            return ()
        chain.append(names.index(name))
        if len(chain) > MAX_CHAIN:
            message = f"`use_target` leads through more than {MAX_CHAIN} targets"
            reader.error(("targets", index, "use_target"), message, allowed="name the last one directly")
            return ()
    return tuple(chain)


def _has(reader: Reader, index: int, key: str) -> bool:
    entry = reader.document.at(("targets", index))
    return isinstance(entry, Mapping) and entry.get(key) is not None


def _used_name(reader: Reader, entry: JsonPath, env: Mapping[str, str], unset: Severity) -> str | None:
    """Return the target that `use_target` of an entry names, with its variables filled; None with a problem."""
    at = (*entry, "use_target")
    text, target = reader.document.at(at), reader.document.at((*entry, "name"))
    if not isinstance(text, str):
        return None  # reported by the model
    try:
        missing = [name for name in variables_in(text) if not env.get(name)]
    except TemplateError as error:
        reader.error(at, str(error))
        return None
    if missing:
        message = f"the variable {missing[0]} is not set, and target {target!r} needs it for 'use_target'"
        reader.error(at, message, allowed="set it in the environment or in a .env file", severity=unset)
        return None
    return fill_variables(text, env).strip()


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


def _check_names(
    reader: Reader, all_names: Sequence[str | None], providers: Registry, *, unknown_judge: Severity
) -> None:
    """Record duplicate names, unknown fallbacks, and as `unknown_judge` unknown judges, which only some runs need."""
    entries = reader.document.at(("targets",))
    names = set(filter(None, all_names))
    lines: dict[str, int] = {}
    for index, raw in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(raw, Mapping):
            continue
        name = raw.get("name")
        if isinstance(name, str):
            line = reader.document.mark(("targets", index)).line
            if lines.setdefault(name, line) != line:
                message = f"a second target named {name!r}, first in line {lines[name]}"
                reader.error(("targets", index, "name"), message)
        for at, target in _named_targets(raw):
            if target == name and at[0] not in ("judge_target", "judgeTarget"):
                reader.error(("targets", index, *at), "a target cannot be its own fallback")
            is_judge = at[0] in ("judge_target", "judgeTarget")
            if is_judge and names_model(target, providers):
                continue
            if target not in names and not holds_reference(target):
                allowed = f"known: {', '.join(sorted(names))}"
                severity = unknown_judge if is_judge else "error"
                reader.error(
                    ("targets", index, *at),
                    f"unknown target {target!r}",
                    allowed=allowed,
                    suggestion=nearest(target, names),
                    severity=severity,
                )


def _named_targets(raw: Mapping[str, JsonValue]) -> Iterator[tuple[JsonPath, str]]:
    """Yield the judge and the fallbacks that a target names, with their paths in it."""
    for key in _NAMES_TARGETS:
        value = raw.get(key)
        if isinstance(value, str):
            yield (key,), value
        for index, each in enumerate(value if isinstance(value, list) else ()):
            if isinstance(each, str):
                yield (key, index), each
