"""`skill_trigger`: whether an agent used a named skill."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from agentv.scoring.tools.recorded_calls import recorded_calls
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.messages import ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.protocols import EvaluatorTools

KIND = "skill_trigger"


class SkillTriggerSettings(Struct, frozen=True, kw_only=True):
    """Settings of `skill_trigger`."""

    skill: Annotated[str, Meta(description="the skill's name")]
    should_trigger: Annotated[bool, Meta(description="false: the agent must not use it")] = True

    def __post_init__(self) -> None:
        """Raise ValueError for an empty name."""
        if not self.skill.strip():
            raise ValueError("`skill` must not be empty")


class SkillTriggerEvaluator:
    """An evaluator that looks for a skill in the tool calls of an answer.

    A skill counts as used if there is a call of the tool `skill` whose argument `skill` contains the skill's name (as
    `plugin:NAME` does), a call of `read` for a file below `skills/NAME/`, or a call whose output contains
    `skills/NAME/`. The case of tool names is ignored.
    """

    kind = KIND
    reads_workspace = False
    inline = True
    reusable = True

    def __init__(self, settings: SkillTriggerSettings) -> None:
        self._settings = settings

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Score 1 if the skill was used (with `should_trigger: false`: if it was not used), else 0.

        Raises EvaluatorError if `context.toolCalls` cannot be read.
        """
        skill = self._settings.skill
        calls = recorded_calls(context) or ()
        use = next(filter(None, (_use(call, skill) for call in calls)), None)
        if use is not None:
            line = use
        elif calls:
            line = f"the skill {skill!r} is in none of {len(calls)} tool calls"
        else:
            line = "no tool call recorded"
        was_used = use is not None
        if was_used == self._settings.should_trigger:
            return EvaluationScore(1.0, hits=(line,))
        return EvaluationScore(0.0, misses=(line,))


def _use(call: ToolCall, skill: str) -> str | None:
    """Return a description of how a call uses a skill; None if it does not."""
    tool = call.tool.lower()
    arguments = call.input if isinstance(call.input, Mapping) else {}
    path = f"skills/{skill}/"
    if tool == "skill" and skill in str(arguments.get("skill") or ""):
        return f"the tool {call.tool} was called with the skill {skill!r}"
    if tool == "read" and path in str(arguments.get("file_path") or arguments.get("path") or ""):
        return f"the tool {call.tool} read a file below {path}"
    output = call.output if isinstance(call.output, str) else compact_json(call.output)
    return f"the output of {call.tool} mentions {path}" if path in output else None


def make_skill_trigger(
    _config: EvaluatorConfig, settings: SkillTriggerSettings, _tools: EvaluatorTools
) -> SkillTriggerEvaluator:
    """Return a `skill_trigger` evaluator."""
    return SkillTriggerEvaluator(settings)
