"""Paths that name the text an evaluator judges, such as `response`, `metadata.a` or `output_messages.-1.content`."""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from agentv.scoring.results.conversations import conversation, transcript
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text, message_to_json, reference_answer

_STEP = re.compile(r'\.?(?:\["([^"]*)"\]|([^.\["]+))')

ReadFile = Callable[[str], str]


class SourcePath(Struct, frozen=True):
    """A parsed path, such as `metadata.a`."""

    path_text: str
    root: str
    """Its first name."""
    steps: tuple[str, ...] = ()
    """The keys or list indexes after the first name."""


def parse_source(path_text: str) -> SourcePath:
    """Split a path at its dots; `["odd.key"]` is a key with dots. Raises ValueError for an invalid path."""
    if path_text.startswith("files.") and path_text != "files.":
        return SourcePath(path_text, "files", (path_text.removeprefix("files."),))
    steps: list[str] = []
    position = 0
    while position < len(path_text):
        step = _STEP.match(path_text, position)
        if step is None or (position == 0 and path_text[0] in ".["):
            raise ValueError(f'{path_text!r} is not a path; allowed: names separated by dots, odd keys as ["odd.key"]')
        steps.append(step[1] if step[1] is not None else step[2])
        position = step.end()
    root = _CAMEL_CASE_NAMES.get(steps[0], steps[0]) if steps else ""
    if root not in _ROOTS or steps == ["context"]:
        raise ValueError(
            f"{path_text!r} is not a source; allowed: response, prompt, ground_truth, context.PATH, metadata.PATH, "
            "output_messages.PATH, conversation, files.PATH, diff"
        )
    return SourcePath(path_text, root, tuple(steps[1:]))


def source_text(context: EvaluationContext, path_text: str, *, read_file: ReadFile | None = None) -> str:
    """Return the text at a path; `read_file` reads `files.PATH` from the workspace.

    Numbers and booleans become text, objects and lists compact JSON. Raises EvaluatorError when the path is invalid or
    nothing is found there.
    """
    if path_text == "response":
        return context.candidate
    try:
        path = parse_source(path_text)
    except ValueError as error:
        raise EvaluatorError(str(error)) from error
    if path.root == "files":
        return _file_text(path, read_file)
    found = _walk(_ROOTS[path.root](context), path)
    return found if isinstance(found, str) else compact_json(found)


def source_value(context: EvaluationContext, path_text: str) -> JsonValue:
    """Return the JSON value at a path, None when nothing is found there. Raises ValueError for an invalid path."""
    path = parse_source(path_text)
    try:
        return _walk(_ROOTS[path.root](context), path)
    except EvaluatorError:
        return None


def _file_text(path: SourcePath, read_file: ReadFile | None) -> str:
    if read_file is None:
        raise EvaluatorError(f"{path.path_text!r} needs a workspace, and this answer has none")
    return read_file(".".join(path.steps))


def expected_answer(context: EvaluationContext) -> JsonValue:
    """Return the expected answer: the ground truth, else the reference answer of the case."""
    if context.ground_truth is not None:
        return context.ground_truth
    if context.reference_answer is not None:
        return context.reference_answer
    return reference_answer(context.eval_case.expected_messages)


_ROOTS: Mapping[str, Callable[[EvaluationContext], JsonValue | tuple[Message, ...]]] = {
    "response": lambda context: context.candidate,
    "prompt": lambda context: context.prompt_inputs.question or None,  # a logged answer may have no question
    "ground_truth": expected_answer,
    "reference_answer": expected_answer,
    "context": lambda context: context.context,
    "metadata": lambda context: {**context.eval_case.metadata, **context.metadata},
    "output_messages": lambda context: context.output_messages,
    "diff": lambda context: context.diff,
    "conversation": lambda context: transcript(conversation(context)),
}

_CAMEL_CASE_NAMES = {
    "groundTruth": "ground_truth",
    "referenceAnswer": "reference_answer",
    "outputMessages": "output_messages",
}


_WHOLE_MESSAGE = ((), ("content",))
"""The ends of a path after a message that return the text of its content: no further step, or `content`."""


def _walk(value: JsonValue | tuple[Message, ...], path: SourcePath) -> JsonValue:
    found: object = value
    for number, step in enumerate(path.steps):
        found = _child(found, step)
        if isinstance(found, Message) and found.content is not None and path.steps[number + 1 :] in _WHOLE_MESSAGE:
            return content_text(found.content)
    plain = _as_json(found)
    if plain is None:
        what = f"this answer has no {path.root}" if value is None else "there is nothing of that name"
        raise EvaluatorError(f"the source {path.path_text!r} finds nothing: {what}")
    return plain


def _child(value: object, step: str) -> object:
    plain = message_to_json(value) if isinstance(value, Message) else value
    if isinstance(plain, Mapping):
        return plain.get(step)
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        try:
            return plain[int(step)]
        except (ValueError, IndexError):
            return None
    return None


def _as_json(value: object) -> JsonValue:
    if isinstance(value, Message):
        return message_to_json(value)
    if isinstance(value, tuple) and any(isinstance(item, Message) for item in value):
        return [message_to_json(item) for item in value if isinstance(item, Message)]
    plain: JsonValue = value  # type: ignore[assignment]  # contexts hold JSON and messages, nothing else
    return plain
