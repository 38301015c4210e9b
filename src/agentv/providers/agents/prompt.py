"""Build the prompt of a coding agent: the files to read first, then the question. Pure."""

from collections.abc import Iterable
from pathlib import Path

from agentv.types.provider import ProviderRequest

QUERY_HEADING = "[[ ## user_query ## ]]"
_INSTRUCTIONS_HEADING = "[[ ## instructions ## ]]"
_READ_FIRST = (
    "Before you do anything else, read all of the files listed above, each one to its end. If one of them is missing "
    "or cannot be read, say which one in your answer, and go on with the others."
)


def build_agent_prompt(request: ProviderRequest, *, instructions: str | None = None) -> str:
    """Return the prompt: guideline files and input files to be read first, then the question.

    `instructions` precede the question, for agents that accept no system prompt.
    """
    block = preread_block(request.guideline_files, request.input_files)
    system = f"{_INSTRUCTIONS_HEADING}\n\n{instructions}" if instructions else ""
    return "\n\n".join(part for part in (block, system, QUERY_HEADING, request.question) if part)


def preread_block(guideline_files: Iterable[str], input_files: Iterable[str]) -> str:
    """Return the instruction to read files, given as absolute paths; empty if there are none."""
    lists = [_listed("Read all guideline files:", guideline_files), _listed("Read all input files:", input_files)]
    lists = [part for part in lists if part]
    return "\n\n".join([*lists, _READ_FIRST]) if lists else ""


def _listed(heading: str, paths: Iterable[str]) -> str:
    lines = [f"* [{path.name}]({path.as_uri()})" for path in map(Path, paths)]
    return "\n".join([heading, *lines]) if lines else ""
