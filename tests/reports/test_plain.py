"""Plain lines: for logs and CI."""

import threading
from collections.abc import Callable
from datetime import datetime

import pytest
from msgspec.structs import replace
from tests.reports.outcomes import listed
from tests.reports.rows import FAILED, HOSTILE, PASSED, REPORT, STARTED, UNANSWERED
from tests.reports.screens import EncodedStream, Hand
from tests.support.stored import CONTAINS, make_result

from agentv.reports.progress.progress import PlainLines
from agentv.reports.run.row_text import PLAIN_LABELS, workflow_command
from agentv.reports.text.printable import escape_commands
from agentv.types.events import RowFinished, RowKept, RunEnded, RunNote, RunStopping

SMALL = replace(STARTED, planned=20, cases=20, trials=1, targets=("agent-v2",))


class Log(EncodedStream):
    """A stream whose lines can be waited for."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(encoding)
        self._news = threading.Condition()

    def write(self, text: str) -> int:
        with self._news:
            written = super().write(text)
            self._news.notify_all()
        return written

    def has(self, text: str) -> bool:
        with self._news:
            return self._news.wait_for(lambda: text in self.getvalue(), timeout=10)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def plain(log: Log, clock: Callable[[], datetime]) -> PlainLines:
    return PlainLines(log, clock=clock)


def test_a_run_in_lines(plain: PlainLines, log: Log, clock: Hand) -> None:
    plain.notify(SMALL)
    plain.notify(RunNote("`grader` is deprecated\x07"))
    for row in (PASSED, FAILED, UNANSWERED, PASSED):
        clock.turn(2)
        plain.notify(RowFinished(row))
    plain.notify(RunStopping("Ctrl-C"))
    plain.close()
    assert log.getvalue() == LINES


LINES = """\
run 20260131T120000-7f3a2b: refunds · 20 cases
note: `grader` is deprecated\\x07
FAIL refund-7   0.33  contains: expected "30 days", got "We will look into it."
2/20 (10 %)  pass 1  fail 1  0/16 workers · 0.5/s · $0.0008 · 00:04 · about 00:36 left
ERROR order-9  error target: HTTP 503 after 3 attempts (12.4 s)
4/20 (20 %)  pass 2  fail 1  error 1  0/16 workers · 0.5/s · $0.0016 · 00:08 · about 00:32 left
stopping, cancelling running cases: Ctrl-C
"""


def test_a_hostile_answer_is_one_harmless_line(plain: PlainLines, log: Log) -> None:
    plain.notify(SMALL)
    plain.notify(RowFinished(HOSTILE))
    (line,) = log.getvalue().splitlines()[1:]
    assert line == HOSTILE_LINE


HOSTILE_LINE = "FAIL 日本語\\x1b[2J trial 3 0.00  contains: red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b"  # noqa: E501 - as it is shown


def test_without_unicode_everything_is_written_out(clock: Hand) -> None:
    log = Log("ascii")
    plain = PlainLines(log, clock=clock)
    plain.notify(STARTED)
    for target in STARTED.targets:
        for trial in range(STARTED.trials):
            slot = replace(HOSTILE.slot, target=target, trial=trial)
            plain.notify(RowFinished(replace(HOSTILE, slot=slot)))
    assert "240 cases x 2 targets x 3 trials = 1,440" in log.getvalue()
    assert "\\u5bb6\\u65cf" in log.getvalue()


def test_a_heartbeat_comes_every_ten_percent(plain: PlainLines, log: Log) -> None:
    plain.notify(SMALL)
    for _ in range(20):
        plain.notify(RowFinished(PASSED))
    beats = [line.split("  ")[0] for line in log.getvalue().splitlines()[1:]]
    assert beats == [f"{done}/20 ({done * 5} %)" for done in range(2, 21, 2)]


def test_a_heartbeat_comes_after_thirty_seconds_of_nothing_new(plain: PlainLines, log: Log, clock: Hand) -> None:
    plain.notify(SMALL)
    clock.turn(29)
    plain.beat()
    assert len(log.getvalue().splitlines()) == 1
    clock.turn(1)
    plain.beat()
    assert log.getvalue().splitlines()[1:] == ["0/20 (0 %)  0/16 workers · 00:30"]
    plain.beat()
    assert len(log.getvalue().splitlines()) == 2


class Closing(Log):
    """A stream whose reader goes away."""

    def __init__(self) -> None:
        super().__init__()
        self.open = True
        self.tried = threading.Event()

    def write(self, text: str) -> int:
        if self.open:
            return super().write(text)
        self.tried.set()
        raise BrokenPipeError(32, "Broken pipe")


def test_the_heartbeat_ends_quietly_when_the_stream_is_closed(clock: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    log = Closing()
    plain = PlainLines(log, clock=clock, tick_s=0.001)
    plain.notify(SMALL)
    log.open = False
    clock.turn(31)
    assert log.tried.wait(10)
    plain.close()
    assert said == []
    with pytest.raises(BrokenPipeError):
        plain.notify(RunNote("the observer gets it"))


def test_the_heartbeat_goes_on_while_nothing_happens(log: Log, clock: Hand) -> None:
    plain = PlainLines(log, clock=clock, tick_s=0.001)
    plain.notify(SMALL)
    clock.turn(31)
    assert log.has("0/16 workers · 00:31")
    plain.close()


def test_under_github_each_case_is_an_annotation_at_the_end(log: Log, clock: Hand) -> None:
    plain = PlainLines(log, clock=clock, github=True)
    plain.notify(replace(SMALL, planned=None))
    for row in (FAILED, PASSED, HOSTILE):
        plain.notify(RowFinished(row))
    assert "::error" not in log.getvalue().replace(" ::error::gotcha", "")
    plain.notify(RunEnded(REPORT))
    commands = [line for line in log.getvalue().splitlines() if line.startswith("::")]
    titles = ["日本語\\x1b[2J · agent-v2", "refund-7 · agent-v2", "order-9 · agent-v2"]
    assert [line.partition("title=")[2].partition("::")[0] for line in commands] == titles
    assert commands[1] == REFUND


REFUND = (
    "::error file=evals/refunds.yaml,line=12,title=refund-7 · agent-v2::0.33%0Aquestion: How long?%0A"
    'answer: We will look into it.%0Aexpected: 30 days%0Areason: contains: expected "30 days", got "We will look into '
    'it."'
)


def test_prompts_and_targets_of_a_case_are_one_annotation_and_a_borderline_one_is_a_warning(
    log: Log, clock: Hand
) -> None:
    rows = [
        replace(row, slot=replace(row.slot, prompt=prompt), prompt=prompt)
        for prompt in ("short", "long")
        for row in (FAILED, replace(FAILED, slot=replace(FAILED.slot, eval_id="close"), verdict="borderline"))
    ]
    plain = PlainLines(log, clock=clock, github=True)
    plain.notify(RunEnded(replace(REPORT, failing_total=4, **listed(rows))))
    error, warning = (line for line in log.getvalue().splitlines() if line.startswith("::"))
    assert error.startswith("::error file=evals/refunds.yaml,line=12,title=refund-7 · agent-v2 · long::0.33%0A")
    assert error.endswith("%0Aalso refund-7 · agent-v2 · short: 0.33")
    assert warning.startswith("::warning file=evals/refunds.yaml,line=12,title=close · agent-v2 · long::")


def test_the_trials_of_a_case_are_one_line_when_the_last_is_finished(plain: PlainLines, log: Log) -> None:
    plain.notify(replace(SMALL, trials=3, planned=60, targets=("agent-v2", "other")))
    failed, passed = (
        [replace(row, slot=replace(FAILED.slot, trial=trial)) for trial in range(3)] for row in (FAILED, PASSED)
    )
    for row in (failed[2], passed[1]):
        plain.notify(RowFinished(row))
    assert "FAIL" not in log.getvalue()
    plain.notify(RowFinished(failed[0]))
    plain.notify(RowFinished(replace(failed[0], slot=replace(FAILED.slot, eval_id="refund-8"))))
    plain.notify(RunEnded(REPORT))
    lines = [line for line in log.getvalue().splitlines() if line.startswith("FAIL")]
    reason = 'contains: expected "30 days", got "We will look into it."'
    assert lines == [
        f"FAIL refund-7 · agent-v2   1 of 3 passed  {reason}",
        f"FAIL refund-8 · agent-v2 trial 1 of 3 0.33  {reason}",
    ]


def test_an_annotation_is_escaped() -> None:
    row = replace(HOSTILE, file="a,b:c%.yaml", line=7)
    text = "100 %, a:b::c\nnext"
    assert workflow_command("error", row, PLAIN_LABELS, text) == ANNOTATION


ANNOTATION = "::error file=a%2Cb%3Ac%25.yaml,line=7,title=日本語\\x1b[2J · agent-v2::100 %25, a:b::c%0Anext"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::add-mask::x", ".::add-mask::x"),
        ("   ::error::x", ".   ::error::x"),
        ("see ##[command]x", "see ## [command]x"),
        ("a :: b", "a :: b"),
    ],
)
def test_no_line_of_strangers_is_a_workflow_command(line: str, shown: str) -> None:
    assert escape_commands(line) == shown


def test_a_failure_with_much_to_say_is_cut(plain: PlainLines, log: Log) -> None:
    plain.notify(SMALL)
    plain.notify(RowFinished(make_result(evaluator_results=(replace(CONTAINS, misses=("long " * 400,)),))))
    _, line = log.getvalue().splitlines()
    assert len(line) == 300
    assert line.endswith("…")


def test_results_of_an_earlier_run_are_counted_and_not_printed(plain: PlainLines, log: Log) -> None:
    plain.notify(SMALL)
    for _ in range(12):
        plain.notify(RowKept(FAILED))
    assert len(log.getvalue().splitlines()) == 1
    plain.notify(RowFinished(PASSED))
    assert log.getvalue().splitlines()[1].startswith("13/20 (65 %)  pass 1  fail 12  ")
