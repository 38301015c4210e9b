"""Who is asked over HTTP is imported beside the reading of files, and nobody else is; the end's files come later."""

import os
import sys
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from tests.support.own_process import in_own_process

from agentv.engine.planning.options import RunOptions
from agentv.engine.running.early_import import import_beside, import_later

MODEL = "{name: model, provider: openai, model: m}"
CANNED = "{name: default, provider: mock, response: hi}"


def wait_for_imports() -> None:
    for thread in threading.enumerate():
        if thread.name == "agentv-import":
            thread.join()


def imports(targets_file: str | None, *, targets: tuple[str, ...] = ()) -> bool:
    """Return whether aiohttp is imported, by the time that all threads have ended."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        if targets_file is not None:
            (folder / "targets.yaml").write_text(targets_file)
        import_beside(folder, RunOptions(targets=targets), cwd=folder)
        wait_for_imports()
    return "aiohttp" in sys.modules


def the_only_target() -> None:
    assert imports(f"targets: [{MODEL}]")


def the_one_that_the_options_name() -> None:
    both = f"targets: [{MODEL}, {CANNED}]"
    assert not imports(both)
    assert not imports(both, targets=("default", "nobody"))
    assert imports(both, targets=("model",))


def nobody_of_a_file_that_planning_will_refuse() -> None:
    threading.excepthook = lambda _args: os._exit(1)
    for text in (None, "", "targets: 7", "targets: [7, {name: x}, {name: y, provider: nobody}]", "a: [", "\0"):
        assert not imports(text), text


@pytest.mark.parametrize(
    "check", [the_only_target, the_one_that_the_options_name, nobody_of_a_file_that_planning_will_refuse]
)
def test_a_model_is_imported_early_when_it_is_sure_to_be_asked(check: object) -> None:
    in_own_process(check)  # type: ignore[arg-type]


class Later:
    """Stands for an event loop, whose time comes when it is told."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        assert delay_s > 0
        self.comes = call


def what_the_end_needs() -> None:
    later = Later()
    import_later("colorsys", cast(AbstractEventLoop, later))
    assert "colorsys" not in sys.modules
    later.comes()
    wait_for_imports()
    assert "colorsys" in sys.modules


def nothing_that_is_there_and_nothing_that_breaks() -> None:
    threading.excepthook = lambda _args: os._exit(1)
    later = Later()
    import_later("no_such_module", cast(AbstractEventLoop, later))
    later.comes()
    wait_for_imports()
    import_later("sys", cast(AbstractEventLoop, None))  # else it would ask the loop


def test_what_is_imported_already_or_cannot_be_is_left_alone() -> None:
    in_own_process(nothing_that_is_there_and_nothing_that_breaks)


def test_what_only_the_end_needs_is_imported_while_the_run_goes_on() -> None:
    in_own_process(what_the_end_needs)
