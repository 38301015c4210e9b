"""The folders in which an editor's agents work, and the files in them with prompts and answers.

Each of `subagent-1`, `subagent-2`, … has one request at a time, and is locked with flock on its `subagent.lock`. The
system releases the lock when its holder ends in any way, so that no stale lock can remain; the content of the file is
informational.
"""

import fcntl
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from agentv.execution.workspaces.folder_trees import open_beneath
from agentv.providers.agents.commands import decode, too_large
from agentv.providers.agents.prompt import build_agent_prompt
from agentv.providers.apis.replies import objects
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import ProviderRequest

LOCK = "subagent.lock"
DISPATCH_LOCK = "dispatch.lock"
MESSAGES = "messages"
_NAME = re.compile(r"subagent-([1-9][0-9]*)")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
PAUSE_S = 0.2
"""The interval for polling files and locks."""


class Exchange(Struct, frozen=True):
    """The files of one request in a subagent's folder; the answer is complete when `answer` exists."""

    request: Path
    unfinished: Path
    answer: Path


def exchange_in(folder: Path, name: str) -> Exchange:
    """Return the files of the request called `name`."""
    return Exchange(folder / f"{name}_req.md", folder / f"{name}_res.tmp.md", folder / f"{name}_res.md")


def build_prompt(request: ProviderRequest) -> str:
    """Return the prompt: instructions if there are any, files to read first, then the question."""
    prompt = build_agent_prompt(request)
    if not request.system_prompt:
        return prompt
    return f"[[ ## instructions ## ]]\n\n{request.system_prompt}\n\n{prompt}"


def request_text(prompt: str, exchange: Exchange) -> str:
    """Return the content of the request file: the prompt, then the path of the answer."""
    return f"""{prompt}

[[ ## answer_file ## ]]

Your answer counts only when it is in a file:

1. Write all of it, as Markdown, to `{exchange.unfinished}`.
2. When it is complete, rename that file to `{exchange.answer}`.

Do both in any case; if you cannot do what was asked, let the answer say why. Change neither file afterwards.
"""


def batch_text(exchanges: Sequence[Exchange]) -> str:
    """Return the content of the file that lists several requests."""
    lines = "\n".join(f"{number}. {link_to(one.request)}" for number, one in enumerate(exchanges, start=1))
    return f"""Work through all of these requests, one after another, each by its own instructions:

{lines}

They have nothing to do with each other: nothing that one of them says or brings about may change the answer to another.
Where you can, give each to a subagent of its own. You are done when every request has its answer file.
"""


def chat_message(file: Path) -> str:
    """Return the chat message; everything else is in the file."""
    return f"Follow the instructions in {link_to(file)}."


def link_to(file: Path) -> str:
    """Return a Markdown link to a file."""
    return f"[{file.name}]({file.as_uri()})"


def subagents(root: Path) -> list[Path]:
    """Return the existing subagent folders by number; the first one if there is none yet."""
    numbers = [int(found[1]) for path in root.glob("subagent-*") if (found := _NAME.fullmatch(path.name))]
    return [root / f"subagent-{number}" for number in sorted(numbers)] or [root / "subagent-1"]


@asynccontextmanager
async def claim(root: Path, *, at_most: int, sleep: Sleep) -> AsyncIterator[list[Path]]:
    """Lock up to `at_most` free folders until the end of the block; wait until at least one is free."""
    held: dict[Path, int] = {}
    try:
        while not (held := _lock_free(root, at_most)):
            await sleep(PAUSE_S)
        yield list(held)
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _lock_free(root: Path, at_most: int) -> dict[Path, int]:
    held: dict[Path, int] = {}
    for folder in subagents(root):
        if len(held) == at_most:
            break
        (folder / MESSAGES).mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _try_lock(folder / LOCK)
        if descriptor is not None:
            held[folder] = descriptor
    return held


def _try_lock(path: Path) -> int | None:
    """Lock a file and return its descriptor; None if it is already locked."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps({"pid": os.getpid()}).encode())
    return descriptor


@asynccontextmanager
async def one_at_a_time(root: Path, sleep: Sleep) -> AsyncIterator[None]:
    """Hold the dispatch lock, because a chat message goes to whichever window was active last."""
    while (descriptor := _try_lock(root / DISPATCH_LOCK)) is None:
        await sleep(PAUSE_S)
    try:
        yield
    finally:
        os.close(descriptor)


def read_answer(exchange: Exchange, max_bytes: int) -> tuple[str, tuple[str, ...]]:
    """Return the written answer and notes about it. Raises ProviderError unless it is a file within the limit."""
    descriptor = open_beneath(exchange.answer.parent, exchange.answer.name)
    if descriptor is None:
        raise ProviderError(
            Failure("malformed_reply", f"{exchange.answer} is not a regular file, but a link or folder")
        )
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ProviderError(too_large("the answer file", max_bytes))
    return decode(content, "the answer file")


def read_workspace_template(path: Path) -> JsonObject:
    """Return the content of a `.code-workspace` file with absolute folders.

    If `path` is a folder, return a workspace with only that folder. Raises ProviderError with kind `config_error` if
    the file cannot be read.
    """
    if path.is_dir():
        return {"folders": [{"path": str(path)}]}
    try:
        value: JsonValue = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        advice = "it must be a folder, or a .code-workspace file without comments"
        raise ProviderError(
            Failure("config_error", f"workspace_template {path} cannot be read: {error}; {advice}")
        ) from None
    if not isinstance(value, Mapping) or not isinstance(value.get("folders", []), list):
        raise ProviderError(
            Failure("config_error", f"workspace_template {path} is not a workspace: it has no list of folders")
        )
    return {**value, "folders": [_absolute(entry, path.parent) for entry in objects(value.get("folders"))]}


def _absolute(entry: JsonObject, base: Path) -> JsonObject:
    path = entry.get("path")
    return {**entry, "path": str((base / path).resolve())} if isinstance(path, str) else entry


def write_workspace(folder: Path, template: JsonObject, workspace: str | None) -> Path:
    """Write a subagent's `.code-workspace` and return its path.

    Its folders are the subagent's, then `workspace`, then the template's. An unchanged file is not rewritten, since the
    editor would reload it.
    """
    own: list[JsonValue] = [{"path": "."}, *([{"path": workspace}] if workspace is not None else [])]
    content = json.dumps({**template, "folders": [*own, *objects(template.get("folders"))]}, indent=2) + "\n"
    path = folder / f"{folder.name}.code-workspace"
    if not path.is_file() or path.read_text(encoding="utf-8") != content:
        path.write_text(content, encoding="utf-8")
    return path
