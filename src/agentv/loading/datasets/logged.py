"""Rows of a dataset that are logged conversations: their questions, with the recorded answers as references."""

from collections.abc import Mapping

from msgspec import Struct, field

from agentv.loading.datasets.log_rows import logged_values
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.log_shapes.mapping import LogMap
from agentv.types.log_shapes.reading import TraceStep, is_export, read_conversation
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, pretty_json

_QUESTIONS = ("input", "question", "prompt")
_EXPECTED = ("expected", "expected_output", "target")


class LoggedRow(Struct, frozen=True):
    """The parts of a case that a logged conversation gives: its messages up to the user's last one, and the answer."""

    messages: tuple[Message, ...]
    expected: str = ""
    id: str = ""
    session_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, JsonValue]:
        """The variables of the conversation, which a log does not have as columns."""
        question = content_text(self.messages[-1].content) if self.messages else ""
        return {"question": question, "expected": self.expected}


def is_logged(row: JsonObject) -> bool:
    """Return True for a row that logs a conversation: an export, `messages` without a question, `prompt` + `response`.

    A row with a column for the expected answer is no log, unless it is an export of another program.
    """
    if is_export(row):
        return True
    if any(name in row for name in _EXPECTED):
        return False
    if "response" in row:
        return "prompt" in row or "messages" in row
    messages = row.get("messages")
    is_conversation = isinstance(messages, list | tuple | Mapping) or _is_json(messages)
    return is_conversation and not any(name in row for name in _QUESTIONS)


def _is_json(value: JsonValue) -> bool:
    return isinstance(value, str) and value.lstrip().startswith(("[", "{"))


def read_logged_row(row: JsonObject, paths: LogMap | None = None) -> LoggedRow | TraceStep:
    """Return the conversation of a row. Raises EvalFileError with every problem, at paths in the row."""
    logged = read_conversation(logged_values(row), paths=paths)
    if isinstance(logged, TraceStep):
        return logged
    given = logged.given
    said = (*given.message_history, *((Message("user", given.prompt),) if given.prompt else ()))
    last = max((place for place, each in enumerate(said) if each.role == "user"), default=-1)
    truth = given.ground_truth
    expected = given.text if truth is None else truth if isinstance(truth, str) else pretty_json(truth)
    known = {"model": given.model, "duration_ms": given.duration_ms, "context": given.context or None}
    return LoggedRow(
        messages=said[: last + 1],
        expected=expected,
        id=given.id or "",
        session_id=given.session_id,
        metadata={**given.metadata, **{name: value for name, value in known.items() if value is not None}},
    )
