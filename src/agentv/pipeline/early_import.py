"""Providers that speak HTTP are imported beside the reading of cases: aiohttp reads certificates meanwhile."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Thread

from agentv.loading import choose_target
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Spec
from agentv.types.errors import AgentvError, PluginError

_HEAD_START_S = 0.03
"""About as long as aiohttp needs the interpreter for itself before it comes to the certificates, which need none."""


def import_beside(known: KnownTargets) -> None:
    """Begin to import whoever will most likely be asked: who the options name, else who is asked where no suite does.

    Who needs a provider waits for the same import, and is told what is wrong with it.
    """
    if specs := tuple(_asked_over_http(known)):
        importing = Thread(target=_import, args=(specs,), name="agentv-import")
        importing.start()
        importing.join(_HEAD_START_S)


def _asked_over_http(known: KnownTargets) -> Iterator[Spec]:
    for name in known.options.targets or (None,):
        with suppress(AgentvError):  # planning tells
            spec = known.specs.providers.get(choose_target(tuple(known.configs.values()), name).provider)
            if spec.is_model_api or spec.is_web_service:
                yield spec


def _import(specs: Sequence[Spec]) -> None:
    for spec in specs:
        with suppress(PluginError):
            spec.load_factory()
