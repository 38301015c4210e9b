"""Cases for an eval file from logged answers: one for each question, with its place in the log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.criteria.inputs import eval_id_of
from agentv.engine.logs.transcript_lines import Places
from agentv.scoring.keys.identity import digest
from agentv.scoring.text.personal import kinds_of_personal_data
from agentv.scoring.tools.tool_calls import calls_in
from agentv.types.evaluation_input import EvaluationInput, input_messages, output_messages
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, TextPart, ToolCall
from agentv.types.messages_json import content_text, message_to_json, pretty_json, short_messages
from agentv.types.records.answer import Origin, source_of
from agentv.types.records.result import ORIGIN

Order: TypeAlias = Literal["in_order", "exact", "unordered", "subset", "superset"]
"""How the tool calls of an answer are compared with the recorded ones: a mode of `tool_trajectory`."""

NO_QUESTION = "have no question"
NO_ANSWER = "have no answer to compare with"
ATTACHED = "have an image or another attachment, which an eval file can only read from a file"


class CaseRules(Struct, frozen=True):
    """What of a logged answer a case has."""

    expects_answer: bool = True
    """True if the recorded answer is the reference, unless the log has one of its own."""
    trajectory: Order | None = None
    """How new tool calls are compared with the recorded ones; None if they are not."""
    keeps_system: bool = False
    """True if the system prompts of the log are a part of the input."""
    ids: AbstractSet[str] | None = None
    """The ids of the cases to make; None for all."""
    has_evaluators: bool = False
    """True if the suite has evaluators, so that a case needs no reference."""


class LoggedCases(Struct):
    """The cases of logged answers, in their order; a repeated question is counted, and makes no case."""

    rules: CaseRules
    cases: list[JsonObject] = field(default_factory=list)
    repeated: int = 0
    unwanted: int = 0
    """The answers that `rules.ids` does not name."""
    without_system: int = 0
    """The cases whose system prompts are left out."""
    unusable: dict[str, Places] = field(default_factory=dict)
    """The places of answers that cannot become a case, by the reason."""
    _ids: set[str] = field(default_factory=set)
    _questions: set[str] = field(default_factory=set)
    _sessions: dict[str, list[int]] = field(default_factory=dict)

    def add_existing(self, cases: Iterable[JsonObject]) -> None:
        """Add the cases that a file has already: their ids and questions are taken."""
        for case in cases:
            self._ids.add(str(case.get("id")))
            found = case.get("input") or case.get("input_messages") or case.get("inputMessages")
            self._questions.add(_question_key(found))

    def add(self, given: EvaluationInput, origin: Origin) -> None:
        """Add the case of an answer, if it can become one and its question is new."""
        place = source_of(origin.file, origin.line, origin.part)
        eval_id = eval_id_of(given, place)
        if self.rules.ids is not None and eval_id not in self.rules.ids:
            self.unwanted += 1
            return
        messages = input_messages(given)
        if not any(each.role == "user" for each in messages):
            self.lose(NO_QUESTION, place)
            return
        told = tuple(each for each in messages if self.rules.keeps_system or each.role != "system")
        if any(each.role == "user" and not _is_text(each) for each in told):
            self.lose(ATTACHED, place)
            return
        question = short_messages([_message(each) for each in told], "user")
        expected, added = self._expected(given), self._added(given)
        if expected is None and not (added or self.rules.has_evaluators):
            self.lose(NO_ANSWER, place)
            return
        key = _question_key(question)
        if key in self._questions:
            self.repeated += 1
            return
        self._questions.add(key)
        self.without_system += len(told) < len(messages)
        if given.session_id:
            self._sessions.setdefault(given.session_id, []).append(len(self.cases))
        case: dict[str, JsonValue] = {"id": self._new_id(eval_id), "input": question}
        if expected is not None:
            case["expected"] = expected
        if given.tags:
            case["tags"] = list(given.tags)
        if added:
            case["add_evaluators"] = added
        case["metadata"] = {ORIGIN: origin.to_json()}
        self.cases.append(case)

    def lose(self, reason: str, place: str) -> None:
        """Count an answer that cannot become a case."""
        self.unusable.setdefault(reason, Places()).add(place)

    def finished(self) -> list[JsonObject]:
        """Return the cases. Those of one session name it, as they are not independent of each other."""
        cases = list(self.cases)
        for session, places in self._sessions.items():
            for place in places if len(places) > 1 else ():
                cases[place] = {"id": cases[place]["id"], "conversation_id": session, **cases[place]}
        return cases

    def _new_id(self, eval_id: str) -> str:
        number, new = 1, eval_id
        while new in self._ids:
            number += 1
            new = f"{eval_id}-{number}"
        self._ids.add(new)
        return new

    def _expected(self, given: EvaluationInput) -> JsonValue:
        truth = given.ground_truth
        if truth is not None:
            return truth if isinstance(truth, str) else pretty_json(truth)
        return given.text if self.rules.expects_answer and given.text.strip() else None

    def _added(self, given: EvaluationInput) -> list[JsonValue]:
        if self.rules.trajectory is None:
            return []
        calls: list[JsonValue] = [_expected_call(each) for each in calls_in(output_messages(given) or ())]
        mode = self.rules.trajectory
        name = {"name": "trajectory", "type": "tool_trajectory", "mode": mode, "expected": calls}
        return [name] if calls else []


def _expected_call(call: ToolCall) -> JsonObject:
    """Return a recorded call as an expected one, with the arguments that a new call must have."""
    return {"tool": call.tool, **({"args": call.input} if isinstance(call.input, Mapping) and call.input else {})}


def _is_text(message: Message) -> bool:
    content = message.content
    return not isinstance(content, tuple) or all(isinstance(part, TextPart) for part in content)


def _message(message: Message) -> JsonObject:
    """Return a message without what only says how it was recorded; of its parts, the text."""
    content = message.content
    if isinstance(content, tuple):
        content = content_text(content)
    calls = tuple(replace(each, timestamp=None, duration_ms=None) for each in message.tool_calls)
    return message_to_json(replace(message, content=content, tool_calls=calls, timestamp=None, metadata=None))


def _question_key(value: JsonValue) -> str:
    """Return a key of the input of a case; it is equal for texts that differ in case or white space only."""
    messages: Sequence[JsonValue] = [{"role": "user", "content": value}] if isinstance(value, str) else []
    if isinstance(value, list | tuple):
        messages = value
    return digest([{**each, "content": _folded(each.get("content"))} for each in messages if isinstance(each, Mapping)])


def _folded(content: JsonValue) -> JsonValue:
    return " ".join(content.casefold().split()) if isinstance(content, str) else content


def personal_data(cases: Iterable[JsonObject]) -> dict[str, list[str]]:
    """Return the ids of the cases whose texts look like personal data, by its kind."""
    found: dict[str, list[str]] = {}
    for case in cases:
        kinds = dict.fromkeys(kind for text in _texts(case) for kind in kinds_of_personal_data(text))
        for kind in kinds:
            found.setdefault(kind, []).append(str(case["id"]))
    return found


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("id", "metadata"):
                yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
