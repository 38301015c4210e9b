"""The built-in evaluators, and the registry of their names. Importing the package loads none of them."""

from typing import TypeAlias

from agentv.registry import EvaluatorSpec, Registry, make_registry

__all__ = ["EVALUATORS", "EVALUATOR_KIND_VALUES", "EvaluatorKind", "is_evaluator_kind"]

EvaluatorKind: TypeAlias = str
"""The name of an evaluator kind: one of EVALUATOR_KIND_VALUES, an alias of one, or the name of a plug-in."""

EVALUATORS: Registry[EvaluatorSpec] = make_registry(
    "evaluator type",
    (
        EvaluatorSpec(
            "llm_judge",
            "a model reads the answer and scores it, with hits, misses and a reason",
            settings="agentv.evaluators.judges.settings:LlmJudgeSettings",
            factory="agentv.evaluators.judges.llm_judge:make_llm_judge",
            aliases=("LLMJudge", "LLMJudgeEvaluator"),
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "rubric",
            "a model checks the answer against a list of requirements, one by one",
            settings="agentv.evaluators.judges.settings:RubricSettings",
            factory="agentv.evaluators.judges.llm_judge:make_rubric",
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "pairwise",
            "a model compares the answer with another one, in both orders",
            settings="agentv.evaluators.judges.pairwise:PairwiseSettings",
            factory="agentv.evaluators.judges.pairwise:make_pairwise",
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "faithfulness",
            "a model checks that the sources support every statement of the answer",
            settings="agentv.evaluators.judges.settings:SourcedJudgeSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            aliases=("Faithfulness", "context-faithfulness"),
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "answer_relevance",
            "a model checks that the answer covers the question, and nothing else",
            settings="agentv.evaluators.judges.settings:JudgeCallSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            aliases=("AnswerRelevance", "answer-relevance", "answer_relevancy"),
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "context_recall",
            "a model checks that the sources contain every statement of the reference answer",
            settings="agentv.evaluators.judges.settings:RecallJudgeSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            aliases=("ContextRecall", "context-recall"),
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "context_precision",
            "a model checks which sources help to answer the question",
            settings="agentv.evaluators.judges.settings:SourcedJudgeSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            aliases=("ContextPrecision",),
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "plan_quality",
            "a model checks that a plan is complete, feasible, in order and without needless steps",
            settings="agentv.evaluators.judges.settings:JudgeCallSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "action_claims",
            "a model compares the actions that the answer claims with the tool calls",
            settings="agentv.evaluators.judges.settings:JudgeCallSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "tone",
            "a model checks how the answer treats the person it is written for",
            settings="agentv.evaluators.judges.settings:JudgeCallSettings",
            factory="agentv.evaluators.judges.llm_judge:make_ready_made",
            cost="paid",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "code_judge",
            "your own script or Python function scores the answer",
            settings="agentv.evaluators.judges.code_judge:CodeJudgeSettings",
            factory="agentv.evaluators.judges.code_judge:make_code_judge",
            aliases=("code",),
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "tool_trajectory",
            "which tools the agent called, how often, in what order, with which arguments",
            settings="agentv.evaluators.tools.tool_trajectory:ToolTrajectorySettings",
            factory="agentv.evaluators.tools.tool_trajectory:make_tool_trajectory",
        ),
        EvaluatorSpec(
            "composite",
            "several evaluators combined into one score",
            settings="agentv.evaluators.judges.composite:CompositeSettings",
            factory="agentv.evaluators.judges.composite:make_composite",
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "contains",
            "the text contains a given text, or any or all of several",
            settings="agentv.evaluators.rules.text:ContainsSettings",
            factory="agentv.evaluators.rules.text:make_contains",
        ),
        EvaluatorSpec(
            "equals",
            "the text equals a given text, ignoring surrounding white space",
            settings="agentv.evaluators.rules.text:EqualsSettings",
            factory="agentv.evaluators.rules.text:make_equals",
        ),
        EvaluatorSpec(
            "one_of",
            "the text is one of a list",
            settings="agentv.evaluators.rules.text:OneOfSettings",
            factory="agentv.evaluators.rules.text:make_one_of",
        ),
        EvaluatorSpec(
            "starts_with",
            "the text starts with a given text",
            settings="agentv.evaluators.rules.text:EdgeSettings",
            factory="agentv.evaluators.rules.text:make_starts_with",
        ),
        EvaluatorSpec(
            "ends_with",
            "the text ends with a given text",
            settings="agentv.evaluators.rules.text:EdgeSettings",
            factory="agentv.evaluators.rules.text:make_ends_with",
        ),
        EvaluatorSpec(
            "regex",
            "a regular expression matches the text, or must not match it",
            settings="agentv.evaluators.rules.regex:RegexSettings",
            factory="agentv.evaluators.rules.regex:make_regex",
        ),
        EvaluatorSpec(
            "is_json",
            "the text is valid JSON and matches a JSON Schema, if one is given",
            settings="agentv.evaluators.rules.json:JsonSettings",
            factory="agentv.evaluators.rules.json:make_is_json",
        ),
        EvaluatorSpec(
            "numeric",
            "a number in the text, by default the last, equals a value within a tolerance",
            settings="agentv.evaluators.rules.numeric:NumericSettings",
            factory="agentv.evaluators.rules.numeric:make_numeric",
        ),
        EvaluatorSpec(
            "length",
            "the number of characters, words or tokens in the text is within limits",
            settings="agentv.evaluators.rules.text:LengthSettings",
            factory="agentv.evaluators.rules.text:make_length",
        ),
        EvaluatorSpec(
            "rule_based",
            "a list of deterministic rules, each with its own criterion",
            settings="agentv.evaluators.rules.rule_based:RuleBasedSettings",
            factory="agentv.evaluators.rules.rule_based:make_rule_based",
            aliases=("RuleBased", "RuleBasedEvaluator"),
        ),
        EvaluatorSpec(
            "tool_usage",
            "rules on the agent's tool calls, each with its own criterion: number, arguments, results, order",
            settings="agentv.evaluators.tools.tool_usage:ToolUsageSettings",
            factory="agentv.evaluators.tools.tool_usage:make_tool_usage",
            aliases=("ToolUsage", "ToolUsageEvaluator"),
        ),
        EvaluatorSpec(
            "trace",
            "upper limits on tool calls, errors, model steps, time, cost and tokens",
            settings="agentv.evaluators.tools.trace:TraceSettings",
            factory="agentv.evaluators.tools.trace:make_trace",
        ),
        EvaluatorSpec(
            "skill_trigger",
            "the agent used a named skill, or did not",
            settings="agentv.evaluators.tools.skill_trigger:SkillTriggerSettings",
            factory="agentv.evaluators.tools.skill_trigger:make_skill_trigger",
            aliases=("skill-trigger",),
        ),
        EvaluatorSpec(
            "field_accuracy",
            "the fields of a JSON answer equal those of the reference answer",
            settings="agentv.evaluators.rules.field_accuracy:FieldAccuracySettings",
            factory="agentv.evaluators.rules.field_accuracy:make_field_accuracy",
            aliases=("field-accuracy",),
        ),
        EvaluatorSpec(
            "human",
            "human labels of the answer, read from JSON Lines or CSV files",
            settings="agentv.evaluators.people.human:HumanSettings",
            factory="agentv.evaluators.people.human:make_human",
        ),
        EvaluatorSpec(
            "lexical_similarity",
            "lexical similarity between the text and a reference, by letters or words",
            settings="agentv.evaluators.text.lexical_similarity:LexicalSimilaritySettings",
            factory="agentv.evaluators.text.lexical_similarity:make_lexical_similarity",
            aliases=("LexicalSimilarity", "LexicalSimilarityEvaluator"),
        ),
        EvaluatorSpec(
            "keyword_coverage",
            "the share of the expected keywords that the text contains",
            settings="agentv.evaluators.text.keyword_coverage:KeywordCoverageSettings",
            factory="agentv.evaluators.text.keyword_coverage:make_keyword_coverage",
            aliases=("KeywordCoverage", "KeywordCoverageEvaluator"),
        ),
        EvaluatorSpec(
            "sentiment",
            "the tone of the text, by VADER's word list (English)",
            settings="agentv.evaluators.text.sentiment:SentimentSettings",
            factory="agentv.evaluators.text.sentiment:make_sentiment",
            aliases=("Sentiment", "SentimentEvaluator"),
            extra="text",
        ),
        EvaluatorSpec(
            "semantic_similarity",
            "similarity of meaning between the text and a reference, by embeddings",
            settings="agentv.evaluators.text.semantic_similarity:SemanticSimilaritySettings",
            factory="agentv.evaluators.text.semantic_similarity:make_semantic_similarity",
            aliases=("NLPAccuracy", "NLPAccuracyEvaluator"),
            is_deterministic=False,
        ),
        EvaluatorSpec(
            "toxicity",
            "the text contains none of the terms of a list, not even disguised",
            settings="agentv.evaluators.text.toxicity:ToxicitySettings",
            factory="agentv.evaluators.text.toxicity:make_toxicity",
            aliases=("Toxicity", "ToxicityEvaluator"),
        ),
    ),
)

EVALUATOR_KIND_VALUES: tuple[EvaluatorKind, ...] = tuple(spec.name for spec in EVALUATORS)
"""The canonical names of the built-in evaluators."""


def is_evaluator_kind(value: object, *, registry: Registry[EvaluatorSpec] = EVALUATORS) -> bool:
    """Return True if a value names an evaluator kind: a canonical name, an alias, or a plug-in in `registry`.

    >>> is_evaluator_kind("code"), is_evaluator_kind("llm_juge")
    (True, False)
    """
    return value in registry
