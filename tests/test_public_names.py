"""The public names of the package: adding one is a decision, and removing one breaks users."""

import agentv

PUBLIC = [
    "AggregatedEvaluationResult",
    "CriteriaEvaluator",
    "EvaluationInput",
    "EvaluationRunConfig",
    "EvaluationRunError",
    "EvaluationRunner",
    "EvaluationStorageProvider",
    "JsonFileStorageProvider",
    "run_evaluation",
    "run_evaluation_sync",
    "AgentvError",
    "CaseTurn",
    "CaseResult",
    "Comparison",
    "CodeEvaluator",
    "CodeEvaluatorOptions",
    "CompositeEvaluator",
    "ConfigError",
    "EVALUATOR_KIND_VALUES",
    "EvalCase",
    "EvalFileError",
    "EvalSuite",
    "EvaluationContext",
    "EvaluationCriteria",
    "EvaluationResult",
    "EvaluationScore",
    "Evaluator",
    "EvaluatorConfig",
    "EvaluatorError",
    "EvaluatorKind",
    "EvaluatorResult",
    "JudgeUnavailable",
    "LlmJudgeEvaluator",
    "LlmJudgeEvaluatorOptions",
    "Message",
    "MissingExtraError",
    "PromptInputs",
    "RubricItem",
    "make_context",
    "PluginError",
    "PromptEvaluator",
    "Provider",
    "ProviderError",
    "ProviderRequest",
    "ProviderResponse",
    "ResolvedTarget",
    "RunReport",
    "Sampler",
    "StorageError",
    "TargetConfig",
    "TargetError",
    "TemplateError",
    "ToolCall",
    "ToolTrajectoryEvaluator",
    "TraceEvent",
    "TraceSummary",
    "TurnRules",
    "UnknownNameError",
    "__version__",
    "build_evaluator_registry",
    "cohen_kappa",
    "evaluate",
    "compare",
    "evaluate_async",
    "evaluator",
    "fleiss_kappa",
    "is_evaluator_kind",
    "krippendorff_alpha",
    "load_suite",
    "load_targets",
    "provider",
    "report",
    "run_evaluators_for_case",
    "store",
    "summarize_trace",
    "weighted_kappa",
]


def test_the_public_names_are_these() -> None:
    assert sorted(agentv.__all__) == sorted(PUBLIC)


def test_every_public_name_is_there_and_listed_by_dir() -> None:
    assert [name for name in PUBLIC if not hasattr(agentv, name)] == []
    assert set(PUBLIC) <= set(dir(agentv))


def test_everything_public_says_what_it_is() -> None:
    documented = (getattr(agentv, name) for name in PUBLIC if name not in ("__version__", "EVALUATOR_KIND_VALUES"))
    undocumented = [thing for thing in documented if not (thing.__doc__ or "").strip()]
    assert undocumented == []
