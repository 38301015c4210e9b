"""The prompts for an editor's agent: the request, the path of its answer, and the list of a batch. Pure."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from agentv.providers.agents.prompt import build_agent_prompt
from agentv.types.provider import ProviderRequest


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
