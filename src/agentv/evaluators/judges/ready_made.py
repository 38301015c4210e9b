"""Ready-made judges: `llm_judge` with the questions that people ask most, so that their prompts need not be written.

Faithfulness, answer relevance, context recall and context precision follow Es et al., "RAGAS: Automated Evaluation of
Retrieval Augmented Generation", EACL 2024; the prompts are our own, and one call judges the whole answer.
"""

from collections.abc import Mapping

from msgspec import Struct

from agentv.scoring.results.sources import source_value
from agentv.scoring.tools.traces import observed_calls
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json


class ReadyMade(Struct, frozen=True, kw_only=True):
    """A ready-made judge.

    `instructions` open the system prompt; `score_meanings` are those of the scores 0 and 1. `sections` are the
    variables that the judge is shown; those in `needs` must not be empty.
    """

    instructions: str
    score_meanings: tuple[str, str]
    sections: tuple[str, ...]
    needs: tuple[str, ...] = ()


READY_MADE: Mapping[str, ReadyMade] = {
    "faithfulness": ReadyMade(
        instructions="""\
You check whether the answer of an AI system keeps to its sources. Split the candidate answer into the single \
statements of fact that it makes. A statement is supported if the sources say it or it follows from them; your own \
knowledge does not count, even where you know the statement to be true. A changed number, name, date or negation is \
not supported. Greetings, questions and offers of help are no statements, and an answer without any statement of fact \
(such as one that says that the sources do not tell) keeps to its sources. List supported statements as hits and all \
others as misses. The score is the share of supported statements.""",
        score_meanings=("no statement is supported by the sources", "every statement is"),
        sections=("question", "sources", "candidate_answer"),
        needs=("sources",),
    ),
    "answer_relevance": ReadyMade(
        instructions="""\
You check whether the answer of an AI system answers the question that was asked. Whether it is true does not count \
here. List each part of the question that the candidate answer answers as a hit, and each part that it leaves open, \
evades or answers differently as a miss. Text that nobody asked for is a miss as well, unless it is a short courtesy \
or needed to understand the answer. An answer that only says that it cannot answer has the score 0.""",
        score_meanings=("nothing that was asked is answered", "all of it is answered, and nothing else is said"),
        sections=("question", "candidate_answer"),
        needs=("question",),
    ),
    "context_recall": ReadyMade(
        instructions="""\
You check whether the sources that were found are enough to answer a question. The reference answer is right. Split \
it into its single statements of fact. A statement is covered if the sources say it or it follows from them; your own \
knowledge does not count. List covered statements as hits and all others as misses. The score is the share of covered \
statements. There may be no candidate answer, and it does not count.""",
        score_meanings=("the sources cover no statement of the reference answer", "they cover all of them"),
        sections=("question", "reference_answer", "sources"),
        needs=("sources", "reference_answer"),
    ),
    "context_precision": ReadyMade(
        instructions="""\
You check whether the sources that were found are about the question. Take each numbered source by itself: it is \
useful if it says something that is needed to answer the question. A source about the same subject that does not help \
with this question is not useful. List useful sources as hits and all others as misses. The score is the share of \
useful sources. The candidate answer does not count.""",
        score_meanings=("no source is useful", "every source is useful"),
        sections=("question", "reference_answer", "sources"),
        needs=("sources", "question"),
    ),
    "plan_quality": ReadyMade(
        instructions="""\
You check the plan in the answer of an AI system. Whether it was carried out does not count here. A good plan reaches \
the whole of what was asked for; each step can be done with what is there when its turn comes; the order is right; \
nothing is there twice or for nothing; and steps that destroy or spend something come after the check that makes them \
safe. List what is right about the plan as hits, and missing, wrong, misplaced and needless steps as misses. An answer \
without a plan has the score 0.""",
        score_meanings=("the plan cannot reach what was asked for", "the plan reaches all of it without a detour"),
        sections=("question", "candidate_answer"),
        needs=("question",),
    ),
    "action_claims": ReadyMade(
        instructions="""\
You check whether an AI agent did what it says that it did. Find each action that the candidate answer claims to have \
carried out or each result that it claims to have seen ("I ran the tests", "all 14 tests passed", "I wrote to the \
customer"). A claim is backed if the tool calls show the action, with that result, and without an error. Advice, plans \
and offers are no claims; an answer without claims has the score 1. What the agent did without saying so does not \
count. List backed claims as hits and all others as misses. The score is the share of backed claims.""",
        score_meanings=("no claim is backed by a tool call", "every claim is"),
        sections=("question", "tool_calls", "candidate_answer"),
        needs=("tool_calls",),
    ),
    "tone": ReadyMade(
        instructions="""\
You check how the answer of an AI system treats the person it is written for. Only the attitude towards this person \
counts: bad news, an apology, a refusal or an unpleasant subject can be friendly or neutral, and praise can be meant \
as mockery. Friendly is warm, patient or helpful beyond the facts; neutral is matter-of-fact; rude is impatient, \
mocking, blaming, threatening or cold towards a person in need. Emoji count for what they express. List what is \
friendly as hits and what is rude as misses.""",
        score_meanings=("rude", "friendly; 0.5 is neutral"),
        sections=("question", "candidate_answer"),
    ),
}
"""The ready-made judges by evaluator type."""

_SOURCE_KEYS = ("context", "sources", "documents", "passages", "retrieved_context")
_TEXT_KEYS = ("text", "content", "page_content", "passage")


def numbered_sources(context: EvaluationContext, paths: tuple[str, ...] = ()) -> str:
    """Return the source texts of an answer, one paragraph each, as `[1] …`; "" if there are none.

    They are what `paths` lead to (as in `source`); without paths the `context` of the input, else the first of the
    metadata `context`, `sources`, `documents`, `passages` and `retrieved_context`, else the results of the tool calls.
    Raises EvaluatorError for a path that leads nowhere.
    """
    found = [_value_at(context, path) for path in paths] if paths else _usual_sources(context)
    texts = [text for value in found for text in _passages(value) if text.strip()]
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))


def _value_at(context: EvaluationContext, path: str) -> JsonValue:
    value = source_value(context, path)
    if value is None:
        raise EvaluatorError(f"`sources`: {path!r} leads nowhere in this answer")
    return value


def _usual_sources(context: EvaluationContext) -> list[JsonValue]:
    if context.context:
        return [dict(context.context)]
    metadata = {**context.eval_case.metadata, **context.metadata}
    named = next((metadata[key] for key in _SOURCE_KEYS if metadata.get(key)), None)
    if named is not None:
        return [named]
    return [call.output for call in observed_calls(context) or () if call.output is not None]


def _passages(value: JsonValue) -> list[str]:
    """Return the texts of a value: a list has one each; an object is its text, its only list, or its JSON."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _passages(each)]
    if isinstance(value, Mapping):
        text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        if isinstance(text, str):
            return [text]
        only = next(iter(value.values())) if len(value) == 1 else None
        if isinstance(only, str | list | tuple):
            return _passages(only)
    return [] if value is None else [compact_json(value)]
