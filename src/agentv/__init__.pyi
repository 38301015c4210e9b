# The public names for type checkers; __init__.py imports them when they are used.
from agentv.api import (
    evaluate as evaluate,
)
from agentv.api import (
    evaluate_async as evaluate_async,
)
from agentv.api import (
    load_suite as load_suite,
)
from agentv.api import (
    load_targets as load_targets,
)
from agentv.evaluators import (
    EVALUATOR_KIND_VALUES as EVALUATOR_KIND_VALUES,
)
from agentv.evaluators import (
    EvaluatorKind as EvaluatorKind,
)
from agentv.evaluators import (
    is_evaluator_kind as is_evaluator_kind,
)
from agentv.evaluators.code_judge import (
    CodeEvaluator as CodeEvaluator,
)
from agentv.evaluators.code_judge import (
    CodeEvaluatorOptions as CodeEvaluatorOptions,
)
from agentv.evaluators.composite import (
    CompositeEvaluator as CompositeEvaluator,
)
from agentv.evaluators.llm_judge import (
    LlmJudgeEvaluator as LlmJudgeEvaluator,
)
from agentv.evaluators.llm_judge import (
    LlmJudgeEvaluatorOptions as LlmJudgeEvaluatorOptions,
)
from agentv.evaluators.llm_judge import (
    PromptEvaluator as PromptEvaluator,
)
from agentv.evaluators.registry import (
    build_evaluator_registry as build_evaluator_registry,
)
from agentv.evaluators.tool_trajectory import (
    ToolTrajectoryEvaluator as ToolTrajectoryEvaluator,
)
from agentv.pipeline.evaluators_for_case import (
    run_evaluators_for_case as run_evaluators_for_case,
)
from agentv.pipeline.plugins import (
    evaluator as evaluator,
)
from agentv.pipeline.plugins import (
    provider as provider,
)
from agentv.scoring.agreement import (
    cohen_kappa as cohen_kappa,
)
from agentv.scoring.agreement import (
    krippendorff_alpha as krippendorff_alpha,
)
from agentv.scoring.agreement import (
    weighted_kappa as weighted_kappa,
)
from agentv.scoring.traces import (
    summarize_trace as summarize_trace,
)
from agentv.types.cases import (
    EvalCase as EvalCase,
)
from agentv.types.cases import (
    EvalSuite as EvalSuite,
)
from agentv.types.cases import (
    EvaluatorConfig as EvaluatorConfig,
)
from agentv.types.errors import (
    AgentvError as AgentvError,
)
from agentv.types.errors import (
    ConfigError as ConfigError,
)
from agentv.types.errors import (
    EvalFileError as EvalFileError,
)
from agentv.types.errors import (
    EvaluatorError as EvaluatorError,
)
from agentv.types.errors import (
    MissingExtraError as MissingExtraError,
)
from agentv.types.errors import (
    PluginError as PluginError,
)
from agentv.types.errors import (
    ProviderError as ProviderError,
)
from agentv.types.errors import (
    StorageError as StorageError,
)
from agentv.types.errors import (
    TargetError as TargetError,
)
from agentv.types.errors import (
    TemplateError as TemplateError,
)
from agentv.types.errors import (
    UnknownNameError as UnknownNameError,
)
from agentv.types.evaluation import (
    EvaluationContext as EvaluationContext,
)
from agentv.types.evaluation import (
    EvaluationResult as EvaluationResult,
)
from agentv.types.evaluation import (
    EvaluationScore as EvaluationScore,
)
from agentv.types.evaluation import (
    Evaluator as Evaluator,
)
from agentv.types.evaluation import (
    EvaluatorResult as EvaluatorResult,
)
from agentv.types.messages import (
    Message as Message,
)
from agentv.types.messages import (
    ToolCall as ToolCall,
)
from agentv.types.messages import (
    TraceEvent as TraceEvent,
)
from agentv.types.messages import (
    TraceSummary as TraceSummary,
)
from agentv.types.provider import (
    Provider as Provider,
)
from agentv.types.provider import (
    ProviderRequest as ProviderRequest,
)
from agentv.types.provider import (
    ProviderResponse as ProviderResponse,
)
from agentv.types.results import (
    CaseResult as CaseResult,
)
from agentv.types.results import (
    RunReport as RunReport,
)
from agentv.types.scales import (
    EvaluationCriteria as EvaluationCriteria,
)
from agentv.types.targets import (
    ResolvedTarget as ResolvedTarget,
)
from agentv.types.targets import (
    TargetConfig as TargetConfig,
)
from agentv.version import __version__ as __version__

__all__: list[str]  # noqa: PYI035 - made from the table in __init__.py
