"""The result of one case: a line of results.jsonl."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, Self, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr

from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.messages import StoredMessages, TraceEvent, TraceSummary
from agentv.types.records.answer import AnswerRef, Origin, Partial, Rerun, ResultKey
from agentv.types.stored import RESULT_SCHEMA, StoredDuration, StoredGeneration, StoredScore, always
from agentv.types.usage import StoredCost, StoredCount, Usage
from agentv.types.views import Line, View, escape, one_line, reason_of, score_text, view_html, view_of, view_text

RowStatus: TypeAlias = Literal["pass", "fail", "error", "skipped"]


class Spent(Struct, frozen=True, omit_defaults=True, gc=False):
    """The usage and cost of the target or the judges of a row; each field is None when it is not known."""

    input: StoredCount | None = None
    output: StoredCount | None = None
    cached_input: StoredCount | None = None
    reasoning: StoredCount | None = None
    total: StoredCount | None = None
    requests: StoredCount | None = None
    cost_usd: StoredCost | None = None
    estimated: bool = False
    """True if a part of the usage and cost was estimated from texts."""

    @classmethod
    def of(cls, usage: Usage | None, cost_usd: float | None, *, estimated: bool = False) -> Self | None:
        """Return a usage together with its cost; None when neither is known."""
        if usage is None:
            return None if cost_usd is None else cls(cost_usd=cost_usd, estimated=estimated)
        return cls(
            input=usage.input,
            output=usage.output,
            cached_input=usage.cached_input,
            reasoning=usage.reasoning,
            total=usage.total,
            requests=usage.requests,
            cost_usd=cost_usd,
            estimated=estimated,
        )

    @property
    def usage(self) -> Usage | None:
        """The tokens; None when they are not known."""
        if self.input is None:
            return None
        return Usage(
            input=self.input,
            output=self.output or 0,
            cached_input=self.cached_input or 0,
            reasoning=self.reasoning or 0,
            total=self.total or 0,
            requests=self.requests or 0,
        )


class UsageBy(Struct, frozen=True, omit_defaults=True, gc=False):
    """The usage and cost of the target and the judges of a row."""

    target: Spent | None = None
    judge: Spent | None = None

    @classmethod
    def of(cls, target: Spent | None = None, judge: Spent | None = None) -> Self | None:
        """Return the usage of both; None when neither is known."""
        return None if target is None and judge is None else cls(target, judge)


_NO_SLOT = ResultKey("", "", "")


class CaseResult(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The result of one case with one target in one trial, as every store saves it."""

    schema: str = always(RESULT_SCHEMA)
    run_id: str
    seq: int | None = None
    slot: ResultKey = always(_NO_SLOT)
    """The position in the plan; `eval_id`, `suite`, `target`, `trial` and `prompt` repeat it for people who read the
    file.
    """
    answer_key: str = ""
    score_keys: Mapping[str, str] = field(default_factory=dict, name="score_key")
    answer_ref: AnswerRef | None = None
    timestamp: datetime
    eval_id: str = always("")
    suite: str = always("")
    dataset: str
    conversation_id: str | None = None
    session_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    target: str = always("")
    trial: int = always(0)
    prompt: str | None = None
    attempt: int = always(0)
    generation: StoredGeneration = always(0)
    rerun: Rerun | None = None
    """Set if the answer is a further one of its slot: the row is shown, but changes no count, rate, mean or gate."""
    rescored: StoredGeneration = 0
    """How often the answer was judged again."""
    status: RowStatus
    """Strict: `pass` only for the score 1.0. It is `error` if an evaluator that is required or has weight could not
    judge the answer: the row then has a score but no verdict, and is excluded from every rate and mean.
    """
    score: StoredScore | None
    """None if the answer was not judged."""
    verdict: Verdict | None
    """The quality band, which gates use; None if the answer was not judged."""
    hits: tuple[str, ...] = always(())
    misses: tuple[str, ...] = always(())
    reasoning: str | None = None
    expected_aspect_count: int = always(0)
    raw_aspects: tuple[str, ...] | None = None
    candidate_answer: str = always("")
    empty_answer: bool = False
    """True if the target answered nothing but white space."""
    answered_by: str | None = None
    """The fallback target that answered instead."""
    evaluator_results: tuple[EvaluatorResult, ...] = always(())
    trace_summary: TraceSummary | None = None
    trace: tuple[TraceEvent, ...] | None = None
    output_messages: StoredMessages | None = None
    agent_provider_request: JsonObject | None = None
    lm_provider_request: JsonObject | None = None
    usage_by: UsageBy | None = None
    cost_usd: StoredCost | None = None
    duration_ms: StoredDuration | None = None
    cached: bool = always(False)
    error: Failure | None = None
    partial: Partial | None = None
    """The output of a target that failed."""
    single_form: bool = False
    """True if the case used the older one-evaluator form, for which exports write the evaluator's fields into the row
    itself.
    """
    file: str = ""
    line: int = 0
    part: int = 1
    """The number of the answer in its line of a log, from 1."""
    line_digest: str = ""
    """A hash of the content of the line in the log."""
    trace_id: str = ""
    """`trace_id` and `span_id` are those of the span that a logged answer was read from."""
    span_id: str = ""

    def __post_init__(self) -> None:
        """Copy the fields of `slot` to the row; if there is none, as in an exported row, build it from these fields."""
        slot = self.slot
        if slot is _NO_SLOT:
            slot = ResultKey(self.suite, self.eval_id, self.target, trial=self.trial, prompt=self.prompt)
            force_setattr(self, "slot", slot)
            return
        is_copied = self.eval_id is slot.eval_id and self.target is slot.target and self.suite is slot.suite
        if is_copied and self.trial == slot.trial and self.prompt == slot.prompt:
            return  # rows are copied often, and a copy needs no change (bench/echo_cases.py)
        force_setattr(self, "suite", slot.suite)
        force_setattr(self, "eval_id", slot.eval_id)
        force_setattr(self, "target", slot.target)
        force_setattr(self, "trial", slot.trial)
        force_setattr(self, "prompt", slot.prompt)

    @property
    def session(self) -> str | None:
        """The session of the row, None if not known. Rows of one session are not independent."""
        return self.session_id or self.conversation_id

    @property
    def origin(self) -> Origin | None:
        """Where the answer was read from, else what its case was made from; None if neither was read from a log.

        A line of a log, a span, or what the metadata has under `origin`, else under `trace_id` and `span_id`.
        """
        is_failed_span = bool(self.span_id) and self.error is not None and self.error.stage == "load"
        if self.line_digest or is_failed_span:
            return Origin(self.file, self.line, self.part, self.line_digest, self.trace_id, self.span_id)
        own = {name: each for name, each in (("trace_id", self.trace_id), ("span_id", self.span_id)) if each}
        named = self.metadata.get(ORIGIN)
        if isinstance(named, Mapping):
            return Origin.from_json({**named, **own})
        return Origin.from_json(own or {name: self.metadata.get(name) for name in ("trace_id", "span_id")})

    @property
    def passed(self) -> bool | None:
        """True if the verdict is `pass` and there is no error; None if no evaluator reached a verdict."""
        if self.verdict is None and not any(each.passed is not None for each in self.evaluator_results):
            return None
        return self.verdict == "pass" and self.error is None

    @property
    def failures(self) -> tuple[EvaluatorResult, ...]:
        """The results of evaluators that did not pass the answer or could not judge it; none of skipped ones."""
        return tuple(each for each in self.evaluator_results if each.passed is not True and each.status != "skipped")

    @property
    def judged_score(self) -> float | None:
        """The score; None for an error, whose score counts the evaluator that failed as 0."""
        return None if self.status == "error" else self.score

    def _view(self) -> View:
        state = "error" if self.status == "error" else self.verdict or self.status
        place = " · ".join(filter(None, (self.eval_id, self.target, self.prompt)))
        trial = f" · trial {self.trial}" if self.trial else ""
        heading = f"{state.upper()} {score_text(self.judged_score)} {place}{trial}"
        if self.error is not None:
            heading = f"{heading}: {one_line(self.error.message)}"
        failures = self.failures
        shown = [each for each in self.evaluator_results if each not in failures]
        return view_of(state, heading, map(_line_of, (*failures, *shown)))

    def __str__(self) -> str:
        """Return the verdict, and the first evaluators with their reasons; failures come first."""
        return view_text(self._view())

    def _repr_html_(self) -> str:
        """Return the text of `str` as an HTML table, with the answer, for notebooks."""
        answer = f"<p>answer: {escape(one_line(self.candidate_answer))}</p>" if self.candidate_answer else ""
        return view_html(self._view()) + answer

    @property
    def answer_seq(self) -> int | None:
        """The `seq` of the row's stored answer; None when there is none."""
        return None if self.answer_ref is None else self.answer_ref.seq

    @property
    def target_usage(self) -> Usage | None:
        """The tokens of the target; None when they are not known."""
        return None if self.usage_by is None or self.usage_by.target is None else self.usage_by.target.usage

    @property
    def judge_usage(self) -> Usage | None:
        """The tokens of the judges; None when they are not known."""
        return None if self.usage_by is None or self.usage_by.judge is None else self.usage_by.judge.usage

    @property
    def target_cost_usd(self) -> float | None:
        """The cost of the target; None when it is not known."""
        return None if self.usage_by is None or self.usage_by.target is None else self.usage_by.target.cost_usd

    @property
    def is_target_estimated(self) -> bool:
        """True if a part of the target's usage and cost was estimated."""
        return self.usage_by is not None and self.usage_by.target is not None and self.usage_by.target.estimated

    @property
    def is_judge_estimated(self) -> bool:
        """True if a part of the judges' usage and cost was estimated."""
        return self.usage_by is not None and self.usage_by.judge is not None and self.usage_by.judge.estimated

    @property
    def judge_cost_usd(self) -> float | None:
        """The cost of the judges; None when it is not known."""
        return None if self.usage_by is None or self.usage_by.judge is None else self.usage_by.judge.cost_usd


def _line_of(result: EvaluatorResult) -> Line:
    failure = result.error
    state = "error" if failure is not None else result.verdict or result.status
    score = None if failure is not None else result.score
    reason = reason_of(result.reasoning, result.misses, None if failure is None else failure.message)
    return Line(state, result.name, score, reason)


_KEYS_NOT_EXPORTED = frozenset(
    "seq slot answer_key score_key answer_ref single_form file line part line_digest trace_id span_id".split()  # noqa: SIM905 - a list of words
)
ORIGIN = "origin"
"""The key of the place that a row was read from, in exports and in metadata."""
REQUEST = "evaluator_provider_request"
"""The key of the request to a judge."""
RAW_REQUEST = "evaluator_raw_request"
"""Its other key in exports, which the seeds have as well."""


def _export_keys() -> Iterator[str]:
    for key in CaseResult.__struct_encode_fields__:
        if key not in _KEYS_NOT_EXPORTED:
            yield key
        if key == "evaluator_results":
            yield from (REQUEST, RAW_REQUEST, "evaluator_error")
    yield ORIGIN


EXPORT_KEYS = tuple(_export_keys())
"""All keys of an exported row, in order; a row has only those that have a value."""
