"""`prompts:` of an eval file: each case is sent once with each of them."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.loading.files.attached import FileFinder
from agentv.loading.files.documents import JsonPath
from agentv.loading.files.path_guard import FileProblemError
from agentv.loading.models.eval_files import PromptModel
from agentv.loading.models.reader import Reader, kind_of
from agentv.loading.suites.contents import read_message
from agentv.templating.case_variables import Fault, as_text, fill_text, used_names
from agentv.types.cases import PromptMessages
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, Part, TextPart

INPUT_VARIABLE = "input"
"""The variable of prompts that is the text of the case's own message, unless the case has another variable so named."""

_FILE_PREFIX = "file://"
_FILE_NAME = re.compile(r"[^\s{}]+\.[A-Za-z0-9]{1,5}")

Fill = Callable[[str], str]
"""Returns a text with its variables filled."""


class SuitePrompt(Struct, frozen=True):
    """One prompt of a suite."""

    id: str
    at: JsonPath
    """The path of the prompt in the eval file."""
    messages: tuple[Message | None, ...]
    """None stands where those of the case are inserted."""
    skip: str | None = None
    """The reason why the prompt is not sent."""
    file: str | None = None
    """The file that the prompt was read from, if any."""

    @property
    def has_case_messages(self) -> bool:
        """True if the messages of the case are inserted; if not, a case needs no messages."""
        return None in self.messages

    @property
    def takes_input(self) -> bool:
        """True if the messages of the case are inserted, or its text as a variable."""
        return self.skip is not None or self.has_case_messages or INPUT_VARIABLE in set(self._names())

    def _names(self) -> Iterator[str]:
        for message in self.messages:
            content = () if message is None else message.content
            texts = (content,) if isinstance(content, str) else content or ()
            for text in texts:
                yield from used_names(text if isinstance(text, str) else getattr(text, "text", ""))

    def applied_to(self, case_messages: tuple[Message, ...], fill: Fill) -> PromptMessages:
        """Return the messages to send for a case; `case_messages` are already filled."""
        messages: list[Message] = []
        for message in self.messages if self.skip is None else ():
            messages += case_messages if message is None else (_filled(message, fill),)
        return PromptMessages(self.id, tuple(messages), self.skip)


def _filled(message: Message, fill: Fill) -> Message:
    if isinstance(message.content, str):
        return replace(message, content=fill(message.content))
    if isinstance(message.content, tuple):
        return replace(message, content=tuple(_filled_part(part, fill) for part in message.content))
    return message


def _filled_part(part: Part, fill: Fill) -> Part:
    return TextPart(fill(part.text)) if isinstance(part, TextPart) else part


def make_fill(values: JsonObject, report: Callable[[Fault], None]) -> Fill:
    """Return a function that fills a prompt's texts for one case."""
    return lambda text: as_text(fill_text(text, values, report))


def read_prompts(reader: Reader, files: FileFinder) -> tuple[SuitePrompt, ...]:
    """Return the prompts of the eval file that a reader has open. Problems are recorded."""
    top = reader.document.value
    if not isinstance(top, Mapping) or "prompts" not in top:
        return ()
    raw = top["prompts"]
    if not isinstance(raw, list | tuple) or not raw:
        problem = "must not be empty" if isinstance(raw, list | tuple) else f"must be a list, but is {kind_of(raw)}"
        reader.error(("prompts",), problem, allowed="a list of prompts: texts, files, {id, system} or {id, messages}")
        return ()
    found: dict[str, SuitePrompt] = {}
    for index in range(len(raw)):
        at: JsonPath = ("prompts", index)
        prompt = _read_prompt(reader, at, files, f"prompt-{index + 1}")
        if prompt is None:
            continue
        if prompt.id in found:
            reader.error(at, f"a second prompt with the id {prompt.id!r}", allowed="give it another `id`")
        found[prompt.id] = prompt
    return tuple(found.values())


def _read_prompt(reader: Reader, at: JsonPath, files: FileFinder, default_id: str) -> SuitePrompt | None:
    raw = reader.document.at(at)
    if isinstance(raw, str):
        return _prompt_of_text(reader, at, raw, files=files, default_id=default_id)
    if not isinstance(raw, Mapping):
        reader.error(at, f"must be a text, a file or an object, but is {kind_of(raw)}")
        return None
    model = reader.read(PromptModel, at)
    if model is None:
        return None
    if model.skip is not None:
        return SuitePrompt(model.id or default_id, at, (), model.skip)
    if model.text is not None:
        return SuitePrompt(model.id or default_id, at, (Message("user", model.text),))
    if model.file is not None:
        return _prompt_of_file(reader, (*at, "file"), model.file, files=files, id_=model.id)
    if model.system is not None:
        return SuitePrompt(model.id or default_id, at, (Message("system", model.system), None))
    messages = tuple(_messages(reader, (*at, "messages"), files))
    return SuitePrompt(model.id or default_id, at, messages) if messages else None


def _prompt_of_text(reader: Reader, at: JsonPath, text: str, files: FileFinder, default_id: str) -> SuitePrompt | None:
    """Return the prompt written as a single string: the content of a file if it names one, else the string itself."""
    file = named_prompt_file(text)
    if file is not None:
        return _prompt_of_file(reader, at, file, files=files, id_=None)
    if not text.strip():
        reader.error(at, "must not be empty")
        return None
    return SuitePrompt(default_id, at, (Message("user", text),))


def named_prompt_file(text: str) -> str | None:
    """Return the file that a single string among prompts names; None if the string is the prompt itself."""
    if text.startswith(_FILE_PREFIX) or _FILE_NAME.fullmatch(text):
        return text.removeprefix(_FILE_PREFIX)
    return None


def _prompt_of_file(reader: Reader, at: JsonPath, name: str, files: FileFinder, id_: str | None) -> SuitePrompt | None:
    try:
        part = files.attach(name)
    except FileProblemError as error:
        advice = None if at[-1] == "file" else "write a prompt that is not a file as {text: …}"
        allowed = "; ".join(filter(None, (error.allowed, advice))) or None
        reader.error(at, error.message, allowed=allowed, suggestion=error.suggestion)
        return None
    if part.text is None:
        reader.error(at, f"the prompt {name!r} is not a text file")
        return None
    return SuitePrompt(id_ or Path(name).stem, at, (Message("user", part.text),), file=part.real_path)


def _messages(reader: Reader, at: JsonPath, files: FileFinder) -> Iterator[Message | None]:
    raw = reader.document.at(at)
    for index, entry in enumerate(raw if isinstance(raw, list | tuple) else ()):
        place = (*at, index)
        if isinstance(entry, Mapping) and "case" in entry:
            if entry != {"case": "messages"}:
                reader.error(place, "must be {case: messages}, which inserts the messages of the case, or a message")
            yield None
            continue
        message = read_message(reader, place, files)
        if message is not None:
            yield message
