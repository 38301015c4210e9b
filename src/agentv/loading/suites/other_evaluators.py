"""What to use here in place of an evaluator of another tool, by its name there."""

import re
from collections.abc import Mapping

_PARSER = "use a code_judge with a parser"
_COMPARE = "use `agentv compare`, or the evaluator `pairwise`"
_TOOLS = "use tool_trajectory"
_SPAN_LIMIT = "use trace with max_duration_ms"

PROMPTFOO_LOST: Mapping[str, str] = {
    "agent-rubric": "use an llm_judge whose `target` is a coding agent",
    "classifier": "use a code_judge that calls the classifier",
    "contains-html": _PARSER,
    "contains-sql": _PARSER,
    "contains-xml": _PARSER,
    "conversation-relevance": "use an llm_judge with `per_turn` and `window`",
    "finish-reason": "the finish reason is stored, but not scored",
    "gleu": "use lexical_similarity with bleu",
    "guardrails": "a refused request is an error of the target here",
    "human": "use the evaluator human, or `agentv label`",
    "is-html": _PARSER,
    "is-sql": _PARSER,
    "is-valid-function-call": "use tool_usage with a schema",
    "is-valid-openai-function-call": "use tool_usage with a schema",
    "is-valid-openai-tools-call": "use tool_usage with a schema",
    "is-xml": _PARSER,
    "max-score": _COMPARE,
    "meteor": "use lexical_similarity with chrf",
    "moderation": "use toxicity, or a code_judge that calls the service",
    "perplexity": "log probabilities are not recorded",
    "perplexity-score": "log probabilities are not recorded",
    "pi": "use an llm_judge",
    "ruby": "use a code_judge: `script` runs any program",
    "search-rubric": "use an llm_judge whose `target` can search",
    "select-best": _COMPARE,
    "similar:dot": "use semantic_similarity, which compares by cosine",
    "similar:euclidean": "use semantic_similarity, which compares by cosine",
    "skill-used": "use tool_trajectory on the calls that load a skill",
    "trace-error-spans": "use trace with max_errors",
    "trace-span-count": "use trace with max_tool_calls or max_model_steps",
    "trace-span-duration": _SPAN_LIMIT,
    "webhook": "use a code_judge that calls the service",
}
"""The advice, or the reason, for each type of assertion of promptfoo that `agentv convert` cannot convert."""

PYDANTIC_EVALS_LOST: Mapping[str, str] = {
    "IsInstance": "an answer is a text here; use is_json with a schema",
    "HasMatchingSpan": "use tool_trajectory or trace",
    "ToolCorrectness": _TOOLS,
    "TrajectoryMatch": _TOOLS,
    "ArgumentCorrectness": "use tool_trajectory with args",
    "MaxToolCalls": "use trace with max_tool_calls",
    "MaxModelRequests": "use trace with max_model_steps",
}
"""The same for the evaluators of pydantic-evals."""

_RUBRIC = "use rubric, with the requirements as `rubrics`"
_AGAINST_REFERENCE = "use llm_judge, which compares with `expected`"
_EQUALS = "use equals, with the expected text as `value`"
_DISTANCE = "use lexical_similarity with `algorithm: levenshtein`"
_SEMANTIC = "use semantic_similarity"
_PYTHON = "use code_judge with `python: FILE.py:FUNCTION`"
_DURATION = "use trace with max_duration_ms"

_CONVERTIBLE: Mapping[str, str] = {
    # promptfoo
    "icontains": "use contains with `ignore: case`",
    "icontains-any": "use contains with `ignore: case`; `value` may be a list",
    "icontains-all": "use contains with `ignore: case`, `expect: all` and a list as `value`",
    "contains-any": "use contains; `value` may be a list",
    "contains-all": "use contains with `expect: all` and a list as `value`",
    "contains-json": "use is_json with `inside: true`",
    "word-count": "use length with `unit: words`",
    "cost": "use trace with max_cost_usd",
    "latency": _DURATION,
    "levenshtein": _DISTANCE,
    "bleu": "use lexical_similarity with `algorithm: bleu`",
    "rouge": "use lexical_similarity with `algorithm: rouge_l`",
    "rouge-n": "use lexical_similarity with `algorithm: rouge_l`",
    "similar": _SEMANTIC,
    "similar:cosine": _SEMANTIC,
    "llm-rubric": _RUBRIC,
    "model-graded-closedqa": _RUBRIC,
    "factuality": _AGAINST_REFERENCE,
    "model-graded-factuality": _AGAINST_REFERENCE,
    "context-relevance": "use context_precision",
    "is-refusal": "use regex with a pattern of refusals, or llm_judge",
    "javascript": "use code_judge with `script: [node, FILE.js]`",
    "python": _PYTHON,
    "assert-set": "use composite",
    "tool-call-f1": _TOOLS,
    "trajectory:tool-used": _TOOLS,
    "trajectory:tool-sequence": _TOOLS,
    "trajectory:tool-args-match": "use tool_trajectory with args",
    "trajectory:step-count": "use trace with max_model_steps",
    "trajectory:goal-success": _RUBRIC,
    # inspect
    "includes": "use contains with `ignore: case`",
    "match": "use equals with `location: end` and `ignore: [case, punctuation]`",
    "exact": "use equals with `ignore: [case, punctuation]`",
    "pattern": "use regex with `pattern`",
    "choice": "use one_of",
    "f1": "use lexical_similarity with `algorithm: token_set`",
    "model_graded_qa": _AGAINST_REFERENCE,
    "model_graded_fact": _AGAINST_REFERENCE,
    # DeepEval, Ragas
    "g-eval": _RUBRIC,
    "hallucination": "use faithfulness",
    "contextual-recall": "use context_recall",
    "contextual-precision": "use context_precision",
    "contextual-relevancy": "use context_precision",
    "tool-call-accuracy": _TOOLS,
    "json-correctness": "use is_json with a schema",
    "bias": "use llm_judge",
    "task-completion": _RUBRIC,
    "summarization": "use llm_judge",
    "answer-correctness": _AGAINST_REFERENCE,
    "answer-similarity": _SEMANTIC,
    "semantic-similarity": _SEMANTIC,
    "exact-match": _EQUALS,
    # pydantic-evals
    "EqualsExpected": _EQUALS,
    "MaxDuration": _DURATION,
    # OpenAI, LangSmith, Braintrust
    "json-schema": "use is_json with `schema`",
    "llm-as-judge": "use llm_judge",
    "llm-classifier": "use llm_judge",
    "string-check": "use equals or contains",
    "string-match": _EQUALS,
    "text-similarity": "use lexical_similarity",
    "embedding-similarity": _SEMANTIC,
    "embedding-distance": _SEMANTIC,
    "edit-distance": _DISTANCE,
}
"""The counterparts of evaluators that have one under another name here."""


def _plain(name: str) -> str:
    """Return a name without the differences of style between tools: `GEval`, `g-eval` and `g_eval` are one."""
    return re.sub(r"[\W_]", "", name).casefold().removesuffix("metric")


_ADVICE = {
    _plain(name): text for table in (PROMPTFOO_LOST, PYDANTIC_EVALS_LOST, _CONVERTIBLE) for name, text in table.items()
}
_NEGATION = "not-"


def other_tools_advice(name: str) -> str | None:
    """Return what to use in place of another tool's evaluator, such as `icontains`; None for an unknown name."""
    advice = _ADVICE.get(_plain(name.removeprefix(_NEGATION)))
    return f"{advice}; `negate: true` reverses it" if advice and name.startswith(_NEGATION) else advice
