"""A run of judgements of given answers: each answer is stored as a case, an answer and a row."""

import os
import platform
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct, field, structs
from msgspec.structs import replace

from agentv.engine.calling.given_answer import GIVEN_ANSWER, metadata_of, question_of
from agentv.engine.criteria.judged_lines import JudgedLine, RowPlace
from agentv.engine.criteria.runner import EvaluationRunner, JudgingSetup
from agentv.engine.planning.provenance import load_git_state
from agentv.loading.files.places import find_repository_root
from agentv.loading.suites.suites import relative_name
from agentv.scoring.keys.identity import (
    DigestMap,
    DigestSet,
    answer_key,
    case_key,
    criterion_to_json,
    digest,
    keys_of,
    score_key,
)
from agentv.storage.run.first_answers import slot_name
from agentv.types.cases import EvalCase
from agentv.types.evaluation_input import (
    EvaluationInput,
    input_messages,
    milliseconds_of,
    output_messages,
    without_impossible_facts,
)
from agentv.types.events import AnswerArrived, RowFinished, RunEvent
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import message_to_json, messages_to_json
from agentv.types.protocols import Clock, ResultStore, why_lost
from agentv.types.records.answer import Answer, AnswerRef, Origin, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord
from agentv.version import __version__

_ID_LENGTH = 16


def eval_id_of(given: EvaluationInput, source: str) -> str:
    """Return the id of the case that an answer belongs to: the input's own, else a hash of history and prompt.

    An answer without any question is a case of its own, named by its `source`.
    """
    if given.id is not None:
        return given.id
    messages = messages_to_json(input_messages(given))
    return digest(messages)[:_ID_LENGTH] if messages else source


def case_of_input(given: EvaluationInput, eval_id: str) -> EvalCase:
    """Return the case of a given answer: prompt and history, and the ground truth if it is a text."""
    truth = given.ground_truth
    return EvalCase(
        id=eval_id,
        input_messages=input_messages(given),
        expected_messages=(Message("assistant", truth),) if isinstance(truth, str) else (),
        tags=given.tags,
        metadata=metadata_of(given),
    )


class Trials:
    """The next trial of each case and target, from 0. An entry takes 12 bytes.

    `has_repeats` is True if a case has more than one answer of the same target.
    """

    def __init__(self) -> None:
        self._next = DigestMap("I")
        self.has_repeats = False

    def take(self, suite: str, eval_id: str, target: str) -> int:
        """Return the trial of one more answer."""
        name = slot_name(ResultKey(suite, eval_id, target))
        trial = self._next.get(name) or 0
        self._next.put(name, trial + 1)
        self.has_repeats = self.has_repeats or trial > 0
        return trial

    def add(self, slot: ResultKey) -> None:
        """Count an answer that is stored already."""
        name = slot_name(ResultKey(slot.suite, slot.eval_id, slot.target))
        self._next.put(name, max(self._next.get(name) or 0, slot.trial + 1))
        self.has_repeats = self.has_repeats or slot.trial > 0


class ScoredRun(Struct):
    """The run that judgements are saved in. It is opened for its first answer, so that no run is empty.

    `plan` describes it in run.json. `trials`, `targets` and `cases` are those of the stored answers so far.
    """

    runner: EvaluationRunner
    plan: "ScoredPlan"
    open_store: Callable[[], ResultStore]
    clock: Clock
    trials: Trials = field(default_factory=Trials)
    targets: dict[str, None] = field(default_factory=dict)
    opened_store: ResultStore | None = None
    cases: DigestSet = field(default_factory=DigestSet)
    unjudged: dict[str, Answer] = field(default_factory=dict)
    """Stored answers without a row, because the run was killed: by source, those of standard input by result key."""
    observe: Callable[[RunEvent], None] = lambda _event: None
    """Called with every answer and row after it is saved."""

    @property
    def suite(self) -> str:
        """The path of the configuration's file; `run_evaluation` for a configuration without a file."""
        return self.plan.suite

    @property
    def store(self) -> ResultStore:
        """The store, opened on first use. Raises StorageError."""
        if self.opened_store is None:
            self.opened_store = self.open_store()
            self.opened_store.begin(self.plan.to_record(self.opened_store.run_id, clock=self.clock))
        return self.opened_store

    @property
    def folder(self) -> Path | None:
        """The folder of the run, None if the run has none, is not opened, or has lost its folder."""
        where = None if self.opened_store is None else self.opened_store.folder
        return None if where is None or not Path(where).is_dir() else Path(where)

    def why_lost(self) -> str | None:
        """Return what is missing of the run's files, None if nothing is or the store was not opened."""
        return None if self.opened_store is None else why_lost(self.opened_store)

    def close(self, state: str) -> None:
        """Close the store, if it was opened. Raises StorageError."""
        if self.opened_store is not None:
            self.opened_store.close(state)

    @property
    def repeats_cases(self) -> bool:
        """True if a case has several rows: repeats, or answers of several targets."""
        return self.trials.has_repeats or len(self.targets) > 1

    def take_result_key(self, given: EvaluationInput, target: str, source: str) -> ResultKey:
        """Return the result key of an answer of `target`: that of its unjudged stored answer, else the next trial.

        `source` is the place of its line, such as `log.jsonl:2`.
        """
        if source in self.unjudged:
            return self.unjudged[source].slot
        _ = self.store  # opened before trials are counted, because it may continue a run
        eval_id = eval_id_of(given, source)
        self.targets[target] = None
        return ResultKey(self.suite, eval_id, target, self.trials.take(self.suite, eval_id, target))

    def add(self, line: JudgedLine, *, repaired: bool = False) -> CaseResult:
        """Save a judged line as case, answer and row, and return the row; a line without judgement has only a row.

        Raises StorageError.
        """
        row = self._add(line, repaired=repaired)
        self.observe(RowFinished(row))
        return row

    def _add(self, line: JudgedLine, *, repaired: bool) -> CaseResult:
        if line.judged is None or line.slot is None:
            place = self._unread_place(line) if line.slot is None else self._rejudged_place(line.slot, line)
            return self.store.append(line.to_row(self.store.run_id, place))
        given, slot = line.judged.input_snapshot, line.slot
        case, setup = case_of_input(given, slot.eval_id), self.runner.setup(given.criteria)
        keys = keys_of(case, setup.criteria)
        record = _case_record(case, given, setup, line, suite=self.suite, key=case_key(keys, setup.canonical))
        self.store.append_case(record)
        key = answer_key(keys.question, digest([slot.target, GIVEN_ANSWER]), slot.trial)
        is_first = self.cases.add(f"{slot.suite}\0{slot.eval_id}")
        answer = line.answer or self.unjudged.pop(line.source, None) or self.unjudged.pop(slot_name(slot), None)
        if answer is None:
            new = _answer(given, line, slot, key=key, case=record if is_first else None)
            answer = self.store.append_answer(replace(new, repaired=repaired))
            self.observe(AnswerArrived(answer))
        scores = score_keys(key, keys.expectation, setup)
        ref = None if answer.seq is None else AnswerRef(answer.seq)
        place = RowPlace(
            slot,
            self.plan.dataset,
            key,
            score_keys=scores,
            answer_ref=ref,
            generation=line.generation,
            rescored=line.rescored,
        )
        return self.store.append(line.to_row(self.store.run_id, place))

    def _rejudged_place(self, slot: ResultKey, line: JudgedLine) -> RowPlace:
        """Return the place of the row for a stored answer that could not be judged again."""
        answer = line.answer
        ref = None if answer is None or answer.seq is None else AnswerRef(answer.seq)
        key = "" if answer is None else answer.answer_key
        return RowPlace(
            slot, self.plan.dataset, key, answer_ref=ref, generation=line.generation, rescored=line.rescored
        )

    def _unread_place(self, line: JudgedLine) -> RowPlace:
        slot = self.unread_slot(line.file, line.source)
        trial = self.trials.take(slot.suite, slot.eval_id, slot.target)
        return RowPlace(replace(slot, trial=trial), self.plan.dataset)

    def unread_slot(self, file: str, source: str) -> ResultKey:
        """Return the result key of a line that could not be read: its case is named by file and line."""
        return ResultKey(self.suite, source, target_of_file(file))


def score_keys(answer: str, expectation: str, setup: JudgingSetup) -> dict[str, str]:
    """Return the key of each evaluator's score of an answer."""
    return {
        name: score_key(answer=answer, expectation=expectation, setup_digest=setup_digest)
        for name, setup_digest in setup.digests.items()
    }


def target_of_file(file: str) -> str:
    """Return the name of a file without its endings, for the target whose answers are in it; `stdin` for `-`."""
    name = Path(file).name
    for ending in (".gz", ".jsonl", ".json", ".ndjson", ".log"):
        name = name.removesuffix(ending) or name
    return "stdin" if name == "-" else name


def _case_record(
    case: EvalCase, given: EvaluationInput, setup: JudgingSetup, line: JudgedLine, *, suite: str, key: str
) -> CaseRecord:
    return CaseRecord(
        case_key=key,
        suite=suite,
        eval_id=case.id,
        file=line.file,
        line=line.number,
        session_id=given.session_id,
        question=question_of(given),
        input_messages=case.input_messages,
        expected_messages=case.expected_messages,
        reference_answer=given.ground_truth if isinstance(given.ground_truth, str) else None,
        criteria=tuple(map(criterion_to_json, setup.criteria)),
        evaluators=setup.evaluators,
        tags=given.tags,
        metadata=case.metadata,
    )


def _answer(given: EvaluationInput, line: JudgedLine, slot: ResultKey, key: str, case: CaseRecord | None) -> Answer:
    """Return the answer of an input. `case` is None if the stored case was made from another input.

    The field `given` of the answer holds the keys of the input that nothing else stores.
    """
    ended_at = given.timestamp or line.timestamp
    answer = Answer(
        slot=slot,
        answer_key=key,
        text=given.text,
        output_messages=output_messages(given),
        usage=given.usage,
        cost_usd=given.cost_usd,
        billed_usd=0.0,
        started_at=_started_at(ended_at, given.duration_ms or 0.0),
        ended_at=ended_at,
        duration_ms=given.duration_ms,
        origin=Origin(line.file, line.number, line.part, line.digest),
    )
    fields, stored = _fields_of(given), _stored_fields(case, answer)
    unstored = {name: fields.get(name) for name in {**fields, **stored} if fields.get(name) != stored.get(name)}
    if case is None:
        unstored |= {name: fields.get(name) for name in _CASE_KEYS}
    return replace(answer, given=unstored) if unstored else answer


def _started_at(ended_at: datetime, duration_ms: float) -> datetime:
    try:
        return ended_at - timedelta(milliseconds=duration_ms)
    except OverflowError:  # before the first day of the calendar
        return ended_at


_CASE_KEYS = ("prompt", "messageHistory", "criteria", "groundTruth", "sessionId", "metadata", "tags")
"""Keys of an input that a stored case holds."""
_IMPLIED_KEYS = ("id", "target", "timestamp")
"""Keys of an input that follow from the result key and the time of its answer."""


def _fields_of(given: EvaluationInput) -> dict[str, JsonValue]:
    """Return an input as JSON, without `_IMPLIED_KEYS`."""
    fields = {name: value for name, value in given.to_dict().items() if name not in _IMPLIED_KEYS}
    return {**fields, "metadata": metadata_of(given)}


def _stored_fields(case: CaseRecord | None, answer: Answer) -> dict[str, JsonValue]:
    """Return the known keys of an input that a stored case and answer hold, without `_IMPLIED_KEYS`."""
    output = answer.output_messages
    known: dict[str, JsonValue] = {
        "response": answer.text if output is None else message_to_json(output[-1]),
        "durationMs": answer.duration_ms,
        "usage": None if answer.usage is None else structs.asdict(answer.usage),
        "costUsd": answer.cost_usd,
    }
    if case is not None:
        known |= {
            "criteria": [],
            "groundTruth": case.reference_answer,
            "sessionId": case.session_id,
            "metadata": case.metadata,
            "tags": list(case.tags) or None,
        }
        if output is None:
            known["prompt"] = case.question or None
        else:
            known["messageHistory"] = messages_to_json((*case.input_messages, *output[:-1]))
    return {name: value for name, value in known.items() if value is not None}


def input_of(case: CaseRecord | None, answer: Answer) -> EvaluationInput:
    """Return the input that a stored case and answer were made of. Raises EvalFileError if it cannot be read."""
    fields = {**_stored_fields(case, answer), **(answer.given or {})}
    implied: dict[str, JsonValue] = {
        "id": answer.slot.eval_id,
        "target": answer.slot.target,
        "timestamp": milliseconds_of(answer.ended_at),
    }
    stored = {**implied, **{name: value for name, value in fields.items() if value is not None}}
    return EvaluationInput.from_dict(without_impossible_facts(stored))


class ScoredPlan(Struct, frozen=True):
    """The description of a run of given answers, for run.json.

    `reading` is how its lines were read, so that the run can be resumed; empty for answers from Python. `folder` is
    the working folder, `home` the `.agentv` folder.
    """

    suite: str
    sha256: str
    configuration: JsonObject
    home: Path
    folder: str
    name: str | None = None
    targets: tuple[str, ...] = ()
    gates: tuple[str, ...] | None = None
    options: JsonObject = field(default_factory=dict)
    reading: JsonObject = field(default_factory=dict)
    store: str | None = None

    @property
    def dataset(self) -> str:
        """The label of the suite: the name of its file."""
        return Path(self.suite).stem

    def to_record(self, run_id: str, *, clock: Clock) -> RunRecord:
        """Return the content of run.json."""
        gates = () if self.gates is None else self.gates
        plan: dict[str, JsonValue] = {
            "folder": os.path.relpath(self.folder, self.home.parent),
            "rows": None,
            "suites": [{"path": self.suite, "sha256": self.sha256, "cases": None}],
            "targets": [{"name": name, "provider": GIVEN_ANSWER} for name in self.targets],
            "options": self.options,
            "scored": {"configuration": self.configuration, **self.reading},
            "python": platform.python_version(),
        }
        if self.store is not None:
            plan["store"] = self.store
        if self.gates is not None:
            plan["gates"] = [{"expression": gate, "suite": None} for gate in gates]
        return RunRecord(
            run_id=run_id,
            created_at=clock(),
            agentv_version=__version__,
            plan=plan,
            name=self.name,
            git=load_git_state(self.folder),
        )


def suite_of_file(path: Path) -> str:
    """Return the path of a configuration as the name of a suite: relative to the repository root."""
    return relative_name(path, find_repository_root(path.resolve().parent))
