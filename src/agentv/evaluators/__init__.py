"""Who judges: one file per evaluator, and the registry of their names. Importing this room loads none of them."""

from typing import TypeAlias

from agentv.registry import Registry, Spec, make_registry

__all__ = ["EVALUATORS", "EVALUATOR_KIND_VALUES", "EvaluatorKind", "is_evaluator_kind"]

EvaluatorKind: TypeAlias = str
"""The name of a sort of evaluator: one of EVALUATOR_KIND_VALUES, an alias of one, or a plug-in's own name."""

EVALUATORS: Registry = make_registry(
    "evaluator type",
    (
        Spec(
            "llm_judge",
            "a model reads the answer and scores it, with hits, misses and a reason",
            settings="agentv.evaluators.judges.settings:LlmJudgeSettings",
            factory="agentv.evaluators.judges.llm_judge:make_llm_judge",
            aliases=("LLMJudge",),
            cost="paid",
            is_deterministic=False,
        ),
        Spec(
            "rubric",
            "a model checks the answer against a list of requirements, one by one",
            settings="agentv.evaluators.judges.settings:RubricSettings",
            factory="agentv.evaluators.judges.llm_judge:make_rubric",
            cost="paid",
            is_deterministic=False,
        ),
        Spec(
            "pairwise",
            "a model says whether the answer is better than another one, asked in both orders",
            settings="agentv.evaluators.judges.pairwise:PairwiseSettings",
            factory="agentv.evaluators.judges.pairwise:make_pairwise",
            cost="paid",
            is_deterministic=False,
        ),
        Spec(
            "code_judge",
            "a script or Python function of yours scores the answer",
            settings="agentv.evaluators.judges.code_judge:CodeJudgeSettings",
            factory="agentv.evaluators.judges.code_judge:make_code_judge",
            aliases=("code",),
            is_deterministic=False,
        ),
        Spec(
            "tool_trajectory",
            "which tools the agent called, how often, in what order, with which arguments",
            settings="agentv.evaluators.tools.tool_trajectory:ToolTrajectorySettings",
            factory="agentv.evaluators.tools.tool_trajectory:make_tool_trajectory",
        ),
        Spec(
            "composite",
            "several evaluators made into one score",
            settings="agentv.evaluators.judges.composite:CompositeSettings",
            factory="agentv.evaluators.judges.composite:make_composite",
            is_deterministic=False,
        ),
        Spec(
            "contains",
            "the text contains a text, any of several, or all of them",
            settings="agentv.evaluators.rules.text:ContainsSettings",
            factory="agentv.evaluators.rules.text:make_contains",
        ),
        Spec(
            "equals",
            "the text is exactly this, white space around it aside",
            settings="agentv.evaluators.rules.text:EqualsSettings",
            factory="agentv.evaluators.rules.text:make_equals",
        ),
        Spec(
            "one_of",
            "the text is one of a list",
            settings="agentv.evaluators.rules.text:OneOfSettings",
            factory="agentv.evaluators.rules.text:make_one_of",
        ),
        Spec(
            "starts_with",
            "the text starts with this",
            settings="agentv.evaluators.rules.text:EdgeSettings",
            factory="agentv.evaluators.rules.text:make_starts_with",
        ),
        Spec(
            "ends_with",
            "the text ends with this",
            settings="agentv.evaluators.rules.text:EdgeSettings",
            factory="agentv.evaluators.rules.text:make_ends_with",
        ),
        Spec(
            "regex",
            "a regular expression matches, or does not",
            settings="agentv.evaluators.rules.regex:RegexSettings",
            factory="agentv.evaluators.rules.regex:make_regex",
        ),
        Spec(
            "is_json",
            "the text is JSON, of a given schema if there is one",
            settings="agentv.evaluators.rules.json:JsonSettings",
            factory="agentv.evaluators.rules.json:make_is_json",
        ),
        Spec(
            "numeric",
            "the last number in the text is this one, within a tolerance",
            settings="agentv.evaluators.rules.numbers:NumericSettings",
            factory="agentv.evaluators.rules.numbers:make_numeric",
        ),
        Spec(
            "length",
            "the text has so many characters, words or tokens",
            settings="agentv.evaluators.rules.numbers:LengthSettings",
            factory="agentv.evaluators.rules.numbers:make_length",
        ),
        Spec(
            "rule_based",
            "a list of deterministic rules, each for a criterion of its own",
            settings="agentv.evaluators.rules.rule_based:RuleBasedSettings",
            factory="agentv.evaluators.rules.rule_based:make_rule_based",
            aliases=("RuleBased",),
        ),
        Spec(
            "tool_usage",
            "rules on the tools an agent called, each for a criterion: whether, how often, with what, to what end",
            settings="agentv.evaluators.tools.tool_usage:ToolUsageSettings",
            factory="agentv.evaluators.tools.tool_usage:make_tool_usage",
            aliases=("ToolUsage",),
        ),
        Spec(
            "trace",
            "bounds on what happened: calls of tools, errors, steps, time, money, tokens",
            settings="agentv.evaluators.tools.trace:TraceSettings",
            factory="agentv.evaluators.tools.trace:make_trace",
        ),
        Spec(
            "human",
            "what people said of the answer, from JSON Lines or CSV files",
            settings="agentv.evaluators.people.human:HumanSettings",
            factory="agentv.evaluators.people.human:make_human",
        ),
        Spec(
            "lexical_similarity",
            "how alike the text and a reference are, by letters or words",
            settings="agentv.evaluators.text.lexical_similarity:LexicalSimilaritySettings",
            factory="agentv.evaluators.text.lexical_similarity:make_lexical_similarity",
            aliases=("LexicalSimilarity",),
        ),
        Spec(
            "keyword_coverage",
            "which share of the expected keywords the text has",
            settings="agentv.evaluators.text.keyword_coverage:KeywordCoverageSettings",
            factory="agentv.evaluators.text.keyword_coverage:make_keyword_coverage",
            aliases=("KeywordCoverage",),
        ),
        Spec(
            "sentiment",
            "the tone of the text, by VADER's word list (English)",
            settings="agentv.evaluators.text.sentiment:SentimentSettings",
            factory="agentv.evaluators.text.sentiment:make_sentiment",
            aliases=("Sentiment",),
            extra="text",
        ),
        Spec(
            "semantic_similarity",
            "how close the meaning of a text lies to that of a reference, by embeddings of both",
            settings="agentv.evaluators.text.semantic_similarity:SemanticSimilaritySettings",
            factory="agentv.evaluators.text.semantic_similarity:make_semantic_similarity",
            aliases=("NLPAccuracy",),
            is_deterministic=False,
        ),
        Spec(
            "toxicity",
            "none of the terms of a list is in the text, not even in disguise",
            settings="agentv.evaluators.text.toxicity:ToxicitySettings",
            factory="agentv.evaluators.text.toxicity:make_toxicity",
            aliases=("Toxicity",),
        ),
    ),
)

EVALUATOR_KIND_VALUES: tuple[EvaluatorKind, ...] = tuple(spec.name for spec in EVALUATORS)
"""The canonical names of the built-in evaluators."""


def is_evaluator_kind(value: object, *, registry: Registry = EVALUATORS) -> bool:
    """Whether a value names a sort of evaluator: a canonical name, an alias, or a plug-in in `registry`.

    >>> is_evaluator_kind("code"), is_evaluator_kind("llm_juge")
    (True, False)
    """
    return value in registry
