"""Merge several runs into one, such as the shards of a run."""

import shutil
from array import array
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from agentv.scoring.keys.identity import DigestMap, digest_64
from agentv.storage.run.first_answers import slot_name
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.stored import TARGET_CHANGED, StoredRun
from agentv.types.errors import ConfigError, StorageError
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label
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


def merge_into(store: RunFolder, runs: Sequence[StoredRun], owners: DigestMap) -> None:
    """Write the results of all runs, of every generation; each result has the id of its original run."""
    for index, run in enumerate(runs):
        store.note("merged", {"run_id": run.run_id, "shard": run.run.shard})
        _copy(store, run, owners, index)


def _copy(store: RunFolder, run: StoredRun, owners: DigestMap, index: int) -> None:
    blobs = run.folder / "blobs"
    if blobs.is_dir():
        shutil.copytree(blobs, f"{store.folder}/blobs", dirs_exist_ok=True)
    for case in run.cases():
        store.append_case(case)
    new_numbers = array("q")  # the number of each answer in the new run, -1 if it is not merged
    for answer in run.all_answers():
        owner = owners.get(slot_name(answer.slot))
        if owner is None:  # answered, but not judged
            owners.put(slot_name(answer.slot), index)
        is_owned = owner in (None, index)
        seq = store.append_answer(answer, run_id=run.run_id).seq if is_owned else None
        new_numbers.append(-1 if seq is None else seq)
    for row in run.all_results():
        if owners.get(slot_name(row.slot)) in (None, index):
            ref = None if row.answer_seq is None else _new_ref(row, row.answer_seq, new_numbers, run)
            store.append(replace(row, answer_ref=ref))
    for event in run.events():
        if event.type == TARGET_CHANGED:
            store.note(TARGET_CHANGED, event.fields)
    for key in run.retired():
        store.note("case_retired", {"slot": key.to_json()})
    owned = (label for label in run.all_labels() if owners.get(slot_name(label.slot)) == index)
    labels = [replace(label, answer_ref=_new_ref(label, label.answer_seq, new_numbers, run)) for label in owned]
    if labels:
        append_labels(Path(store.folder), labels, run_id=store.run_id, note=store.note)


def _new_ref(line: CaseResult | Label, seq: int, new_numbers: "array[int]", run: StoredRun) -> AnswerRef:
    """Return the reference to an answer in the new run. Raises StorageError if there is no such answer."""
    number = new_numbers[seq] if 0 <= seq < len(new_numbers) else -1
    if number < 0:
        what = "a label" if isinstance(line, Label) else "the result"
        raise StorageError(
            f"{run.folder}: {what} of case {line.slot.eval_id!r} refers to answer {seq}, which is not in "
            "answers.jsonl; restore this file from a copy"
        )
    return AnswerRef(number)


def _content_key(row: CaseResult) -> int:
    scores = "\0".join(f"{name}={key}" for name, key in sorted(row.score_keys.items()))
    return digest_64(f"{row.answer_key}\0{scores}")
