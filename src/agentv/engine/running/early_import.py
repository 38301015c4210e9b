"""What is imported beside other work: who speaks HTTP before the first call, what only the end needs after it.

aiohttp takes longer than anything else that a run imports, and a part of that, the certificates, needs no interpreter.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from agentv.engine.planning.options import RunOptions
from agentv.loading.files.places import find_repository_root, find_targets_file
from agentv.loading.targets.choice import choose_target, peek_targets
from agentv.providers import PROVIDERS
from agentv.registry import Spec
from agentv.types.errors import AgentvError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


_UNDER_WAY_S = 1.0
_LOOK_S = 0.005
_READS_CERTIFICATES = "aiohttp.connector"
"""The module that reads them when it is imported."""


def import_beside(folder: Path, options: RunOptions, *, cwd: Path) -> Thread:
    """Begin to import whoever eval files in `folder` will most likely ask: the options' targets, else their default.

    A wrong guess costs that import alone. Who needs a provider waits for the same import, and is told what is wrong.
    While the thread that is returned goes on, no KeyboardInterrupt may be raised: in the middle of an import it leaves
    a lock that the other one waits for.
    """
    importing = Thread(target=_import_asked, args=(folder, options, cwd), name="agentv-import")
    importing.start()
    # Two imports at once hinder each other: the interpreter changes hands with every file.
    while importing.is_alive() and _READS_CERTIFICATES not in sys.modules:
        importing.join(_LOOK_S)
    return importing


def _import_asked(folder: Path, options: RunOptions, cwd: Path) -> None:
    with suppress(AgentvError, OSError, ValueError):  # planning tells
        for spec in _asked_over_http(folder, options, cwd):
            spec.load_factory()


def _asked_over_http(folder: Path, options: RunOptions, cwd: Path) -> Iterator[Spec]:
    override = cwd / options.targets_file if options.targets_file else None
    path = find_targets_file(folder, find_repository_root(folder), cwd, override)
    known = () if path is None else peek_targets(path)
    for name in options.targets or (None,):
        with suppress(AgentvError):  # another name may be there
            spec = PROVIDERS.get(choose_target(known, name).provider)
            if spec.is_model_api or spec.is_web_service:
                yield spec


def import_later(module: str, loop: "AbstractEventLoop") -> None:
    """Import what only the end of a run needs once the run is under way, in a thread.

    The first call does not wait for it; and a run of hours does not end with a file that was replaced meanwhile.
    """
    if module not in sys.modules:
        importing = Thread(target=_import_quietly, args=(module,), name="agentv-import", daemon=True)
        loop.call_later(_UNDER_WAY_S, importing.start)


def _import_quietly(module: str) -> None:
    with suppress(Exception):  # the end imports it again, and tells
        importlib.import_module(module)
