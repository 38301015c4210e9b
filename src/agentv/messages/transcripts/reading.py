"""Recognise the program that wrote a transcript by its first record, and read the transcript."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from agentv.messages.transcripts.claude import is_claude, is_side_chain, read_claude_session
from agentv.messages.transcripts.codex import is_codex, read_codex_session
from agentv.messages.transcripts.copilot import is_copilot, read_copilot_session
from agentv.messages.transcripts.gemini import is_gemini, read_gemini_session
from agentv.messages.transcripts.opencode import is_opencode, read_opencode_session
from agentv.messages.transcripts.pi import is_pi, read_pi_session
from agentv.messages.transcripts.turns import Conversation, Record
from agentv.types.json_value import JsonObject

Program: TypeAlias = Literal["claude", "codex", "copilot", "gemini", "opencode", "pi"]
"""A program that writes transcripts, named as the provider of its targets where there is one."""

PROGRAM_NAMES: Mapping[Program, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "copilot": "GitHub Copilot",
    "gemini": "Gemini CLI",
    "opencode": "OpenCode",
    "pi": "pi",
}

_SIGNS: Mapping[Program, Callable[[JsonObject], bool]] = {
    "codex": is_codex,
    "copilot": is_copilot,
    "gemini": is_gemini,
    "opencode": is_opencode,
    "pi": is_pi,
    "claude": is_claude,
}


def program_of(first: JsonObject) -> Program | None:
    """Return the program that wrote a transcript with this first record; None if it is no transcript."""
    return next((program for program, is_of in _SIGNS.items() if is_of(first)), None)


def is_of_subagent(first: JsonObject) -> bool:
    """Return True for the first record of a file of Claude Code that holds a subagent's work only."""
    return is_claude(first) and is_side_chain(first)


def read_session(program: Program, records: Iterable[Record], side_chains: Iterable[Record] = ()) -> Conversation:
    """Return the conversation of a transcript. `side_chains` are the records of its subagents' files (Claude Code)."""
    match program:
        case "claude":
            return read_claude_session(records, side_chains)
        case "codex":
            return read_codex_session(records)
        case "copilot":
            return read_copilot_session(records)
        case "gemini":
            return read_gemini_session(records)
        case "opencode":
            return read_opencode_session(next(iter(records), Record(1, {})))
        case "pi":
            return read_pi_session(records)
