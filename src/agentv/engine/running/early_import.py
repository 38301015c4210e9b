"""Imports in a background thread: HTTP providers, while eval files are read.

aiohttp is the slowest import of a run, and a part of it, reading the certificates, releases the GIL.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

from agentv.loading.files.places import find_repository_root, find_targets_file
from agentv.loading.targets.choice import choose_target, peek_targets
from agentv.providers import PROVIDERS
from agentv.registry import ProviderSpec
from agentv.types.errors import AgentvError
from agentv.types.run_options import RunOptions

_POLL_S = 0.005
_READS_CERTIFICATES = "aiohttp.connector"
"""The module that reads the certificates on import."""


def import_in_background(folder: Path, options: RunOptions, *, cwd: Path) -> Thread:
    """Start importing the HTTP providers that eval files in `folder` probably use.

    The guess follows the targets of `options`; a wrong one costs a needless import. Code that needs a provider waits
    for the same import, and reports its errors. No KeyboardInterrupt may be raised while the returned thread runs: it
    could interrupt an import that holds a lock, and the other thread would wait for that lock for ever.
    """
    importing = Thread(target=_import_providers, args=(folder, options, cwd), name="agentv-import")
    importing.start()
    # Two parallel imports slow each other down, because they compete for the GIL.
    while importing.is_alive() and _READS_CERTIFICATES not in sys.modules:
        importing.join(_POLL_S)
    return importing


def _import_providers(folder: Path, options: RunOptions, cwd: Path) -> None:
    with suppress(AgentvError, OSError, ValueError):  # planning reports these
        for spec in _http_providers(folder, options, cwd):
            spec.load_factory()


def _http_providers(folder: Path, options: RunOptions, cwd: Path) -> Iterator[ProviderSpec]:
    override = cwd / options.targets_file if options.targets_file else None
    path = find_targets_file(folder, find_repository_root(folder), cwd, override)
    known = () if path is None else peek_targets(path)
    for name in options.targets or (None,):
        with suppress(AgentvError):  # another target may exist
            spec = PROVIDERS.get(choose_target(known, name).provider)
            if spec.is_model_api or spec.is_web_service:
                yield spec
