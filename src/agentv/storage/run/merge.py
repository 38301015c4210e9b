"""Merge several runs into one, such as the shards of a run."""

import shutil
from array import array
from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace

from agentv.scoring.keys.identity import DigestMap, digest_64
from agentv.storage.run.first_answers import slot_name
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.merged_reviews import MergedRun, merge_reviews
from agentv.storage.run.stored import TARGET_CHANGED, StoredRun
from agentv.types.errors import ConfigError, StorageError
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.result import CaseResult

_SHOWN = 5


def find_owners(runs: Sequence[StoredRun], *, refuses_conflicts: bool = True) -> DigestMap:
    """Return, by result key, the index of the first run that has it: the owner, whose results are merged.

    Raises ConfigError when two runs have results of different cases, targets or evaluators under one result key, unless
    `refuses_conflicts` is False.
    """
    owners, keys = DigestMap("I"), DigestMap()
    conflicts: list[str] = []
    for index, run in enumerate(runs):
        for row in run.results():
            name, key = slot_name(row.slot), _content_key(row)
            known_key = keys.get(name)
            if known_key is None:
                owners.put(name, index)
                keys.put(name, key)
            elif known_key != key:
                conflicts.append(f"{row.slot.suite} {row.eval_id} ({row.target}, trial {row.slot.trial + 1})")
    if conflicts and refuses_conflicts:
        more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
        raise ConfigError(f"two runs have different results of the same case: {', '.join(conflicts[:_SHOWN])}{more}")
    return owners


def merge_into(store: RunFolder, runs: Sequence[StoredRun], owners: DigestMap, *, now: datetime) -> list[str]:
    """Write the results of all runs, of every generation, and their reviews; return notes for the user.

    Each result has the id of its original run.
    """
    merged = []
    for index, run in enumerate(runs):
        store.note("merged", {"run_id": run.run_id, "shard": run.run.shard})
        new_numbers = _copy(store, run, owners, index)
        merged.append(MergedRun(run, _refs(run, owners, index, new_numbers)))
    return merge_reviews(store, merged, now=now)


def _refs(
    run: StoredRun, owners: DigestMap, index: int, new_numbers: "array[int]"
) -> Callable[[ResultKey, int], AnswerRef | None]:
    def new_ref(slot: ResultKey, seq: int) -> AnswerRef | None:
        if owners.get(slot_name(slot)) != index:
            return None
        return _new_ref("a label or a review queue", slot, seq, new_numbers, run)

    return new_ref


def _copy(store: RunFolder, run: StoredRun, owners: DigestMap, index: int) -> "array[int]":
    """Copy the lines of a run; return the number of each of its answers in the new run, -1 if it is not merged."""
    blobs = run.folder / "blobs"
    if blobs.is_dir():
        shutil.copytree(blobs, f"{store.folder}/blobs", dirs_exist_ok=True)
    for case in run.cases():
        store.append_case(case)
    new_numbers = array("q")
    for answer in run.all_answers():
        owner = owners.get(slot_name(answer.slot))
        if owner is None:  # answered, but not judged
            owners.put(slot_name(answer.slot), index)
        is_owned = owner in (None, index)
        seq = store.append_answer(answer, run_id=run.run_id).seq if is_owned else None
        new_numbers.append(-1 if seq is None else seq)
    for row in run.all_results():
        if owners.get(slot_name(row.slot)) in (None, index):
            ref = None if row.answer_seq is None else _new_ref("the result", row.slot, row.answer_seq, new_numbers, run)
            store.append(replace(row, answer_ref=ref))
    for event in run.events():
        if event.type == TARGET_CHANGED:
            store.note(TARGET_CHANGED, event.fields)
    for key in run.retired():
        store.note("case_retired", {"slot": key.to_json()})
    return new_numbers


def _new_ref(what: str, slot: ResultKey, seq: int, new_numbers: "array[int]", run: StoredRun) -> AnswerRef:
    """Return the reference to an answer in the new run. Raises StorageError if there is no such answer."""
    number = new_numbers[seq] if 0 <= seq < len(new_numbers) else -1
    if number < 0:
        raise StorageError(
            f"{run.folder}: {what} of case {slot.eval_id!r} refers to answer {seq}, which is not in "
            "answers.jsonl; restore this file from a copy"
        )
    return AnswerRef(number)


def _content_key(row: CaseResult) -> int:
    scores = "\0".join(f"{name}={key}" for name, key in sorted(row.score_keys.items()))
    return digest_64(f"{row.answer_key}\0{scores}")
