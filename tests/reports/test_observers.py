"""Who watches a run, from `--display` and from where the output goes."""

import io
from collections.abc import Mapping

import pytest
from tests.reports.rows import STARTED
from tests.support.stored import at_noon

from agentv.reports.progress.json_lines import JsonLines
from agentv.reports.progress.live import LiveScreen
from agentv.reports.progress.observers import NullObserver, choose_display, make_observer
from agentv.reports.progress.progress import PlainLines
from agentv.storage.records.encode import export_record
from agentv.types.errors import UnknownNameError


@pytest.mark.parametrize(
    ("is_terminal", "env", "display"),
    [
        (True, {}, "live"),
        (True, {"CI": "1"}, "plain"),
        (True, {"CI": "true"}, "plain"),
        (True, {"CI": "false"}, "live"),
        (True, {"TERM": "dumb"}, "plain"),
        (False, {}, "plain"),
    ],
)
def test_auto_is_live_on_a_terminal_and_plain_elsewhere(
    is_terminal: bool, env: Mapping[str, str], display: str
) -> None:
    assert choose_display("auto", is_terminal=is_terminal, env=env) == display


def test_a_requested_display_is_returned() -> None:
    assert choose_display("live", is_terminal=False, env={"CI": "1"}) == "live"


def test_an_unknown_display_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'plain'"):
        choose_display("plan", is_terminal=True, env={})


@pytest.mark.parametrize(
    ("display", "kind"), [("live", LiveScreen), ("plain", PlainLines), ("json", JsonLines), ("none", NullObserver)]
)
def test_each_display_has_its_observer(display: str, kind: type) -> None:
    observer = make_observer(display, io.StringIO(), is_terminal=False, env={}, clock=at_noon, to_record=export_record)
    assert isinstance(observer, kind)
    observer.close()


def test_none_says_nothing() -> None:
    stream = io.StringIO()
    observer = make_observer("none", stream, is_terminal=True, env={}, clock=at_noon, to_record=export_record)
    observer.notify(STARTED)
    observer.close()
    assert stream.getvalue() == ""
