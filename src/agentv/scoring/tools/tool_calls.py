"""Tool calls: their matching with expected calls by name and input, and those that messages record."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from agentv.messages.shapes.fields import first, is_call_part, is_result_part, tool_call_from_json
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, Message, ToolCall, tool_calls_of
from agentv.types.messages_json import content_text

Matcher: TypeAlias = (
    Literal["exact", "subset", "ignore", "named_keys", "known_keys"] | tuple[str, ...] | Mapping[str, JsonValue]
)
# Constants, because `str | int` would create a type at each comparison; `dict` comes first, because checking the
# abstract class is slower.
_SCALAR = (str, int, float)
_LIST = (list, tuple)
_OBJECT = (dict, Mapping)
_MATCHER_NAMES = ("exact", "subset", "ignore", "named_keys", "known_keys")
_ID_KEYS = ("toolCallId", "tool_call_id", "tool_use_id", "call_id", "id")
_NAME_KEYS = ("toolName", "tool_name", "tool", "name")
_FAILED_OUTPUTS = frozenset({"error-text", "error-json", "execution-denied"})
_WRAPPED_OUTPUTS = _FAILED_OUTPUTS | {"text", "json", "content"}
_OUTPUT_KEYS = ("result", "output", "content", "error")


class ExpectedCall(Struct, frozen=True):
    """One expected call of a trajectory. `tool` may be a glob.

    `args` are the arguments that the call must have; it may have more. With `input`, the arguments are given there, and
    `args` says how they are compared: `subset` (more is fine at every depth; the default), `exact`, `named_keys` (these
    keys have exactly these values, further keys are fine), `known_keys` (no other key, but keys may be missing),
    `ignore`, a list of paths of fields to compare, or an object with a matcher for each field (`exact` for a field
    without one). Without `input` and `args` any input matches. `max_duration_ms` limits the duration of the matched
    call; it is not part of matching.

    >>> ExpectedCall("lookup", args={"order": "1001"}).matches(ToolCall("lookup", {"order": "1001", "full": True}))
    True
    """

    tool: Annotated[str, Meta(description="the tool's name, or a glob")]
    input: Annotated[JsonValue, Meta(description="the expected arguments, when `args` says how to compare them")] = None
    args: Annotated[
        Matcher,
        Meta(
            description=(
                "the expected arguments; with `input`, how it is compared: subset, exact, named_keys, known_keys, "
                "ignore, a list of fields to compare, or {field: one of these}"
            )
        ),
    ] = "subset"
    max_duration_ms: Annotated[float | None, Meta(description="how long the call may take, in milliseconds")] = None

    def __post_init__(self) -> None:
        """Raise ValueError for an empty tool, an unknown matcher, or a matcher without an input."""
        if not self.tool:
            raise ValueError("`tool` must not be empty")
        if self.max_duration_ms is not None and self.max_duration_ms < 0:
            raise ValueError("`max_duration_ms` must be at least 0")
        if self.input is not None:
            _check_matcher(self.args)
        elif isinstance(self.args, Mapping):
            force_setattr(self, "input", self.args)
            force_setattr(self, "args", "subset")
        elif self.args != "subset":
            raise ValueError(
                f"`args: {self.args}` says how `input` is compared, and there is no `input`; "
                "write the expected arguments under `input`, or as an object under `args`"
            )

    def matches(self, call: ToolCall) -> bool:
        """Return True if a call is the expected one."""
        # Inlined: this runs for each pair of tool calls, and calling two more functions would cost more than comparing.
        named = self.tool == call.tool or name_matches(self.tool, call.tool)
        return named and (self.input is None or _inputs_match(self.args, self.input, call.input))

    def matches_name(self, call: ToolCall) -> bool:
        """Return True if a call's tool is the expected one, whatever the input."""
        return name_matches(self.tool, call.tool)

    def matches_input(self, call: ToolCall) -> bool:
        """Return True if a call's input is the expected one, whatever the tool."""
        return self.input is None or _inputs_match(self.args, self.input, call.input)


def name_matches(pattern: str, name: str) -> bool:
    """Return True if a tool's name equals the pattern, or matches it as a glob."""
    if pattern == name:
        return True
    # Most names are not globs, and checking that is faster than matching them.
    return ("*" in pattern or "?" in pattern or "[" in pattern) and fnmatchcase(name, pattern)


def _check_matcher(matcher: JsonValue) -> None:
    if isinstance(matcher, Mapping):
        for each in matcher.values():
            _check_matcher(each)
    elif isinstance(matcher, _LIST):
        if not all(isinstance(path, str) for path in matcher):
            raise ValueError("`args`: a list must have the paths of fields")
    elif matcher not in _MATCHER_NAMES:
        allowed = f"{', '.join(_MATCHER_NAMES)}, a list of fields, or a matcher for each field"
        raise ValueError(f"`args`: unknown matcher {matcher!r}; allowed: {allowed}")


def _inputs_match(matcher: JsonValue, expected: JsonValue, actual: JsonValue) -> bool:
    if matcher == "ignore":
        return True
    if actual is None and isinstance(expected, _OBJECT):
        actual = {}
    if matcher == "subset":
        return is_subset(expected, actual)
    if matcher == "exact":
        return json_equal(expected, actual)
    if isinstance(matcher, Mapping):
        return _fields_match(matcher, expected, actual)
    if not isinstance(expected, Mapping) or not isinstance(actual, Mapping):
        return json_equal(expected, actual)
    if isinstance(matcher, _LIST):
        paths = [str(path) for path in matcher]
        return all(
            _field(expected, path) is None or json_equal(_field(expected, path), _field(actual, path)) for path in paths
        )
    names = expected if matcher == "named_keys" else actual
    return all(name in expected and name in actual and json_equal(expected[name], actual[name]) for name in names)


def _field(value: JsonValue, path: str) -> JsonValue:
    """Return the value at a path such as `order.id` inside an object; None if there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _fields_match(matchers: Mapping[str, JsonValue], expected: JsonValue, actual: JsonValue) -> bool:
    """Return True if all fields match: each field with its own matcher, exactly if it has none."""
    if not isinstance(expected, Mapping) or not isinstance(actual, Mapping):
        return json_equal(expected, actual)
    for name in {*expected, *actual}:
        matcher = matchers.get(name, "exact")
        if matcher == "ignore":
            continue
        if name not in expected or name not in actual or not _inputs_match(matcher, expected[name], actual[name]):
            return False
    return True


def _both_lists(left: JsonValue, right: JsonValue) -> tuple[Sequence[JsonValue], Sequence[JsonValue]] | None:
    if isinstance(left, _LIST) and isinstance(right, _LIST):
        return left, right
    return None


def json_equal(left: JsonValue, right: JsonValue) -> bool:
    """Return True if two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, _SCALAR):
        return left == right
    if isinstance(left, _OBJECT) and isinstance(right, _OBJECT):
        return left.keys() == right.keys() and all(map(json_equal, left.values(), map(right.__getitem__, left)))
    lists = _both_lists(left, right)
    if lists is not None:
        return len(lists[0]) == len(lists[1]) and all(map(json_equal, *lists))
    return left == right


def is_subset(expected: JsonValue, actual: JsonValue) -> bool:
    """Return True if `actual` contains `expected`: objects may have more keys at any depth, lists are equally long."""
    if isinstance(expected, _SCALAR):
        return json_equal(expected, actual)
    if isinstance(expected, _OBJECT) and isinstance(actual, _OBJECT):
        return expected.keys() <= actual.keys() and all(
            map(is_subset, expected.values(), map(actual.__getitem__, expected))
        )
    lists = _both_lists(expected, actual)
    if lists is not None:
        return len(lists[0]) == len(lists[1]) and all(map(is_subset, *lists))
    return json_equal(expected, actual)


class ToolResult(Struct, frozen=True):
    """The result of a tool, separate from its call. `failed` says that it is marked as an error."""

    output: JsonValue
    id: str | None = None
    tool: str | None = None
    failed: bool = False


def calls_in(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return every tool call of the messages, in order; a call that content parts repeat counts once."""
    if not any(isinstance(message.content, tuple) for message in messages):
        return tool_calls_of(messages)
    return tuple(call for message in messages for call in calls_of(message))


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """Return the tool calls of one message: its `tool_calls`, then those that are only in an assistant's parts."""
    if not isinstance(message.content, tuple) or message.role != "assistant":
        return message.tool_calls
    part_calls = [call for call in _part_calls(message.content) if not _is_known(call, message.tool_calls)]
    return (*message.tool_calls, *part_calls)


def results_of(message: Message) -> Iterator[ToolResult]:
    """Yield the results in a message: the content of a tool's message, and `tool_result` content parts."""
    parts = message.content if isinstance(message.content, tuple) else ()
    results = [part for part in parts if isinstance(part, DataPart) and is_result_part(part.type)]
    if message.role == "tool" and message.content is not None and not results:
        content = message.content
        text = content_text(content) if isinstance(content, tuple) else content
        yield ToolResult(text, message.tool_call_id, message.name)
    for part in results:
        fields = part.value
        output, output_type = _unwrapped(first(fields, *_OUTPUT_KEYS))
        is_error = fields.get("is_error") is True or fields.get("isError") is True
        failed = is_error or part.type == "tool-error" or output_type in _FAILED_OUTPUTS
        yield ToolResult(output, _text(fields, _ID_KEYS), _text(fields, _NAME_KEYS), failed)


def _unwrapped(output: JsonValue) -> tuple[JsonValue, str | None]:
    """Return value and type of an AI SDK output, `{type, value}`; any other output unchanged, with None."""
    given = output.get("type") if isinstance(output, Mapping) else None
    type_ = given if isinstance(given, str) else None
    if isinstance(output, Mapping) and type_ in _WRAPPED_OUTPUTS and not output.keys().isdisjoint(("value", "reason")):
        return first(output, "value", "reason"), type_
    return output, None


def _part_calls(parts: tuple[object, ...]) -> Iterator[ToolCall]:
    for part in parts:
        if isinstance(part, DataPart) and is_call_part(part.type):
            call = tool_call_from_json(part.value)
            if call is not None:
                yield call


def _is_known(call: ToolCall, known: tuple[ToolCall, ...]) -> bool:
    """Return True if a content part repeats a call that its message lists already."""
    return any(
        call.tool == other.tool
        and (call.id == other.id if call.id and other.id else json_equal(call.input, other.input))
        for other in known
    )


def _text(fields: JsonObject, names: tuple[str, ...]) -> str | None:
    found = first(fields, *names)
    return found if isinstance(found, str) else None
