"""agentv: evaluate AI agents.

Every public name is imported when it is first used, so that `import agentv` (and with it the command line) stays
fast. `__init__.pyi` declares the same names for type checkers.
"""

import importlib
from collections.abc import Mapping

from agentv.version import __version__ as __version__

_HOMES: Mapping[str, tuple[str, ...]] = {
    "agentv.api": (
        "compare",
        "evaluate",
        "evaluate_async",
        "load_suite",
        "load_targets",
        "run_evaluation",
        "run_evaluation_sync",
    ),
    "agentv.evaluators": ("EVALUATOR_KIND_VALUES", "EvaluatorKind", "is_evaluator_kind"),
    "agentv.evaluators.judges.code_judge": ("CodeEvaluator", "CodeEvaluatorOptions"),
    "agentv.evaluators.judges.composite": ("CompositeEvaluator",),
    "agentv.evaluators.judges.llm_judge": ("LlmJudgeEvaluator", "LlmJudgeEvaluatorOptions", "PromptEvaluator"),
    "agentv.engine.calling.given_answer": ("make_context",),
    "agentv.evaluators.tools.tool_trajectory": ("ToolTrajectoryEvaluator",),
    "agentv.engine.criteria.config": ("EvaluationRunConfig",),
    "agentv.engine.criteria.runner": ("EvaluationRunner",),
    "agentv.engine.criteria.sampler": ("Sampler",),
    "agentv.engine.running.evaluators_for_case": ("build_evaluator_registry", "run_evaluators_for_case"),
    "agentv.engine.plugins.plugins": ("evaluator", "provider", "report", "store"),
    "agentv.scoring.comparison.compare": ("Comparison",),
    "agentv.scoring.judges.agreement": ("cohen_kappa", "fleiss_kappa", "krippendorff_alpha", "weighted_kappa"),
    "agentv.scoring.tools.traces": ("summarize_trace",),
    "agentv.storage.judgements.json_file": ("JsonFileStorageProvider",),
    "agentv.types.aggregated_result": (
        "AggregatedEvaluationResult",
        "CriteriaEvaluator",
        "EvaluationRunError",
        "EvaluationStorageProvider",
    ),
    "agentv.types.cases": ("CaseTurn", "EvalCase", "EvalSuite", "EvaluatorConfig", "RubricItem", "TurnRules"),
    "agentv.types.errors": (
        "AgentvError",
        "ConfigError",
        "EvalFileError",
        "EvaluatorError",
        "JudgeUnavailable",
        "MissingExtraError",
        "PluginError",
        "StorageError",
        "TargetError",
        "TemplateError",
        "UnknownNameError",
    ),
    "agentv.types.evaluation": (
        "EvaluationContext",
        "EvaluationResult",
        "EvaluationScore",
        "Evaluator",
        "EvaluatorResult",
        "PromptInputs",
    ),
    "agentv.types.evaluation_input": ("EvaluationInput",),
    "agentv.types.messages": ("Message", "ToolCall", "TraceEvent", "TraceSummary"),
    "agentv.types.provider": ("Provider", "ProviderError", "ProviderRequest", "ProviderResponse"),
    "agentv.types.results": ("CaseResult", "RunReport"),
    "agentv.types.scales": ("EvaluationCriteria",),
    "agentv.types.targets": ("ResolvedTarget", "TargetConfig"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME_OF, "__version__"])  # noqa: PLE0605 - sorted() makes a list; the names stand in the table


def __getattr__(name: str) -> object:
    """Import a public name from where it lives."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'agentv' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
