"""Prompts of promptfoo: texts, chats and files become lists of messages."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from agentv.importers.located import Located, require
from agentv.importers.promptfoo.templates import our_text, variables_of
from agentv.loading.files.composer import compose
from agentv.loading.files.text import decode, is_file, read_bytes
from agentv.types.json_value import JsonObject, JsonValue

_FILE_PREFIX = "file://"
_CODE_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".sh", ".rb", ".go", ".exe", ".bat")
_TEXT_SUFFIXES = (".txt", ".md", ".j2", ".json", ".jsonl", ".yaml", ".yml", ".csv")
_CODE_PREFIXES = ("exec:", "python:", "javascript:")
_STORE_PREFIXES = ("langfuse://", "portkey://", "helicone://", "gs://", "s3://", *_CODE_PREFIXES)
_SEPARATOR = re.compile(r"^---\s*$", re.MULTILINE)
_ROLES = ("system", "user", "assistant", "tool", "developer", "function")
_PROMPT_KEYS = {
    "id": None,
    "label": None,
    "raw": None,
    "template": None,
    "display": None,
    "function": "let a target make the prompt by code: provider python",
    "config": "settings of a model, such as its response format, belong in its target: extra_body",
    "prefix": "write it into the prompt",
    "suffix": "write it into the prompt",
}


_LOSING_KEYS = ("function", "prefix", "suffix")


class Prompt(Struct, frozen=True):
    """One prompt: its id, if it has one, its messages, the variables that they use, and what is lost of it."""

    id: str | None
    messages: tuple[JsonObject, ...] = ()
    variables: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def read_prompts(source: Located) -> tuple[Prompt, ...]:
    """Return all prompts of a configuration, including those in files.

    A prompt that cannot be read, or only in part, is recorded, and has a reason in `lost`.
    """
    value = source.value
    if isinstance(value, Mapping) and "raw" not in value and "id" not in value:
        return tuple(
            prompt for name, label in source.entries() for prompt in _prompts_of_text(name, label.text(), label)
        )
    return tuple(prompt for item in source.items() for prompt in _prompts_of_entry(item))


def _prompts_of_entry(item: Located) -> list[Prompt]:
    """Return the prompts of an entry; one without messages if the entry cannot be read."""
    if not isinstance(item.value, Mapping):
        return _prompts_of_text(item.text(), "", item)
    before = len(item.losses.errors)
    item.drop_unsupported(_PROMPT_KEYS, "a prompt", losing=_LOSING_KEYS)
    lost = item.losses.reasons_since(before)
    label, id_ = item.get("label").text() or item.get("display").text(), item.get("id").text()
    place = next((item.get(key) for key in ("raw", "template", "id") if item.get(key).value is not None), None)
    if lost or place is None:
        if not lost:
            item.lose("this prompt has no text; it is not carried over", "write it under `raw`")
        return [Prompt(label or id_ or None, lost=item.losses.reasons_since(before))]
    is_raw = place.at[-1] != "id"
    return _prompts_of_text(place.text(), label or (id_ if is_raw else ""), place)


def _prompts_of_text(text: str, label: str, place: Located) -> list[Prompt]:
    """Return the prompts of a text, which may name a file or a pattern of files.

    A text that names what cannot be read becomes one prompt without messages.
    """
    before = len(place.losses.errors)
    found = list(_found_prompts(text, label, place))
    return found or [Prompt(label or None, lost=place.losses.reasons_since(before))]


def _found_prompts(text: str, label: str, place: Located) -> Iterator[Prompt]:
    if text.startswith(_STORE_PREFIXES):
        is_made = text.startswith(_CODE_PREFIXES)
        advice = "make it in a target: provider python" if is_made else "copy its text into the file"
        place.lose(f"the prompt {text!r} is not carried over", advice)
        return
    name = text.removeprefix(_FILE_PREFIX)
    path, _, function = name.partition(":")
    if Path(path).suffix.lower() in _CODE_SUFFIXES and "\n" not in name:
        of_function = function and f" of {function}()"
        place.lose(
            f"the prompt made by {path}{of_function} is not carried over", "make it in a target: provider python"
        )
        return
    is_file = text.startswith(_FILE_PREFIX) or (
        Path(name).suffix.lower() in _TEXT_SUFFIXES and not re.search(r"\s", name)
    )
    if not is_file:
        if text.strip():
            yield make_prompt(text, label, place)
        else:
            place.lose("this prompt has no text; it is not carried over")
        return
    found = place.files(name)
    if not found:
        place.lose(f"the prompt file {name!r} does not exist; it is not carried over")
    for file in found:
        yield from _prompts_of_file(file, label, place, several=len(found) > 1)


def _prompts_of_file(path: Path, label: str, place: Located, *, several: bool) -> Iterator[Prompt]:
    """Yield the prompts of a file: one per line or section; `several`: the label is shared with other files."""
    if path.suffix.lower() == ".csv":
        place.lose(f"the prompts in {path.name} are not carried over", "write each into a text file")
        return
    text = decode(read_bytes(path), str(path)).replace("\r\n", "\n")
    suffix, texts = path.suffix.lower(), [text]
    if suffix == ".jsonl":
        texts = text.split("\n")
    elif suffix in {".txt", ".md", ".j2"}:
        texts = _SEPARATOR.split(text)
    parts = [part.strip() for part in texts if part.strip()]
    for number, part in enumerate(parts, 1):
        name = label if label and not several else path.stem
        yield make_prompt(part, f"{name}-{number}" if len(parts) > 1 else name, place)


def make_prompt(text: str, id_: str, place: Located) -> Prompt:
    """Return the prompt of a text: one user message, or a chat if the text is a list of messages in JSON or YAML."""
    before = len(place.losses.errors)
    messages = _chat(text)
    if messages is None and re.match(r"\s*\[\s*\{.*\"role\"", text, re.DOTALL):
        place.lose("this chat is not valid JSON, so its whole text becomes one message", "write its messages under "
                   "`input`")  # fmt: skip
    chat = ({"role": "user", "content": text},) if messages is None else messages
    converted = tuple(_message(message, place) for message in chat)
    return Prompt(id_ or None, converted, variables_of(text), place.losses.reasons_since(before))


def _chat(text: str) -> list[JsonObject] | None:
    value = parsed(text)
    if not isinstance(value, list) or not value:
        return None
    listed = [item for item in value if isinstance(item, Mapping) and item.get("role") in _ROLES]
    return listed if len(listed) == len(value) else None


def parsed(text: str) -> JsonValue:
    """Return the value of a text in JSON, or in YAML if it is a list or object; None for other texts."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        if not re.match(r"\s*(?:-\s|\w+:\s)", text):
            return None
        document, problems = compose(text, "text")
        return None if document is None or problems else document.value
    return value


def _message(message: JsonObject, place: Located) -> JsonObject:
    content = message.get("content")
    if isinstance(content, str):
        converted: JsonValue = our_text(content, place)
    elif isinstance(content, list):
        converted = [part for item in content for part in _part(item, place)]
    else:
        converted = None if content is None else our_text(json.dumps(content, ensure_ascii=False), place)
    for key in message:
        if key not in ("role", "content"):
            place.lose(f"`{key}` of a message is not carried over")
    return {"role": message["role"], "content": converted or ""}


def _part(part: JsonValue, place: Located) -> Iterator[JsonObject]:
    text = part.get("text") if isinstance(part, Mapping) else part
    if isinstance(text, str):
        yield {"type": "text", "value": our_text(text, place)}
    else:
        advice = "attach the file to the message: {type: image, value: PATH}"
        place.lose("an image or file in a message is not carried over", advice)


def load_value(text: str, place: Located) -> JsonValue:
    """Return the content of the file that `file://NAME` names: a value for JSON and YAML, else its text."""
    path = place.require_inside(place.folder / text.removeprefix(_FILE_PREFIX))
    require(is_file(path), path, f"the file that {place.document.path} names does not exist")
    content = decode(read_bytes(path), str(path))
    return parsed(content) if path.suffix.lower() in {".json", ".yaml", ".yml"} else content.strip()


def is_code(name: str) -> bool:
    """Return True for the name of a file with code, with or without a function after a colon."""
    return Path(name.removeprefix(_FILE_PREFIX).partition(":")[0]).suffix.lower() in _CODE_SUFFIXES
