"""Functions named in files: `package.module:function` and `path/to/file.py:function`."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from agentv.types.errors import PluginError, nearest


def load_callable(reference: str, base_dir: str | Path) -> Callable[..., Any]:
    """Return the function that `reference` names; the dots after the colon reach into classes and objects.

    A path and a package are looked for from `base_dir`, which from then on is searched for imports, after everything
    else. A file is executed once. Raises PluginError that says what is missing or what the module's own code raised.
    """
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise PluginError(f"{reference!r} names no function; write package.module:function or path/to/file.py:function")
    module = load_module(place, base_dir)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = nearest(part, [known for known in vars(module) if not known.startswith("_")])
            hint = f" Did you mean {near!r}?" if near else ""
            raise PluginError(f"cannot load {reference!r}: {place} has no {part!r}.{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise PluginError(f"cannot load {reference!r}: it is a {type(found).__name__}, not a function")
    return found


def load_module(place: str, base_dir: str | Path) -> ModuleType:
    """Import `package.module` or `path/to/file.py`, looked for from `base_dir`; a file is executed once.

    Raises PluginError that says what is missing or what the module's own code raised.
    """
    folder = Path(base_dir).resolve()
    try:
        return _load_file(folder / place) if place.endswith(".py") else _import_module(place, folder)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # someone else's module may raise anything while it is imported
        said = f"{type(error).__name__}: {error}{raised_at(error)}"
        raise PluginError(f"cannot load {place!r}: {said}") from error


def raised_at(error: BaseException) -> str:
    """Return the innermost line of code where `error` was raised, as the end of a message: ` (path:line)`."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _import_module(name: str, folder: Path) -> ModuleType:
    _search(folder)
    return importlib.import_module(name)


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise PluginError(f"there is no file {path}")
    name = f"_agentv_file_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported as Python")
    _search(path.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
