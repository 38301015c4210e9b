import itertools
import json
import re
import resource
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agents import codex_says, lines, recorded

from agentv.messages.transcripts.copilot import read_copilot
from agentv.providers.agents import base as agent_base
from agentv.providers.agents.base import MAX_STORED_BYTES, MAX_STREAM_BYTES, AgentLog, AgentStream, ReadEvent, log_path
from agentv.providers.agents.claude import read_claude
from agentv.providers.agents.codex import read_codex
from agentv.providers.agents.pi import read_pi
from agentv.templating.secrets import SecretRedactor

NOW = datetime(2026, 11, 20, 7, 0, 1, 500_000, tzinfo=UTC)
READERS: dict[str, ReadEvent] = {"codex": read_codex, "claude": read_claude, "pi": read_pi, "copilot": read_copilot}


def stream_of(
    read: ReadEvent = read_codex,
    log: AgentLog | None = None,
    *,
    secrets: Iterable[str] = (),
    fragment_types: frozenset[str] = frozenset(),
    show: Callable[[str], None] | None = None,
) -> AgentStream:
    redactor = SecretRedactor(secrets)
    return AgentStream(
        read, log or AgentLog(None), redactor=redactor, clock=lambda: NOW, fragment_types=fragment_types, show=show
    )


@pytest.mark.parametrize("agent", READERS)
@given(cuts=st.lists(st.integers(0, 20_000), max_size=8))
def test_it_does_not_matter_how_output_is_cut(agent: str, cuts: list[int]) -> None:
    content = recorded(agent).encode()
    whole, cut = stream_of(READERS[agent]), stream_of(READERS[agent])
    places = [0, *sorted(min(place, len(content)) for place in cuts), len(content)]

    assert whole.feed(content)
    for start, end in itertools.pairwise(places):
        assert cut.feed(content[start:end])
    whole.end()
    cut.end()

    assert cut.transcript.response() == whole.transcript.response()
    assert cut.transcript.answer == "The amount is in notes.txt, and new.txt is written."


@pytest.mark.parametrize("agent", READERS)
def test_the_steps_of_every_agent_can_be_shown_as_they_come(agent: str) -> None:
    shown: list[str] = []
    stream = stream_of(READERS[agent], show=shown.append)

    first, _, rest = recorded(agent).encode().rpartition(b"notes.txt")
    assert stream.feed(first)
    before = [line.partition(" ")[0] for line in shown]
    stream.feed(b"notes.txt" + rest)
    stream.end()

    assert {"calls", "returns"} <= set(before)
    assert any(line.startswith(("says ", "answers ")) and "new.txt is written." in line for line in shown)


def test_a_step_is_shown_whole_so_that_further_secrets_can_be_found() -> None:
    shown: list[str] = []
    stream = stream_of(secrets=["s3cr3t-own"], show=shown.append)

    stream.feed(codex_says(f"The key s3cr3t-own\nand {'y' * 5_000}").encode())

    assert shown == [f"says The key ***\nand {'y' * 5_000}"]


def test_a_last_line_needs_no_line_end_and_others_may_have_two() -> None:
    stream = stream_of()

    stream.feed(codex_says("One.").replace("\n", "\r\n").encode() + codex_says("Two.").encode().rstrip())
    stream.end()

    assert stream.transcript.answer == "Two."


def test_words_between_events_are_no_events_and_stay_in_the_tail() -> None:
    stream = stream_of()

    stream.feed(b"warming up \xff\n" + codex_says("Done.").encode() + b"{broken\n")
    stream.end()

    assert stream.transcript.answer == "Done."
    assert stream.tail.startswith("\nwarming up \ufffd\n{")
    assert stream.tail.endswith("\n{broken")


def test_secrets_are_struck_before_anything_is_made_of_a_line(tmp_path: Path) -> None:
    secret = 'sk-"01234567é'
    log = AgentLog(tmp_path / "log", "json")
    stream = stream_of(log=log, secrets=[secret])

    stream.feed(codex_says(f"The key is {secret}.").encode())
    stream.note(secret)
    stream.end()
    log.close()

    assert stream.transcript.answer == "The key is ***."
    assert json.loads((tmp_path / "log").read_text())["item"]["text"] == "The key is ***."
    assert "01234567" not in stream.tail


def test_fragments_are_neither_stored_nor_logged(tmp_path: Path) -> None:
    log = AgentLog(tmp_path / "log", "json")
    stream = stream_of(log=log, fragment_types=frozenset({"delta"}), secrets=["sk-01234567"])

    stream.feed(lines({"type": "delta", "text": "sk-012"}, {"text": "34567", "type": "delta"}).encode())
    stream.end()
    log.close()

    assert (tmp_path / "log").read_text() == ""
    assert stream.tail == ""


def test_a_run_of_pieces_may_be_long_but_not_endless() -> None:
    stream = stream_of(fragment_types=frozenset({"delta"}))
    chunk = lines({"type": "delta", "text": "x" * 2**20}).encode()
    heard = 0

    while stream.feed(chunk):
        heard += len(chunk)

    assert heard > 4 * MAX_STORED_BYTES
    assert heard <= MAX_STREAM_BYTES


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_what_is_kept_has_a_limit_in_one_line_and_in_many(end: bytes) -> None:
    stream = stream_of()
    chunk = b"x" * (2**20 - len(end)) + end
    heard = 0

    while stream.feed(chunk):
        heard += len(chunk)

    assert MAX_STORED_BYTES - 2**20 <= heard <= MAX_STORED_BYTES


def test_a_summary_has_a_line_for_each_step(tmp_path: Path) -> None:
    log = AgentLog(tmp_path / "log")
    stream = stream_of(read_pi, log)

    stream.feed(recorded("pi").encode())
    stream.end()
    log.close()

    logged = [re.sub(r"[0-9a-f-]{36}", "ID", line) for line in (tmp_path / "log").read_text().splitlines()]
    command = "printf '20 euros\\\\n' > notes.txt && cat notes.txt"
    assert logged[:5] == [
        "07:00:01 session  ID",
        "07:00:01 session  fake-model toolUse",
        "07:00:01 uses     100 tokens in, 10 out",
        f'07:00:01 calls    bash {{"command":"{command}","description":"Look"}}',
        "07:00:01 returns  20 euros",
    ]
    assert logged[-1] == "07:00:01 says     The amount is in notes.txt, and new.txt is written."


def test_a_long_step_is_cut_in_the_summary(tmp_path: Path) -> None:
    log = AgentLog(tmp_path / "log")

    stream_of(log=log).feed(codex_says("two\nlines " + "x" * 1_000).encode())

    assert re.fullmatch(r"07:00:01 says     two lines x+…\n", (tmp_path / "log").read_text())
    assert len((tmp_path / "log").read_text()) == 319
    log.close()


# --- the log's own misfortunes -----------------------------------------------------------------------------------


def test_a_log_that_stops_taking_lines_is_given_up(tmp_path: Path) -> None:
    log = AgentLog(tmp_path / "log")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        log.write_line("2026-11-20T07:00:01.000Z", "says     hello")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.write_line("2026-11-20T07:00:02.000Z", "says     more")
    log.close()

    assert log.problem == f"the log cannot be written: File too large: {tmp_path / 'log'}"
    assert (tmp_path / "log").read_text() == ""


def test_a_log_ends_at_its_limit(tmp_path: Path) -> None:
    log = AgentLog(tmp_path / "log", "json")
    line = "x" * (2**20 - 1)

    for _ in range(agent_base.MAX_LOG_BYTES // 2**20 + 2):
        log.write_raw(line)
    log.close()

    assert (tmp_path / "log").stat().st_size == agent_base.MAX_LOG_BYTES
    assert log.problem == f"the log ends at 64 MiB: {tmp_path / 'log'}"


def test_names_of_logs_are_new_safe_and_in_order_of_time(tmp_path: Path) -> None:
    names = {log_path(tmp_path, "../ä b/" + "x" * 200, "summary", now=NOW).name for _ in range(50)}

    assert len(names) == 50
    assert all(re.fullmatch(r"20261120T070001Z-\.\.-b-x{50,55}-[0-9a-f]{8}\.log", name) for name in names)
