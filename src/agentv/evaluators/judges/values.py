"""The values of a judge prompt's variables. Text from the system under test is always fenced."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from agentv.evaluators.judges.prompts import Basis, fence
from agentv.scoring.results.conversations import conversation, transcript
from agentv.scoring.results.sources import expected_answer, source_value
from agentv.scoring.tools.traces import observed_calls
from agentv.templating.variables import canonical_name
from agentv.types.cases import EvaluatorConfig
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import (
    compact_json,
    messages_to_json,
    pretty_json,
    tool_call_to_json,
    trace_summary_to_json,
)

NOT_GIVEN = "(none given)"

FENCED = frozenset(
    {
        "candidate_answer",
        "output_messages",
        "conversation",
        "diff",
        "trace_summary",
        "evaluator_results",
        "tool_calls",
        "sources",
    }
)
"""Variables whose text the system under test wrote or could have influenced."""


class JudgedText(Struct, frozen=True):
    """The subject of a judge call: the context, the candidate text, its source, and the results of a composite.

    `sources` are the source texts for a ready-made judge; None for other judges, whose prompts do not know that name.
    """

    context: EvaluationContext
    candidate: str
    source: str = "response"
    evaluator_results: JsonValue = None
    evaluator: EvaluatorConfig | None = None
    sources: str | None = None

    @property
    def config(self) -> EvaluatorConfig | None:
        """The config of the evaluator that judges; default: that of the context."""
        return self.context.evaluator if self.evaluator is None else self.evaluator

    @property
    def criterion(self) -> EvaluationCriteria:
        """The judged criterion: that which the evaluator names, else that of its own name; numeric if undefined."""
        config = self.config
        name = "" if config is None else config.criterion or config.name
        found = next((each for each in self.context.criteria if each.name == name), None)
        return EvaluationCriteria(name, scale="numeric") if found is None else found

    @property
    def basis(self) -> Basis:
        """The material to compare the text with, and the criterion if the evaluator has one that is defined."""
        criterion = self.criterion if self.context.criteria else None
        return Basis(
            expected_outcome=bool(self.value("expected_outcome")),
            reference=bool(self.value("reference_answer")),
            criterion=criterion if criterion in self.context.criteria else None,
            conversation=self.source == "conversation",
        )

    @property
    def is_excerpt(self) -> bool:
        """True if `question` is only the last of several messages before the answer, as in windows and turns."""
        config = self.config
        cut = config is not None and (config.per_turn or config.window is not None)
        return cut and self.source != "conversation" and len(self.context.message_history) > 1

    def shown(self) -> Iterator[str]:
        """Yield the texts that may contain a JSON object which is not the judge's own verdict."""
        for name in (
            "candidate_answer",
            "question",
            "reference_answer",
            "output_messages",
            "conversation",
            "diff",
            "evaluator_results",
            "sources",
        ):
            yield self.value(name) or ""
        # The context has the documents that an agent retrieved, and prompts may show any part of it.
        yield compact_json(self.context.context)

    def value(self, name: str) -> str | None:
        """Return a variable's value as text, "" if this case has none, None if there is no such variable."""
        name = canonical_name(name)
        if name.startswith("context."):
            return _context_value(self.context, name)
        make = _VALUES.get(name)
        return None if make is None else make(self)

    def fenced(self, nonce: str) -> Callable[[str], str | None]:
        """Return a function that gives the value of a prompt variable, fenced if it is evidence."""

        def value_of(name: str) -> str | None:
            name = canonical_name(name)
            text = self.value(name)
            # An empty answer is evidence too; an absent trace or diff is not.
            if text is not None and name in FENCED and (text or name == "candidate_answer"):
                return fence(text, name=name, nonce=nonce)
            return NOT_GIVEN if text == "" else text

        return value_of


def _context_value(context: EvaluationContext, name: str) -> str | None:
    try:
        found = source_value(context, name)
    except ValueError:
        return None
    return found if isinstance(found, str) or found is None else compact_json(found)


def _text(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else pretty_json(value)


def _criteria(judged: JudgedText) -> str:
    """Return the criterion of the evaluator, else what is expected of an answer: AgentDock's and AgentV's meanings."""
    criterion = judged.basis.criterion
    if criterion is None:
        return judged.context.eval_case.expected_outcome
    return ": ".join(filter(None, (criterion.name, criterion.description)))


def _rubrics(judged: JudgedText) -> str:
    """Return the requirements that the evaluator checks, as JSON; "" if it has none."""
    settings = {} if judged.config is None else judged.config.settings
    return _text(settings.get("rubrics", settings.get("items")))


def _tool_calls(context: EvaluationContext) -> JsonValue:
    calls = observed_calls(context)
    return None if calls is None else [tool_call_to_json(call) for call in calls]


_VALUES: Mapping[str, Callable[[JudgedText], str | None]] = {
    "question": lambda judged: judged.context.prompt_inputs.question,
    "expected_outcome": lambda judged: judged.context.eval_case.expected_outcome,
    "reference_answer": lambda judged: _text(expected_answer(judged.context)),
    "candidate_answer": lambda judged: judged.candidate,
    "input_messages": lambda judged: _text(messages_to_json(judged.context.eval_case.input_messages)),
    "expected_messages": lambda judged: _text(messages_to_json(judged.context.eval_case.expected_messages)),
    "output_messages": lambda judged: _text(messages_to_json(judged.context.output_messages)),
    "conversation": lambda judged: transcript(conversation(judged.context)),
    "guidelines": lambda judged: judged.context.prompt_inputs.guidelines,
    "trace_summary": lambda judged: _text(trace_summary_to_json(judged.context.candidate_trace_summary)),
    "diff": lambda judged: judged.context.diff or "",
    "evaluator_results": lambda judged: _text(judged.evaluator_results),
    "criteria": _criteria,
    "metadata": lambda judged: _text({**judged.context.eval_case.metadata, **judged.context.metadata}),
    "rubrics": _rubrics,
    "tool_calls": lambda judged: _text(_tool_calls(judged.context)),
    "sources": lambda judged: judged.sources,
    "criterion_name": lambda judged: judged.criterion.name,
    "criterion_description": lambda judged: judged.criterion.description,
    "criterion_scale": lambda judged: judged.criterion.scale,
}
