"""The choice of a target: by its name, or the default one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentv.loading.files.composer import compose
from agentv.loading.files.text import decode, read_bytes, shown
from agentv.types.errors import TargetError, nearest
from agentv.types.targets import TargetConfig

DEFAULT_TARGET = "default"


def choose_target(targets: Sequence[TargetConfig], name: str | None) -> TargetConfig:
    """Return the target of that name; without one, the target named `default`, else the only one. Raises TargetError.

    The caller passes `--target`, else the eval file's target, as `name`.
    """
    names = [target.name for target in targets]
    listed = ", ".join(names) or "none"
    if name is not None:
        for target in targets:
            if target.name == name:
                return target
        near = nearest(name, names)
        hint = f" Did you mean {near!r}?" if near else ""
        raise TargetError(f"there is no target {name!r}; known targets: {listed}.{hint}")
    for target in targets:
        if target.name == DEFAULT_TARGET:
            return target
    if len(targets) == 1:
        return targets[0]
    raise TargetError(
        f"no target is chosen; name one with --target or `target:` in the eval file. Known targets: {listed}"
    )


def peek_targets(path: Path) -> tuple[TargetConfig, ...]:
    """Return the targets of a file with name and provider only, without validation.

    Raises EvalFileError when the file cannot be read.
    """
    name = shown(path)
    document, _ = compose(decode(read_bytes(path), name), name)
    entries = None if document is None else document.at(("targets",))
    return tuple(
        TargetConfig(str(entry.get("name")), str(entry.get("provider")))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping)
    )
