"""A provider that speaks HTTP is imported beside the reading of cases: aiohttp reads certificates meanwhile."""

from contextlib import suppress
from threading import Thread

from agentv.loading import choose_target
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Spec
from agentv.types.errors import AgentvError, PluginError


def import_beside(known: KnownTargets) -> None:
    """Begin to import whoever will most likely be asked: who the options name, else who is asked where no suite does.

    Who needs the provider waits for the same import, and is told what is wrong with it.
    """
    for name in known.options.targets or (None,):
        with suppress(AgentvError):  # planning tells
            spec = known.specs.providers.get(choose_target(tuple(known.configs.values()), name).provider)
            if spec.is_model_api or spec.is_web_service:
                Thread(target=_import, args=(spec,), name="agentv-import").start()


def _import(spec: Spec) -> None:
    with suppress(PluginError):
        spec.load_factory()
