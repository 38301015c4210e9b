"""The public names, for type checkers; `__init__.py` imports them when they are used."""

from agentv.api import evaluate as evaluate, evaluate_async as evaluate_async
from agentv.evaluators import EVALUATOR_KIND_VALUES as EVALUATOR_KIND_VALUES, EvaluatorKind as EvaluatorKind, build_evaluator_registry as build_evaluator_registry, is_evaluator_kind as is_evaluator_kind
from agentv.evaluators.code_judge import CodeEvaluator as CodeEvaluator, CodeEvaluatorOptions as CodeEvaluatorOptions
from agentv.evaluators.composite import CompositeEvaluator as CompositeEvaluator
from agentv.evaluators.llm_judge import LlmJudgeEvaluator as LlmJudgeEvaluator, LlmJudgeEvaluatorOptions as LlmJudgeEvaluatorOptions, PromptEvaluator as PromptEvaluator
from agentv.evaluators.tool_trajectory import ToolTrajectoryEvaluator as ToolTrajectoryEvaluator
from agentv.loading import load_suite as load_suite, load_targets as load_targets
from agentv.pipeline.evaluators_for_case import run_evaluators_for_case as run_evaluators_for_case
from agentv.pipeline.plugins import evaluator as evaluator, provider as provider
from agentv.scoring.traces import summarize_trace as summarize_trace
from agentv.types.cases import EvalCase as EvalCase, EvalSuite as EvalSuite, EvaluatorConfig as EvaluatorConfig
from agentv.types.errors import AgentvError as AgentvError, ConfigError as ConfigError, EvalFileError as EvalFileError, EvaluatorError as EvaluatorError, MissingExtraError as MissingExtraError, PluginError as PluginError, ProviderError as ProviderError, StorageError as StorageError, TargetError as TargetError, TemplateError as TemplateError, UnknownNameError as UnknownNameError
from agentv.types.evaluation import EvaluationContext as EvaluationContext, EvaluationResult as EvaluationResult, EvaluationScore as EvaluationScore, Evaluator as Evaluator, EvaluatorResult as EvaluatorResult
from agentv.types.messages import Message as Message, ToolCall as ToolCall, TraceEvent as TraceEvent, TraceSummary as TraceSummary
from agentv.types.provider import Provider as Provider, ProviderRequest as ProviderRequest, ProviderResponse as ProviderResponse
from agentv.types.results import CaseResult as CaseResult, RunReport as RunReport
from agentv.types.scales import EvaluationCriteria as EvaluationCriteria
from agentv.types.targets import ResolvedTarget as ResolvedTarget, TargetConfig as TargetConfig
from agentv.version import __version__ as __version__
