"""One opinion (a parsed verdict) of one judge: call the judge, parse the reply, call again if it has no verdict."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.evaluators.judges.prompts import FENCE_RULE, repair_lines, reply_line
from agentv.scoring.judge_replies.replies import JudgeReply, ReplyRules, UnusableReplyError
from agentv.scoring.keys.request_key import REPLACED
from agentv.scoring.results.completion import score_of_failure
from agentv.templating.variables import fill
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore, JudgeCall, JudgeRole
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.stored import rounded_ms
from agentv.types.targets import Unsigned

MAX_STORED_REPLY_CHARS = 2_000
"""The maximum number of characters of a reply without a verdict that are stored as reasoning."""

Opinion = TypeVar("Opinion", bound=JudgeReply)
T = TypeVar("T")


def make_nonce() -> str:
    """Return a new random text, which the system under test cannot know."""
    return secrets.token_hex(8)


class Judged(Protocol):
    """The material of one judge call: the values for its prompt, and the texts that the reply may quote."""

    @property
    def context(self) -> EvaluationContext:
        """The answer with everything known about it."""

    def quotable_texts(self) -> Iterable[str]:
        """Return the texts that a reply may quote; a JSON object in them is not the judge's verdict."""

    def fenced(self, nonce: str, template: str) -> Callable[[str], str | None]:
        """Return a function from a variable's name to its value; None if the prompt must not use that name.

        A value that the system under test wrote is fenced: enclosed in two lines with the nonce.
        """


class JudgeMode(Protocol[Opinion]):
    """A kind of judgement: the reply format it requires, and how a reply is parsed and scored."""

    @property
    def instructions(self) -> str:
        """The default opening of the system prompt."""

    @property
    def section(self) -> str:
        """The text appended to the user prompt; may be empty."""

    @property
    def schema(self) -> JsonObject:
        """The format of the reply as a JSON Schema."""

    @property
    def allowed_scores(self) -> str:
        """The scores that the reply may give; may be empty."""

    @property
    def contract(self) -> str:
        """The format of the reply in words, without the nonce that the reply must repeat."""

    def parse(self, reply: str, rules: ReplyRules) -> Opinion:
        """Return the verdict in a reply. Raises UnusableReplyError."""

    def scored(self, opinions: tuple[Opinion, ...]) -> EvaluationScore:
        """Return the score of one opinion, or the common score of several."""

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:
        """Return a result with the error `message` for each criterion; () if the evaluator's own error is enough."""


class PromptPair(Struct, frozen=True):
    """The two prompts of a judge call, and the nonce they share."""

    user: str
    system: str
    nonce: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return the prompts and the nonce as they are stored with a result; `tests/seeds/` requires these keys."""
        return {"userPrompt": self.user, "systemPrompt": self.system, "nonce": self.nonce}


class JudgeOptions(Struct, frozen=True):
    """Options of judge calls.

    `template` is the user prompt; `is_custom` is True if the user or the user's script wrote it. With `is_literal`, its
    variables are not filled in. `variables` are further values for a custom template. `nonce` returns a new random
    text for each call, `timer` the time in seconds. `system_prompt` replaces the instructions of the mode.
    `unsigned="accept"`, here or in the judge's target, accepts a verdict without the nonce of its call.
    """

    template: str
    is_custom: bool
    nonce: Callable[[], str]
    timer: Callable[[], float]
    model: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    unsigned: Unsigned = "error"
    is_literal: bool = False
    variables: Mapping[str, JsonValue] = {}
    system_prompt: str | None = None


class JudgeOutcome(Struct, Generic[Opinion], frozen=True):
    """The outcome of calling one judge: its opinion and the score of that opinion alone, or a failure.

    A judge is called a second time if its first reply has no usable verdict. `prompts` are those of the first call.
    `calls` are the calls that got a reply. `unread` is the last reply if it has no usable verdict either. With a
    failure, `score` is that of a verdict whose scores are not on their scale, None if there was no verdict.
    """

    prompts: PromptPair
    calls: tuple[JudgeCall, ...]
    opinion: Opinion | None = None
    score: EvaluationScore | None = None
    failure: Failure | None = None
    unread: str | None = None


def failed_judgement(failure: Failure, unread: str | None, score: EvaluationScore | None = None) -> EvaluationScore:
    """Return the score of a judge that failed. `unread` is its last reply; None if the provider failed.

    With `unread`, hits and misses are empty, and `reasoning` has the first 2,000 characters of that reply (seed: Parse
    JSON evaluator response). `score` is that of a verdict off its scale: what the judge wrote is stored with the error.
    """
    if score is not None:
        number = score.score if score.clamped else 0.0
        return replace(score, score=number, verdict=None, must_fail=False, status="error", error=failure)
    failed = score_of_failure(failure)
    return failed if unread is None else replace(failed, misses=(), reasoning=unread[:MAX_STORED_REPLY_CHARS] or None)


_FUNCTION = "python"
"""The kind of a judge that is a function, which is not called again for a score off its scale."""


async def call_judge(
    provider: Provider, mode: JudgeMode[Opinion], judged: Judged, options: JudgeOptions, *, role: JudgeRole
) -> JudgeOutcome[Opinion]:
    """Call one judge, and once more if its reply has no usable verdict. Never raises ProviderError.

    A judge that fails, or gives no usable verdict in both calls, has an outcome with a failure. `role` is stored with
    the first call, `repair` with the second.
    """
    caller = _JudgeCaller(provider, mode, judged, options)
    prompts = _make_prompts(mode, judged, options)
    try:
        reply = await caller.call(prompts, role)
        if reply.problem and not (reply.opinion is not None and provider.kind == _FUNCTION):
            reply = await caller.call(_make_prompts(mode, judged, options, is_repair=True), "repair")
    except ProviderError as error:
        return JudgeOutcome(prompts, tuple(caller.calls), failure=_provider_failure(provider, error))
    calls = tuple(caller.calls)
    if not reply.problem:
        return JudgeOutcome(prompts, calls, reply.opinion, reply.score)
    attempts = " in two attempts" if len(calls) > 1 else ""
    subject = f"the judge {judge_name(provider)!r}{_why_own(provider, judged.context)}"
    message = f"{subject} gave no usable verdict{attempts}: its reply {reply.problem}"
    details: dict[str, JsonValue] = {"judge": judge_name(provider)}
    failure = Failure(kind="judge_error", message=message, stage="evaluator", details=details)
    return JudgeOutcome(prompts, calls, score=reply.score, failure=failure, unread=calls[-1].reply)


def _why_own(provider: Provider, context: EvaluationContext) -> str:
    """Return why the target itself judges, in parentheses; "" if a judge is set."""
    is_own = provider is context.judge_provider and provider is context.provider
    is_set = context.target.judge is not None
    return " (no judge is set; this is the target itself)" if is_own and not is_set else ""


class _Reply(Struct, Generic[Opinion], frozen=True):
    """One reply of a judge, with its opinion and the score of that opinion; both are None without a verdict.

    `problem` says why the verdict does not count, as the rest of a message "its reply …"; it is empty if it does.
    """

    response: ProviderResponse
    opinion: Opinion | None = None
    score: EvaluationScore | None = None
    problem: str = ""


class _JudgeCaller(Struct, Generic[Opinion]):
    """Calls one judge for one answer; `calls` are the calls that got a reply."""

    provider: Provider
    mode: JudgeMode[Opinion]
    judged: Judged
    options: JudgeOptions
    calls: list[JudgeCall] = field(default_factory=list)

    async def call(self, prompts: PromptPair, role: JudgeRole) -> _Reply[Opinion]:
        """Return the judge's reply to `prompts`, and store the call. Raises ProviderError."""
        started = self.options.timer()
        request = _request(prompts, self.mode, self.judged, self.options)
        reply = self._read(prompts, await self.provider.invoke(request))
        cached = reply.response.cached
        if reply.opinion is not None and reply.problem and cached is not None:  # a cached score off its scale
            request = replace(request, metadata={**request.metadata, REPLACED: cached.key})
            reply = self._read(prompts, await self.provider.invoke(request))
        duration_ms = (self.options.timer() - started) * 1000
        value = None if reply.score is None or reply.problem else reply.score.score
        self.calls.append(_to_call(self.provider, reply.response, role=role, score=value, duration_ms=duration_ms))
        return reply

    def _read(self, prompts: PromptPair, response: ProviderResponse) -> _Reply[Opinion]:
        rules = _reply_rules(self.provider, response, prompts, judged=self.judged, options=self.options)
        try:
            opinion = self.mode.parse(response.text, rules)
        except UnusableReplyError as error:
            return _Reply(response, problem=_cut_reason(response, self.options) or str(error))
        problem = "" if opinion.off_scale is None else f"gives a score that cannot be read: {opinion.off_scale}"
        return _Reply(response, opinion, self.mode.scored((opinion,)), problem)


_TOKEN_LIMIT_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "incomplete"})
"""The finish reasons of APIs for a reply that reached its token limit, in lower case."""


def _cut_reason(response: ProviderResponse, options: JudgeOptions) -> str | None:
    """Return the rest of the message "its reply …" if the reply was cut at its token limit, else None."""
    if (response.finish_reason or "").lower() not in _TOKEN_LIMIT_REASONS:
        return None
    limit = "" if options.max_output_tokens is None else f" of {options.max_output_tokens}"
    return f"was cut at its token limit{limit}; raise `max_output_tokens` of the evaluator or of the judge's target"


def _reply_rules(
    provider: Provider, response: ProviderResponse, prompts: PromptPair, judged: Judged, options: JudgeOptions
) -> ReplyRules:
    # A cached reply repeats the nonce of the original request.
    nonce = prompts.nonce if response.cached is None else response.cached.nonce or prompts.nonce
    target_unsigned = getattr(getattr(provider, "target", None), "unsigned", "error")
    accepts_unsigned = options.unsigned == "accept" or target_unsigned == "accept"
    # A provider object given from Python counts as a program, not a model, unless it has `is_code = False`.
    is_code = bool(getattr(provider, "is_code", True))
    return ReplyRules(nonce, judged.quotable_texts(), is_code=is_code, accepts_unsigned=accepts_unsigned)


async def run_concurrently(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of coroutines, in order. The first exception cancels the other coroutines and is raised."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each) for each in coroutines]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [task.result() for task in running]


def require_judge(provider: Provider | None, context: EvaluationContext) -> Provider:
    """Return `provider`. If it is None, raises EvaluatorError with advice on how to configure a judge."""
    if provider is None:
        raise EvaluatorError(
            f"no judge is configured for target {context.target.name!r}; name one with `judge:` in the target, the "
            "eval file or the evaluator",
            kind="judge_error",
        )
    return provider


def judge_name(provider: Provider) -> str:
    """Return a judge's name: that of its target if it has one, else its kind."""
    name = getattr(getattr(provider, "target", None), "name", None)
    return name if isinstance(name, str) else provider.kind


def _make_prompts(
    mode: JudgeMode[Opinion], judged: Judged, options: JudgeOptions, *, is_repair: bool = False
) -> PromptPair:
    """Return the prompts of one call, with a new nonce.

    The system prompt is the same for all calls of an evaluator, so that model APIs can cache it. It opens with the
    `system_prompt` of the options, else with that of the context. Without one, it opens with the instructions of the
    mode, or has no opening if the user prompt is custom. It ends with the reply contract. The user prompt ends with the
    nonce. A repair request is a fresh one, which does not mention the reply before it: a JSON Schema replaces the
    contract.
    """
    nonce = options.nonce()
    text = options.template
    if not options.is_literal:
        text = fill(text, judged.fenced(nonce, text), options.variables)
    format_lines = (repair_lines(mode.schema, mode.allowed_scores),) if is_repair else ()
    user = "\n\n".join((text + mode.section, *format_lines, reply_line(mode.schema, nonce, mode.allowed_scores)))
    own_opening = "" if options.is_custom else mode.instructions
    opening = options.system_prompt or judged.context.system_prompt or own_opening
    system = "\n\n".join(filter(None, (opening, FENCE_RULE if is_repair else mode.contract)))
    return PromptPair(user=user, system=system, nonce=nonce)


def _request(prompts: PromptPair, mode: JudgeMode[Opinion], judged: Judged, options: JudgeOptions) -> ProviderRequest:
    return ProviderRequest(
        question=prompts.user,
        system_prompt=prompts.system,
        eval_case_id=judged.context.eval_case.id,
        model=options.model or judged.context.judge_model,
        temperature=options.temperature,
        max_output_tokens=options.max_output_tokens,
        response_schema=mode.schema,
        # The cache removes the nonce from the prompts before it computes a key, so it must know the nonce.
        metadata={"nonce": prompts.nonce},
    )


def _provider_failure(provider: Provider, error: ProviderError) -> Failure:
    return Failure(
        kind="judge_error",
        message=f"the judge {judge_name(provider)!r} did not answer: {error.failure.message}",
        stage="evaluator",
        retryable=error.failure.retryable,
        http_status=error.failure.http_status,
        details={"cause": error.failure.kind, "judge": judge_name(provider)},
    )


def _to_call(
    provider: Provider, response: ProviderResponse, *, role: JudgeRole, score: float | None, duration_ms: float
) -> JudgeCall:
    return JudgeCall(
        judge=judge_name(provider),
        role=role,
        reply=response.text,
        score=score,
        usage=response.usage,
        cost_usd=response.cost_usd,
        duration_ms=rounded_ms(duration_ms if response.cached is None else response.cached.duration_ms),
        cached=response.cached is not None,
        estimated=response.estimated,
    )
