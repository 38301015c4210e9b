"""The answers in transcripts of coding agents, as lines to judge: each prompt of the user is one."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from agentv.execution.processes.line_stream import Line, LostLine, ReadLine
from agentv.loading.datasets.transcripts import (
    UNREADABLE,
    FolderContent,
    Transcript,
    find_transcripts,
    load_transcripts,
)
from agentv.messages.transcripts.reading import PROGRAM_NAMES, Program
from agentv.messages.transcripts.turns import Conversation, Turn, answers_of, turn_id
from agentv.scoring.keys.identity import DigestSet
from agentv.types.evaluation_input import moment_of
from agentv.types.input_notes import InputNote, left_out
from agentv.types.records.answer import source_of

_SHOWN = 3
"""The number of places that a note names."""


class Places(Struct):
    """How often something was found, and the first places."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, places: Sequence[str]) -> Self:
        """Return the number of some places, and the first of them."""
        return cls(len(places), list(places[:_SHOWN]))

    def add(self, place: str) -> None:
        """Count one more place."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(place)

    def __str__(self) -> str:
        more = f" and {self.count - len(self.first):,} more" if self.count > len(self.first) else ""
        return ", ".join(self.first) + more


class TranscriptLines(Struct):
    """Reads transcripts, and counts what in them is not judged."""

    since: datetime | None = None
    """Answers that ended earlier are left out."""
    unread: dict[tuple[Program, str], Places] = field(default_factory=dict)
    open_turns: Places = field(default_factory=Places)
    abandoned: Places = field(default_factory=Places)
    copies: Places = field(default_factory=Places)
    others: Places = field(default_factory=Places)
    subagents: list[str] = field(default_factory=list)
    """The transcripts of subagents that no session includes."""
    included: dict[str, str] = field(default_factory=dict)
    """Those that the transcript of their session includes, with the id of the session."""
    older: Places = field(default_factory=Places)
    unchanged: Places = field(default_factory=Places)
    """Files that have not changed since that time, which are not opened."""
    sessions: set[str] = field(default_factory=set)
    ids: DigestSet = field(default_factory=DigestSet)
    failed_ids: DigestSet = field(default_factory=DigestSet)

    def files_of(self, folder: Path) -> Sequence[Path]:
        """Return the transcripts below a folder; its other files are counted."""
        content: FolderContent = find_transcripts(folder)
        for path in content.others:
            self.others.add(str(path))
        return content.transcripts

    def batches(self, file: str, program: Program) -> Iterator[list[ReadLine]]:
        """Yield the answers of each conversation in a transcript as lines."""
        try:
            if self._is_unchanged(file, program):
                self.unchanged.add(file)
                return
            for transcript in load_transcripts(Path(file), program, since=self.since):
                yield sorted(self._lines(file, program, transcript), key=lambda line: line.number)
        except UNREADABLE as error:
            yield [LostLine(file, 1, f"cannot be read: {error}", target=program)]

    def _lines(self, file: str, program: Program, transcript: Transcript) -> Iterator[ReadLine]:
        conversation = transcript.conversation
        for lost in transcript.lost:
            yield LostLine(file, lost.line, lost.message, target=program)
        self._count(file, program, conversation)
        if conversation.subagent_of is not None:
            return
        for answer in answers_of(conversation):
            turn, given = answer.turn, answer.given
            number = turn_id(conversation, turn)
            if self._is_old(turn):
                self.older.add(source_of(file, turn.asked.line))
            elif turn.state != "failed" and given is None:
                self.open_turns.add(source_of(file, turn.asked.line))
            elif turn.is_copy or (number is not None and not (self.ids if given else self.failed_ids).add(number)):
                self.copies.add(source_of(file, turn.asked.line))
            elif given is None:
                known = {"id": number, "session_id": conversation.session, "prompt": turn.asked.text}
                reason = f"has no answer, because it failed: {turn.failure}"
                data = json.dumps(known, separators=(",", ":")).encode()
                yield LostLine(file, turn.asked.line, reason, target=program, data=data)
            else:
                text = json.dumps(given.to_dict(), separators=(",", ":"))
                yield Line(file, turn.asked.line, text.encode())

    def _count(self, file: str, program: Program, conversation: Conversation) -> None:
        for each in conversation.unread:
            self.unread.setdefault((program, each.what), Places()).add(source_of(file, each.line))
        for line in conversation.abandoned:
            self.abandoned.add(source_of(file, line))
        if conversation.subagent_of is None:
            self.sessions.add(conversation.session)
        elif program == "claude":
            self.included[file] = conversation.subagent_of
        else:
            self.subagents.append(file)

    def _is_unchanged(self, file: str, program: Program) -> bool:
        """Return True for a file not changed since the time; a database is changed in another file, its log."""
        if self.since is None or program == "opencode":
            return False
        return Path(file).stat().st_mtime < self.since.timestamp()

    def _is_old(self, turn: Turn) -> bool:
        if self.since is None or turn.ended_at is None:
            return False
        with suppress(ValueError, OverflowError):
            return moment_of(turn.ended_at) < self.since
        return False

    def notes(self) -> Iterator[InputNote]:
        """Yield what in the transcripts is no answer, with the first places."""
        for (program, what), places in self.unread.items():
            where = f"{places.count:,} ({places})"
            yield InputNote(f"not read in transcripts of {PROGRAM_NAMES[program]}: {what}: {where}")
        for why, places in (
            ("because the agent was interrupted or is still at work", self.open_turns),
            ("because the user took them back", self.abandoned),
            ("because they ended before --since", self.older),
        ):
            if places.count:
                yield left_out(f"{why}: {counted(places, 'prompt')}")
        if self.copies.count:
            once = "read once, although resumed or forked sessions repeat them"
            yield InputNote(f"{once}: {counted(self.copies, 'prompt')}")
        alone = [file for file, session in self.included.items() if session not in self.sessions]
        if subagents := sorted([*self.subagents, *alone]):
            yield left_out(f"because a subagent wrote them: {counted(Places.of(subagents), 'transcript')}")
        if self.unchanged.count:
            since = "because they have not changed since --since"
            yield InputNote(f"not opened, {since}: {counted(self.unchanged, 'file')}")
        if self.others.count:
            yield InputNote(f"not read, because they are not transcripts: {counted(self.others, 'file')}")


def counted(places: Places, noun: str) -> str:
    """Return a number of things with the first places."""
    return f"{places.count:,} {noun}{'' if places.count == 1 else 's'} ({places})"
