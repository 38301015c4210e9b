"""The block that is redrawn, and what scrolls above it."""

import threading
from datetime import timedelta

import pytest
from msgspec.structs import replace
from rich.console import Console
from tests.reports.rows import FAILED, HOSTILE, PASSED, STARTED, UNANSWERED
from tests.reports.screens import EncodedStream
from tests.support.stored import NOON, at_noon, make_answer
from tests.support.terminal_screen import TerminalScreen

from agentv.reports.progress.live import LiveScreen, live_block
from agentv.reports.progress.progress import Progress
from agentv.reports.text.printable import printable
from agentv.reports.text.signs import ASCII, UNICODE
from agentv.reports.text.width import display_width
from agentv.types.evaluation import EvaluatorResult, JudgeCall
from agentv.types.events import AnswerArrived, RetryNoted, RowBegun, RowFinished, RunNote, RunStopping
from agentv.types.records.result import Spent, UsageBy

LATER = NOON + timedelta(seconds=161)
BLOCK = """\
╭ refunds · 240 cases × 2 targets × 3 trials = 1,440 ────────────── run 7f3a2b ╮
│ agent-v1 ━━━━━━━━━━━━━╸      77 %  561/720  ✓ 420 ~ 0 ✗ 141 ! 0  pass 74.9 % │
│ agent-v2                      0 %  1/720    ✓ 0   ~ 0 ✗ 0   ! 1  pass -      │
│ 12/16 workers · 3.5/s · retries 7 · $0.84 of $5.00 · 02:41 · 04:12 left      │
╰ Ctrl-C stops cleanly; resume: agentv resume 7f3a2b ──────────────────────────╯\
"""  # noqa: RUF001 - as it is shown
BLOCK_IN_ASCII = """\
+ refunds | 240 cases x 2 targets x 3 trials = 1,440 -------------- run 7f3a2b +
| agent-v1 =============>      77 %  561/720  + 420 ~ 0 x 141 ! 0  pass 74.9 % |
| agent-v2                      0 %  1/720    + 0   ~ 0 x 0   ! 1  pass -      |
| 12/16 workers | 3.5/s | retries 7 | $0.84 of $5.00 | 02:41 | 04:12 left      |
+ Ctrl-C stops cleanly; resume: agentv resume 7f3a2b --------------------------+\
"""


@pytest.fixture
def progress() -> Progress:
    progress = Progress(replace(STARTED, budget_usd=5.0), NOON)
    for number in range(561):
        row = FAILED if number % 4 == 0 else PASSED
        spent = UsageBy(judge=Spent(cost_usd=0.001))
        progress.add(RowFinished(replace(row, slot=replace(row.slot, target="agent-v1"), usage_by=spent)))
    progress.add(RowFinished(UNANSWERED))
    for _ in range(7):
        progress.add(RetryNoted("agent-v1", "refund-7", "rate_limited", 1.0))
    for _ in range(12):
        progress.add(RowBegun(PASSED.slot))
    progress.add(AnswerArrived(make_answer(cost_usd=0.28)))
    progress.add(AnswerArrived(make_answer(cost_usd=5.0, billed_usd=0.0)))
    return progress


def test_the_block_at_80_columns(progress: Progress) -> None:
    assert "\n".join(live_block(progress, LATER, width=80, signs=UNICODE)) == BLOCK


def test_the_block_without_unicode(progress: Progress) -> None:
    assert "\n".join(live_block(progress, LATER, width=80, signs=ASCII)) == BLOCK_IN_ASCII


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_every_line_fills_the_width(progress: Progress, width: int) -> None:
    progress.by_target["家族 👩‍👩‍👧 \x1b[2J"] = progress.by_target["agent-v1"]
    for signs in (UNICODE, ASCII):
        assert {display_width(line) for line in live_block(progress, LATER, width=width, signs=signs)} == {width}


def test_the_block_of_a_stream_has_no_bar_and_no_end_in_sight() -> None:
    progress = Progress(replace(STARTED, planned=None, cases=None, trials=1, targets=("a",)), NOON)
    progress.add(RowFinished(replace(PASSED, slot=replace(PASSED.slot, target="a"))))
    lines = live_block(progress, NOON + timedelta(seconds=2), width=60, signs=ASCII)
    assert lines[1].rstrip("| ") == "| a 1  + 1 ~ 0 x 0 ! 0  pass 100 %"
    assert "left" not in lines[2]


def test_more_targets_than_fit_are_counted() -> None:
    progress = Progress(replace(STARTED, targets=tuple(f"t{n}" for n in range(11))), NOON)
    assert "and 3 more targets" in "\n".join(live_block(progress, NOON, width=80, signs=ASCII))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_failures_scroll_above_the_block_without_their_control_characters(encoding: str) -> None:
    stream = EncodedStream(encoding)
    console = Console(file=stream, force_terminal=True, width=80, height=24, color_system=None, legacy_windows=False)
    screen = LiveScreen(stream, clock=at_noon, console=console)
    screen.notify(replace(STARTED, trials=1))
    screen.notify(RunNote("odd\x1b[2J"))
    for event in (RowFinished(FAILED), RowFinished(PASSED), RowFinished(HOSTILE), RowFinished(UNANSWERED)):
        screen.notify(event)
    screen.notify(RunStopping("Ctrl-C"))
    screen.close()
    text = stream.getvalue()
    text.encode(encoding)
    said = [line for line in text.splitlines() if "agent-v2 " in line and "refund-7" in line]
    assert any('contains: expected "30 days"' in line for line in said)
    assert "\x1b]0;" not in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert all(display_width(printable(line)) < 200 for line in text.splitlines())
    assert "note: odd\\x1b[2J" in text


class Gone(EncodedStream):
    """A terminal that goes away."""

    def __init__(self) -> None:
        super().__init__("utf-8")
        self.open = True
        self.tried = threading.Event()

    def write(self, text: str) -> int:
        if self.open:
            return super().write(text)
        self.tried.set()
        raise OSError(5, "Input/output error")


def test_the_thread_that_redraws_says_nothing_when_the_terminal_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    stream = Gone()
    console = Console(file=stream, force_terminal=True, width=80, height=24, color_system=None, legacy_windows=False)
    screen = LiveScreen(stream, clock=at_noon, console=console)
    screen.notify(STARTED)
    stream.open = False
    assert stream.tried.wait(10)
    with pytest.raises(OSError, match="Input/output error"):
        screen.notify(RunNote("the observer gets it"))
    stream.open = True
    screen.close()
    assert said == []


def test_an_echoed_ctrl_c_does_not_wrap_the_block() -> None:
    stream = EncodedStream("ascii")
    console = Console(file=stream, force_terminal=True, width=80, height=24, color_system=None, legacy_windows=False)
    screen = LiveScreen(stream, clock=at_noon, console=console)
    screen.notify(STARTED)
    screen.close()
    block = [line for line in stream.getvalue().splitlines() if "Ctrl-C stops cleanly" in line]
    assert block
    assert all(display_width(printable(line)) + len("^C") < 80 for line in block)
    assert stream.getvalue().endswith("\n")


def test_the_block_stands_before_the_first_failure_and_once() -> None:
    stream = EncodedStream("utf-8")
    console = Console(file=stream, force_terminal=True, width=80, height=24, color_system=None, legacy_windows=False)
    screen = LiveScreen(stream, clock=at_noon, console=console, redraws=False)
    screen.notify(replace(STARTED, trials=1))
    assert stream.getvalue().count("Ctrl-C stops cleanly") == 1
    screen.notify(RowFinished(FAILED))
    terminal = TerminalScreen(80)
    terminal.feed(stream.getvalue().replace("\n", "\r\n").encode())
    assert [line[0] for line in terminal.lines()] == ["✗", "╭", "│", "│", "│", "╰"]
    screen.close()


def test_what_was_not_billed_is_not_shown_as_spent() -> None:
    calls = (JudgeCall("j", "sample", "…", cost_usd=0.5, cached=True), JudgeCall("j", "sample", "…", cost_usd=0.25))
    judged = EvaluatorResult(name="tone", type="llm_judge", score=1.0, judge_calls=calls)
    progress = Progress(STARTED, NOON)
    progress.add(
        RowFinished(replace(PASSED, evaluator_results=(judged,), usage_by=UsageBy(judge=Spent(cost_usd=0.75))))
    )
    assert progress.cost_usd == 0.25
