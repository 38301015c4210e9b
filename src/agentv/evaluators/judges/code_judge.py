"""`code_judge`: a user's script or Python function as judge. The class for scripts is CodeEvaluator."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

from msgspec import Meta, Struct, field

from agentv.evaluators.judges.contracts import CONTRACT_HELP, Contract, allows_assertions, payload_for, read_outcome
from agentv.evaluators.named_files import function_files, script_files
from agentv.evaluators.rules.base import judged_text
from agentv.execution.backends.workers import WorkerPool
from agentv.execution.processes.process import MAX_OUTPUT_BYTES, Command, Outcome, run_process
from agentv.scoring.judge_replies.json_objects import last_object
from agentv.scoring.judge_replies.replies import parse_code_reply
from agentv.scoring.keys.identity import criterion_to_json
from agentv.scoring.results.completion import score_of_failure
from agentv.scoring.results.sources import expected_answer
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, Evaluator
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_to_json, trace_summary_to_json, trace_to_json
from agentv.types.protocols import EvaluatorTools
from agentv.types.structs import make_options


class CodeEvaluatorOptions(Struct, frozen=True):
    """Options of a CodeEvaluator that is created in Python code (seed REQ-EVAL-003).

    `script` is a command for the shell, or an argument list run without one. `cwd` is where it runs (default: the
    working directory). `agent_timeout_ms` is its time limit in milliseconds. `config` is passed to the script as it is.
    `source` is the path of the judged text, and `contract` selects the keys of the JSON.
    """

    script: str | tuple[str, ...] | list[str]
    cwd: str | None = None
    agent_timeout_ms: float | None = None
    config: JsonObject = field(default_factory=dict)
    source: str = "response"
    contract: Contract = "agentv"


class CodeEvaluatorKeywords(TypedDict, total=False):
    """The keywords of CodeEvaluator: the fields of CodeEvaluatorOptions."""

    script: str | tuple[str, ...] | list[str]
    cwd: str | None
    agent_timeout_ms: float | None
    config: JsonObject
    source: str
    contract: Contract


class CodeEvaluator:
    """A judge that runs a script with the case as JSON on standard input; the last JSON object printed is the score.

    Takes an options object or a dict, keywords of the same names, or both.

    >>> CodeEvaluator(script="python check.py", agent_timeout_ms=30_000).kind
    'code'
    """

    kind = "code"

    def __init__(
        self,
        options: CodeEvaluatorOptions | Mapping[str, Any] | None = None,
        /,
        **keywords: Unpack[CodeEvaluatorKeywords],
    ) -> None:
        self.options = make_options(CodeEvaluatorOptions, options, keywords)

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Judge an answer. A script that fails, hangs or prints no usable JSON scores 0, its error in `misses`."""
        options = self.options
        timeout_s = None if options.agent_timeout_ms is None else options.agent_timeout_ms / 1000
        try:
            payload = judge_payload(context, config=options.config, source=options.source)
            payload = payload_for(options.contract, payload, context)
            if allows_assertions(options.contract):
                env = {} if context.workspace_path is None else {"AGENTV_WORKSPACE_PATH": context.workspace_path}
                outcome = await script_outcome(options.script, payload, cwd=options.cwd, timeout_s=timeout_s, env=env)
                return read_outcome(outcome)
            answer = await run_script(options.script, payload, cwd=options.cwd, timeout_s=timeout_s)
            return parse_code_reply(answer, context.criteria)
        except EvaluatorError as error:
            return score_of_failure(error.failure)


class PythonEvaluator(Struct, frozen=True):
    """A judge that calls a Python function in a warm worker process, with the payload that a script would get.

    `reference` names the function, as `path.py:function` or `package.module:function`.
    """

    reference: str
    config: EvaluatorConfig
    settings: "CodeJudgeSettings"
    tools: EvaluatorTools
    kind: str = "code"

    async def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Judge an answer. A function that raises, hangs or returns no usable value scores 0, its error in `misses`."""
        try:
            answer = await self._call(context)
            return parse_code_reply(answer, context.criteria)
        except EvaluatorError as error:
            return score_of_failure(error.failure)

    async def _call(self, context: EvaluationContext) -> JsonValue:
        base_dir = str(working_folder(self.settings.cwd, self.config.base_dir))
        make_pool = partial(WorkerPool, self.reference, base_dir)
        pool = await self.tools.shared.get(f"code_judge {base_dir} {self.reference}", make_pool)
        payload = judge_payload(context, config=self.settings.config, source=self.config.source)
        payload = payload_for(self.settings.contract, payload, context)
        return await pool.call(payload, timeout_s=self.settings.timeout_seconds)


async def run_script(
    script: str | tuple[str, ...] | list[str], payload: JsonObject, *, cwd: str | None, timeout_s: float | None
) -> JsonObject:
    """Run a script with `payload` on its standard input and return the last JSON object it printed.

    Raises EvaluatorError, with the end of its standard error, when the script fails or prints no JSON object.
    """
    outcome = await script_outcome(script, payload, cwd=cwd, timeout_s=timeout_s)
    if outcome.exit_code != 0:
        raise EvaluatorError(f"the script ended with exit code {outcome.exit_code}{_stderr_suffix(outcome)}")
    answer = last_object(outcome.stdout.decode("utf-8", "replace"))
    if answer is None:
        raise EvaluatorError(f"the script printed no JSON object{_output_suffix(outcome)}")
    return answer


async def text_of_script(
    script: str | tuple[str, ...], payload: JsonObject, *, cwd: str | None, timeout_s: float | None = None
) -> str:
    """Run a script with `payload` on its standard input and return the text it printed.

    Raises EvaluatorError when the script fails or prints nothing.
    """
    outcome = await script_outcome(script, payload, cwd=cwd, timeout_s=timeout_s)
    if outcome.exit_code != 0:
        raise EvaluatorError(f"the script ended with exit code {outcome.exit_code}{_stderr_suffix(outcome)}")
    text = outcome.stdout.decode("utf-8", "replace").strip()
    if not text:
        raise EvaluatorError(f"the script printed nothing{_stderr_suffix(outcome)}")
    return text


async def script_outcome(
    script: str | tuple[str, ...] | list[str],
    payload: JsonObject,
    *,
    cwd: str | None,
    timeout_s: float | None,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a script with `payload` on its standard input and return its outcome, whatever its exit code.

    Raises EvaluatorError when the script cannot be started, does not end in time or prints too much.
    """
    stdin = json.dumps(payload, default=_dict_or_list).encode()
    argv, shell = ((), script) if isinstance(script, str) else (tuple(script), None)
    command = Command(argv=argv, shell=shell, cwd=cwd, stdin=stdin, env=env or None)
    try:
        outcome = await run_process(command, timeout_s=timeout_s)
    except (OSError, ValueError) as error:
        raise EvaluatorError(f"the script cannot be started: {error}") from error
    _check_outcome(outcome, timeout_s)
    return outcome


def _dict_or_list(value: object) -> object:
    """Return a mapping as dict, a sequence as list."""
    return dict(value) if isinstance(value, Mapping) else list(value)  # type: ignore[call-overload]  # json itself encodes all else


def _check_outcome(outcome: Outcome, timeout_s: float | None) -> None:
    if outcome.timed_out:
        raise EvaluatorError(f"the script did not end within {timeout_s:g} s{_stderr_suffix(outcome)}", kind="deadline")
    if outcome.too_large:
        limit = MAX_OUTPUT_BYTES // 2**20
        raise EvaluatorError(f"the script printed more than {limit} MiB", kind="too_large")


def _stderr_suffix(outcome: Outcome) -> str:
    text = outcome.stderr.strip()
    return f": {text}" if text else ""


def _output_suffix(outcome: Outcome) -> str:
    text = outcome.stdout.decode("utf-8", "replace").strip()
    return f"; it printed: {text[:200]}" if text else _stderr_suffix(outcome)


def judge_payload(context: EvaluationContext, *, config: JsonObject, source: str = "response") -> dict[str, JsonValue]:
    """Return the JSON payload of a code judge (docs/reference/evaluators/code_judge.md)."""
    case, prompt = context.eval_case, context.prompt_inputs
    return {
        "question": prompt.question,
        "expected_outcome": case.expected_outcome,
        "expected_messages": messages_to_json(case.expected_messages),
        "reference_answer": expected_answer(context),
        "candidate_answer": judged_text(context, source),
        "output_messages": messages_to_json(context.output_messages),
        "guideline_files": prompt.guideline_paths,
        "input_files": prompt.file_paths,
        "input_messages": messages_to_json(case.input_messages),
        "candidate_trace": trace_to_json(context.candidate_trace),
        "candidate_trace_summary": trace_summary_to_json(context.candidate_trace_summary),
        "criteria": [criterion_to_json(criterion) for criterion in context.criteria],
        "metadata": {**case.metadata, **context.metadata},
        "config": config,
        "workspace_path": context.workspace_path,
    }


class CodeJudgeSettings(Struct, frozen=True):
    """Settings of `code_judge`."""

    script: Annotated[
        str | tuple[str, ...] | None,
        Meta(description="a command for the shell, or a list of arguments; it reads JSON and prints JSON"),
    ] = None
    python: Annotated[
        str | None, Meta(description="path.py:function or package.module:function, called in a warm process")
    ] = None
    cwd: Annotated[str | None, Meta(description="the working directory; default: the eval file's folder")] = None
    timeout_seconds: Annotated[float | None, Meta(description="time limit in seconds")] = None
    config: Annotated[Mapping[str, JsonValue], Meta(description="any values for the script, passed on as `config`")] = (
        field(default_factory=dict)
    )
    contract: Annotated[Contract, Meta(description=CONTRACT_HELP)] = "agentv"

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of `script` and `python` is given, and it is usable."""
        if (self.script is None) == (self.python is None):
            raise ValueError("a code judge needs exactly one of `script` and `python`")
        command = self.script.strip() if isinstance(self.script, str) else self.script
        if command is not None and not command:
            raise ValueError("`script` must not be empty")
        if self.python is not None and ":" not in self.python:
            raise ValueError("`python` must be path.py:function or package.module:function")
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise ValueError("`timeout_seconds` must be more than 0")

    @property
    def criteria_from_results(self) -> bool:
        """True, as the reply may name criteria."""
        return True

    def code_files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files that must exist: the script, or the function's module."""
        folder = working_folder(self.cwd, base_dir)
        if self.python is not None:
            return function_files(self.python, folder)
        return script_files(self.script or (), folder)


def make_code_judge(config: EvaluatorConfig, settings: CodeJudgeSettings, tools: EvaluatorTools) -> Evaluator:
    """Return a `code_judge` evaluator: a new one for each case and evaluator (seed REQ-EVAL-007)."""
    if settings.python is not None:
        return PythonEvaluator(settings.python, config, settings, tools)
    return CodeEvaluator(
        script=settings.script or (),
        cwd=str(working_folder(settings.cwd, config.base_dir)),
        agent_timeout_ms=None if settings.timeout_seconds is None else settings.timeout_seconds * 1000,
        config=settings.config,
        source=config.source,
        contract=settings.contract,
    )


def working_folder(cwd: str | None, base_dir: str) -> Path:
    """Return the working directory of a script: `cwd` relative to `base_dir`, or `base_dir` itself."""
    return Path(base_dir) if not cwd else Path(base_dir, cwd)
