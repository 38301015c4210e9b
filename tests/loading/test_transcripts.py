"""Which files are transcripts, and the databases and folders that they are in."""

import gzip
from pathlib import Path

import pytest
from tests.support.transcripts import (
    SESSIONS,
    TRANSCRIPTS,
    conversations_in,
    opencode_database,
    transcript_of,
)

from agentv.loading.datasets.transcripts import find_program, find_transcripts, load_transcripts
from agentv.messages.transcripts.turns import answers_of


@pytest.mark.parametrize("program", [*SESSIONS, "opencode"])
def test_a_transcript_is_recognised_by_its_content(program: str, tmp_path: Path) -> None:
    path = transcript_of(program, tmp_path)
    renamed = path.replace(tmp_path / "x.bin") if program == "opencode" else tmp_path / "notes.txt"
    if program != "opencode":
        renamed.write_bytes(path.read_bytes())
    assert find_program(renamed) == program
    assert find_program(TRANSCRIPTS / "opencode.sql") is None


@pytest.mark.parametrize("text", ["", "\n", "{}", "[]", '{"prompt": "x", "response": "y", "sessionId": "s"}', "x", "{"])
def test_other_files_are_no_transcripts(text: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(text)
    assert find_program(path) is None


def test_a_compressed_transcript_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.gz"
    path.write_bytes(gzip.compress((TRANSCRIPTS / "pi.jsonl").read_bytes()))
    (conversation,) = conversations_in(path)
    assert conversation.program == "pi"


def test_a_folder_has_transcripts_and_other_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    session = tmp_path / "a" / "session.jsonl"
    session.write_bytes((TRANSCRIPTS / "pi.jsonl").read_bytes())
    (tmp_path / "notes.md").write_text("# Notes")
    content = find_transcripts(tmp_path)
    assert (content.transcripts, content.others) == ((session,), (tmp_path / "notes.md",))


def test_broken_lines_are_lost_with_their_number_but_not_a_line_being_written(tmp_path: Path) -> None:
    lines = (TRANSCRIPTS / "pi.jsonl").read_text().splitlines()
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([*lines[:4], lines[4][:50], *lines[5:], '{"type":"mess']))
    (transcript,) = load_transcripts(path, "pi")
    assert [lost.line for lost in transcript.lost] == [5]
    (unread,) = transcript.conversation.unread
    assert (unread.line, unread.what) == (len(lines) + 1, "last line, which is not complete")


def test_messages_that_the_user_of_opencode_took_back_are_abandoned(tmp_path: Path) -> None:
    second = "(SELECT id FROM message WHERE json_extract(data, '$.role') = 'user' ORDER BY time_created DESC LIMIT 1)"
    path = opencode_database(tmp_path, f"UPDATE session SET revert = json_object('messageID', {second})")
    (conversation,) = conversations_in(path)
    assert len(conversation.turns) == 1
    assert len(conversation.abandoned) == 1


def test_a_session_of_a_subagent_of_opencode_is_below_its_call(tmp_path: Path) -> None:
    columns = "id, project_id, slug, directory, title, version, time_created, time_updated"
    path = opencode_database(
        tmp_path,
        f"INSERT INTO session ({columns}, parent_id) SELECT 'child', project_id, slug, directory, title, version,"
        " time_created, time_updated, id FROM session",
        'INSERT INTO message VALUES (\'m\', \'child\', 1, 1, \'{"role": "assistant", "tokens": {"input": 5}}\')',
        "INSERT INTO part VALUES ('p', 'm', 'child', 1, 1, '{\"type\": \"text\", \"text\": \"Inner\"}')",
        "UPDATE part SET data = json_set(data, '$.tool', 'task', '$.state.metadata.sessionId', 'child')"
        " WHERE json_extract(data, '$.callID') = 'call_0'",
    )
    (conversation,) = conversations_in(path)
    first = next(answers_of(conversation)).given
    assert first is not None
    inner = [message.content for message in first.message_history if message.metadata == {"parent_tool_call": "call_0"}]
    assert inner == ["Inner"]
    assert first.usage is not None
    assert first.usage.input == 405


def test_a_database_that_is_no_opencode_is_no_transcript(tmp_path: Path) -> None:
    path = opencode_database(tmp_path, "DROP TABLE part")
    assert find_program(path) is None
