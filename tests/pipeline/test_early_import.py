"""Who is asked over HTTP is imported beside the reading of cases, and nobody else is."""

import sys
import threading

import pytest
from tests.own_process import in_own_process

from agentv.pipeline.early_import import import_beside
from agentv.pipeline.options import RunOptions
from agentv.pipeline.plugins import load_specs
from agentv.pipeline.targets import KnownTargets
from agentv.types.targets import TargetConfig

MODEL = TargetConfig("model", "openai", {"model": "m"})
CANNED = TargetConfig("default", "mock", {"response": "hi"})


def imports(*configs: TargetConfig, targets: tuple[str, ...] = ()) -> bool:
    """Return whether aiohttp is imported, by the time that all threads have ended."""
    known = KnownTargets({config.name: config for config in configs}, {}, load_specs(), RunOptions(targets=targets))
    import_beside(known)
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
    return "aiohttp" in sys.modules


def the_only_target() -> None:
    assert imports(MODEL)


def the_one_that_the_options_name() -> None:
    assert not imports(MODEL, CANNED)
    assert not imports(MODEL, CANNED, targets=("default", "nobody"))
    assert imports(MODEL, CANNED, targets=("model",))


@pytest.mark.parametrize("check", [the_only_target, the_one_that_the_options_name])
def test_a_model_is_imported_early_when_it_is_sure_to_be_asked(check: object) -> None:
    in_own_process(check)  # type: ignore[arg-type]
