"""What people see of six kinds of runs, from the first event to the verdict: live and plain, with Unicode and without.

`./run python -m tests.reports.test_transcripts` writes the files in transcripts/ anew; look at what changed in them.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console
from tests.reports.screens import EncodedStream, Hand
from tests.reports.scripted_runs import RUNS, ScriptedRun
from tests.support.stored import NOON
from tests.support.terminal_screen import TerminalScreen

from agentv.reports.progress.live import LiveScreen
from agentv.reports.progress.progress import PlainLines
from agentv.reports.run.end_table import end_report
from agentv.reports.run.row_text import RowLabels
from agentv.reports.text.signs import UNICODE, signs_for
from agentv.reports.text.width import display_width
from agentv.types.events import Observer

FOLDER = Path(__file__).parent / "transcripts"
WIDTHS = (80, 120)
ENCODINGS = ("utf-8", "ascii")
_PATHS = ("Saved to ", "Details: ", "Retry errors: ", "Resume: ", "and ")


def played(run: ScriptedRun, observer: Observer, clock: Hand) -> Iterator[None]:
    """Send the events of a run to an observer; yield at each look at the screen."""
    for moment in run.moments:
        clock.now = NOON + timedelta(seconds=moment.at_s)
        observer.notify(moment.event)
        if moment.is_shown:
            yield
    observer.close()


def end_of(run: ScriptedRun, encoding: str, width: int | None) -> str:
    return end_report(
        run.report,
        width=width,
        unicode=signs_for(encoding) is UNICODE,
        labels=RowLabels.of_run(run.started),
        shown_notes=run.report.notes,  # they come before the first call
    )


def seen(written: str, width: int) -> str:
    screen = TerminalScreen(width, 60)
    screen.feed(written.replace("\n", "\r\n").encode())
    return "\n".join(screen.lines()) + "\n"


def live(run: ScriptedRun, width: int, encoding: str) -> dict[str, str]:
    """Return what stands on a terminal while a run goes on, and at its end."""
    stream, clock = EncodedStream(encoding), Hand()
    console = Console(file=stream, force_terminal=True, width=width, height=60, color_system=None, legacy_windows=False)
    screen = LiveScreen(stream, clock=clock, console=console, redraws=False)
    shown = {}
    for _ in played(run, screen, clock):
        screen.draw()
        shown["on the way"] = seen(stream.getvalue(), width)
    return {**shown, "at the end": seen(stream.getvalue() + end_of(run, encoding, width), width)}


def plain(run: ScriptedRun, encoding: str, *, github: bool = False) -> str:
    stream, clock = EncodedStream(encoding), Hand()
    for _ in played(run, PlainLines(stream, clock=clock, github=github), clock):
        pass
    return stream.getvalue() + end_of(run, encoding, None)


def transcripts_of(name: str) -> dict[str, str]:
    """Return the files of a run by their names."""
    run = RUNS[name]()
    files = {f"{name}-plain.txt": plain(run, "utf-8"), f"{name}-plain-ascii.txt": plain(run, "ascii")}
    for width in WIDTHS:
        for encoding in ENCODINGS:
            suffix = "" if encoding == "utf-8" else "-ascii"
            parts = live(run, width, encoding).items()
            files[f"{name}-live-{width}{suffix}.txt"] = "\n".join(f"[{when}]\n{text}" for when, text in parts)
    return files


@pytest.mark.parametrize("name", RUNS)
def test_a_run_looks_as_it_did(name: str) -> None:
    for file, text in transcripts_of(name).items():
        assert text == (FOLDER / file).read_text("utf-8"), f"{file}: see the docstring of this file"


def test_every_transcript_is_compared() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {file for name in RUNS for file in transcripts_of(name)}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int, encoding: str) -> None:
    run = RUNS[name]()
    stream, clock = EncodedStream(encoding), Hand()
    console = Console(file=stream, force_terminal=True, width=width, height=60, color_system=None, legacy_windows=False)
    for _ in played(run, LiveScreen(stream, clock=clock, console=console, redraws=False), clock):
        pass
    written = seen(stream.getvalue(), 400) + end_of(run, encoding, width)
    free = [line for line in written.splitlines() if not line.startswith(_PATHS)]
    assert [line for line in free if display_width(line) > width] == []


@pytest.mark.parametrize("name", RUNS)
def test_the_last_line_gives_the_exit_code_and_plain_verdict(name: str) -> None:
    run = RUNS[name]()
    verdict = f"{run.report.verdict.sentence} Exit code {run.report.exit_code}."
    assert plain(run, "utf-8").splitlines()[-1] == verdict
    for width in WIDTHS:
        end = live(run, width, "utf-8")["at the end"].splitlines()
        assert end[-1].endswith(f"Exit code {run.report.exit_code}.")
        assert " ".join(end).endswith(verdict)


def test_live_and_plain_tell_of_the_same_rows() -> None:
    run = RUNS["mixed"]()
    scrolled = live(run, 120, "utf-8")["at the end"].partition("\n\n")[0].splitlines()
    lines = [line for line in plain(run, "utf-8").splitlines() if line.split(" ")[0] in ("FAIL", "BORDERLINE", "ERROR")]
    rows = [line for line in scrolled if line[0] in "✗~!"]
    assert [line.split()[1][:8] for line in rows] == [line.split()[1][:8] for line in lines]
    assert len(rows) == run.report.cases_distinct < run.report.failing_total


def test_no_line_of_a_plain_run_is_a_command_to_github_but_the_annotations() -> None:
    written = plain(RUNS["mixed"](), "utf-8", github=True).partition("\ndid not pass")[0].splitlines()
    commands = [line for line in written if line.startswith("::")]
    assert all(line.startswith(("::error file=", "::warning file=")) for line in commands)
    assert len(commands) == len({case.result.eval_id for case in RUNS["mixed"]().report.cases})
    assert not [line for line in written if "##[" in line and line not in commands]


if __name__ == "__main__":
    for name in RUNS:
        for file, text in transcripts_of(name).items():
            (FOLDER / file).write_text(text, "utf-8")
