"""What is kept of a run: answers, rows, and the report over them (formats.md, section 4)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.types.baselines import BaselineSummary
from agentv.types.calibrations import CorrectedRate
from agentv.types.evaluation import EvaluatorResult, Verdict
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, TraceEvent, TraceSummary
from agentv.types.provider import CallRecord
from agentv.types.struct_fields import repr_without
from agentv.types.summaries import EvaluatorSummary, GroupSummary, TargetSummary
from agentv.types.usage import Usage

RowStatus: TypeAlias = Literal["pass", "fail", "error", "skipped"]


class Slot(Struct, frozen=True, gc=False):
    """Where a row belongs in a plan: suite path, case id, target name, trial (from 0)."""

    suite: str
    eval_id: str
    target: str
    trial: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        """Return the place as records and reports write it."""
        return {"suite": self.suite, "eval_id": self.eval_id, "target": self.target, "trial": self.trial}


class Answer(Struct, frozen=True):
    """What a target returned for one slot, or why it did not (`error` set, `text` empty).

    `attempt` is the number of the last repeat of the whole call, from 0. `cost_usd` is None when no price is known.
    `repaired` says that lone surrogates were replaced in its texts.
    """

    slot: Slot
    answer_key: str
    text: str
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    kind: Literal["answer", "turn"] = "answer"
    generation: int = 0
    attempt: int = 0
    output_messages: tuple[Message, ...] | None = None
    trace: tuple[TraceEvent, ...] | None = None
    finish_reason: str | None = None
    session: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    billed_usd: float | None = None
    first_token_ms: float | None = None
    calls: tuple[CallRecord, ...] = ()
    cached: JsonObject | None = None
    workspace: JsonObject | None = None
    exit_code: int | None = None
    log_paths: tuple[str, ...] = ()
    request: JsonObject | None = None
    error: Failure | None = None
    repaired: bool = False
    seq: int | None = None


class CaseResult(Struct, frozen=True):
    """One attempt at one case: the record that every store keeps.

    `status` is strict (`pass` iff the score is 1.0), `verdict` is the quality band that gates use. Both judge fields
    are None for a row with `status: error` at stage target; a row whose evaluator failed keeps its number but counts
    nowhere. `single_form` says that the case used the older one-evaluator form, which exports write flat.
    """

    run_id: str
    timestamp: datetime
    slot: Slot
    dataset: str
    status: RowStatus
    score: float | None
    verdict: Verdict | None
    answer_key: str = ""
    score_keys: Mapping[str, str] = field(default_factory=dict)
    answer_seq: int | None = None
    generation: int = 0
    attempt: int = 0
    conversation_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    expected_aspect_count: int = 0
    raw_aspects: tuple[str, ...] | None = None
    candidate_answer: str = ""
    evaluator_results: tuple[EvaluatorResult, ...] = ()
    single_form: bool = False
    trace_summary: TraceSummary | None = None
    trace: tuple[TraceEvent, ...] | None = None
    output_messages: tuple[Message, ...] | None = None
    agent_provider_request: JsonObject | None = None
    lm_provider_request: JsonObject | None = None
    target_usage: Usage | None = None
    judge_usage: Usage | None = None
    target_cost_usd: float | None = None
    judge_cost_usd: float | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    cached: bool = False
    error: Failure | None = None
    file: str = ""
    line: int = 0
    seq: int | None = None

    @property
    def eval_id(self) -> str:
        """The case's id."""
        return self.slot.eval_id

    @property
    def target(self) -> str:
        """The target's name."""
        return self.slot.target


RowState: TypeAlias = Literal["pass", "borderline", "fail", "error", "skipped"]
"""The five disjoint states that people see: a verdict, or why there is none."""


class GateResult(Struct, frozen=True):
    """One gate expression with what was held against its bound.

    `value` is that: what was measured, for `with 95%` the end of its interval; None when nothing could be measured.
    """

    expression: str
    passed: bool
    value: float | None
    sentence: str


class RunVerdict(Struct, frozen=True):
    """The one verdict of a run: exit code and sentence, printed the same everywhere (product.md, "Exit codes")."""

    exit_code: int
    sentence: str
    gates: tuple[GateResult, ...] = ()


RunState: TypeAlias = Literal["finished", "stopped", "interrupted", "failed", "running"]
"""How a run ended; `running` is one that another process writes at this moment."""


class RunReport(Struct, frozen=True):
    """A run as it is reported: counts, means, worst rows, notes, and the verdict.

    `failing` holds rows that did not pass, in the order they finished, at most `failing_limit` of them;
    `failing_total` counts all. `needs` is what whoever goes on with the run has to give. `corrected` are the pass rates
    of judges whose mistakes were measured. `results` holds every row when the run was kept in memory, else is empty.
    """

    run_id: str
    state: RunState
    planned: int | None
    targets: tuple[TargetSummary, ...]
    evaluators: tuple[EvaluatorSummary, ...]
    histogram: tuple[int, ...]
    verdict: RunVerdict
    failing: tuple[CaseResult, ...] = ()
    failing_total: int = 0
    flaky: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    folder: str | None = None
    needs: str = ""
    baseline: BaselineSummary | None = None
    groups: tuple[GroupSummary, ...] = ()
    corrected: tuple[CorrectedRate, ...] = ()
    results: tuple[CaseResult, ...] = ()

    def __repr__(self) -> str:
        """Return the usual text without `results`: asyncio logs the repr of what its main task returned."""
        return repr_without(self, "results")

    @property
    def exit_code(self) -> int:
        """What `agentv run` exits with."""
        return self.verdict.exit_code

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by state over all targets."""
        total: dict[str, int] = {}
        for target in self.targets:
            for state, count in target.counts.items():
                total[state] = total.get(state, 0) + count
        return total


class CaseRecord(Struct, frozen=True):
    """A planned case as `cases.jsonl` keeps it when it is first used."""

    case_key: str
    suite: str
    eval_id: str
    file: str
    line: int
    question: str
    input_messages: tuple[Message, ...]
    expected_outcome: str
    expected_messages: tuple[Message, ...]
    reference_answer: str | None
    criteria: tuple[JsonObject, ...]
    evaluators: JsonValue
    files: tuple[JsonObject, ...]
    tags: tuple[str, ...]
    metadata: JsonObject


class RunRecord(Struct, frozen=True):
    """What `run.json` says about a run. `plan` holds rows, suites, targets (secrets struck), options, seed."""

    run_id: str
    created_at: datetime
    agentv_version: str
    plan: JsonObject
    name: str | None = None
    tags: tuple[str, ...] = ()
    git: JsonObject | None = None
    parents: tuple[str, ...] = ()
