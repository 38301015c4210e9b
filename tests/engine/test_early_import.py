"""HTTP providers are imported while files are read, other providers are not."""

import os
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.support.own_process import in_own_process

from agentv.engine.running.early_import import import_in_background
from agentv.types.run_options import RunOptions

MODEL = "{name: model, provider: openai, model: m}"
CANNED = "{name: default, provider: mock, response: hi}"


def wait_for_imports() -> None:
    for thread in threading.enumerate():
        if thread.name == "agentv-import":
            thread.join()


def imports(targets_file: str | None, *, targets: tuple[str, ...] = ()) -> bool:
    """Return True if aiohttp is imported after all threads have ended."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        if targets_file is not None:
            (folder / "targets.yaml").write_text(targets_file)
        import_in_background(folder, RunOptions(targets=targets), cwd=folder)
        wait_for_imports()
    return "aiohttp" in sys.modules


def the_only_target() -> None:
    assert imports(f"targets: [{MODEL}]")


def the_one_that_the_options_name() -> None:
    both = f"targets: [{MODEL}, {CANNED}]"
    assert not imports(both)
    assert not imports(both, targets=("default", "unknown"))
    assert imports(both, targets=("model",))


def none_of_a_file_that_planning_rejects() -> None:
    threading.excepthook = lambda _args: os._exit(1)
    for text in (None, "", "targets: 7", "targets: [7, {name: x}, {name: y, provider: unknown}]", "a: [", "\0"):
        assert not imports(text), text


@pytest.mark.parametrize(
    "check", [the_only_target, the_one_that_the_options_name, none_of_a_file_that_planning_rejects]
)
def test_model_api_is_imported_early_if_it_is_certain_to_be_called(check: object) -> None:
    in_own_process(check)  # type: ignore[arg-type]
