"""Records of a run: run.json, the lines of events.jsonl and cases.jsonl."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import StoredMessages
from agentv.types.messages_json import content_text
from agentv.types.stored import CASE_SCHEMA, RUN_SCHEMA, always

REPORTED = "reported"
"""The event with the verdict of a run, written just before the run ends."""


class RunRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of `run.json`."""

    schema: str = always(RUN_SCHEMA)
    run_id: str
    name: str | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime
    agentv_version: str = always("")
    plan: JsonObject = always({})
    """The number of rows, the suites, targets, options and seed, and more. Secrets are redacted."""
    git: JsonObject | None = None
    parents: tuple[str, ...] = ()
    """The ids of the runs that a merged run was made from."""

    @property
    def shard(self) -> str | None:
        """The shard that the run is, such as `2/3`; None for a run of all cases."""
        options = self.plan.get("options")
        shard = options.get("shard") if isinstance(options, Mapping) else None
        return shard if isinstance(shard, str) else None

    @property
    def suites(self) -> tuple[str, ...]:
        """The paths of the suites in the plan."""
        return self._planned("suites", "path")

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets in the plan."""
        return self._planned("targets", "name")

    def _planned(self, part: str, key: str) -> tuple[str, ...]:
        planned = self.plan.get(part)
        found = [each.get(key) for each in planned if isinstance(each, Mapping)] if isinstance(planned, list) else []
        return tuple(each for each in found if isinstance(each, str))


class EventRecord(Struct, frozen=True):
    """An event of a run: a line of events.jsonl."""

    type: str
    """Readers skip unknown types."""
    time: datetime
    fields: JsonObject
    """The line has these keys at the same level as `type`, `time` and `seq`."""
    seq: int


class CaseRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A planned case, written to `cases.jsonl` before its first call."""

    schema: str = always(CASE_SCHEMA)
    case_key: str
    suite: str
    eval_id: str
    prompt: str | None = None
    file: str = always("")
    line: int = always(0)
    session_id: str | None = None
    question: str = always("")
    input_messages: StoredMessages = always(())
    expected_outcome: str = always("")
    expected_messages: StoredMessages = always(())
    reference_answer: str | None = None
    criteria: tuple[JsonObject, ...] = always(())
    evaluators: JsonValue = None
    files: tuple[JsonObject, ...] = always(())
    tags: tuple[str, ...] = always(())
    metadata: JsonObject = always({})
    turns: tuple[JsonObject, ...] = ()
    """The turns of a conversation."""
    turn_rules: JsonObject = {}
    """The keys of `execution` that say how the conversation is held and scored."""
    incomplete: str | None = None
    """The reason why the case is checked only in part."""

    @property
    def last_question(self) -> str:
        """The user's last message, for lists; `question` has all messages of the request, with their roles."""
        if len(self.input_messages) <= 1:
            return self.question
        texts = (content_text(message.content) for message in reversed(self.input_messages) if message.role == "user")
        return next(filter(str.strip, texts), self.question)
