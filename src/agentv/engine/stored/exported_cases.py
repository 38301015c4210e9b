"""Cases of a stored run as the cases of a new eval file."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.labels.categories import slots_in_category
from agentv.engine.stored.resume import row_selector
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import DataPart, FilePart, Message
from agentv.types.messages_json import message_to_json, part_to_json, short_messages
from agentv.types.records.answer import Origin
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord


class ExportedSuite(Struct, frozen=True):
    """The content of an eval file: its cases and its other keys, and the suites that the cases come from."""

    cases: tuple[JsonObject, ...]
    other_keys: Mapping[str, JsonValue]
    suites: tuple[str, ...]


def exported_suite(
    run: StoredRun, only: str, globs: Sequence[str], *, folder: Path, category: str | None = None
) -> ExportedSuite:
    """Return the cases of a run that `only` selects: `failed`, `errors`, or `cases` whose id matches one of `globs`.

    With `category`, these are instead the cases of answers that people put into that failure category; it becomes a tag
    of each. Paths of attached files are relative to `folder`, where the eval file will be. Raises ConfigError if two
    suites define a criterion differently.
    """
    if category is None:
        is_chosen = row_selector(only, globs)
    else:
        slots = set(slots_in_category(run, category))

        def is_chosen(row: CaseResult) -> bool:
            return row.slot in slots

    chosen = {(row.slot.suite, row.eval_id, row.prompt): row.origin for row in run.results() if is_chosen(row)}
    same_ids = run.cases_named({(suite, eval_id) for suite, eval_id, _ in chosen})
    by_key = {(record.suite, record.eval_id, record.prompt): record for record in same_ids}
    records = {key: record for key, record in by_key.items() if key in chosen}
    attached = next((record for record in records.values() if any(map(_has_data, record.input_messages))), None)
    if attached is not None:
        raise ConfigError(
            f"case {attached.eval_id!r} has a logged image or other attachment, which an eval file can only read from "
            "a file; choose other cases with --case"
        )
    unusable = next((record for record in records.values() if not (record.input_messages or record.turns)), None)
    if unusable is not None:
        raise ConfigError(
            f"case {unusable.eval_id!r} has no question, because its answer was logged without one; "
            "choose other cases with --case"
        )
    id_counts = Counter(record.eval_id for record in records.values())
    cases = tuple(
        _case(
            _tagged(record, category),
            run.run_id,
            folder,
            read_from=chosen[key],
            is_unique=id_counts[record.eval_id] == 1,
        )
        for key, record in records.items()
    )
    criteria = _criteria(records.values())
    description = f"Cases of run {run.run_id}"
    other_keys: dict[str, JsonValue] = {"$schema": "agentv-eval-v2", "dialect": "agentv", "description": description}
    if criteria:
        other_keys["criteria"] = criteria
    return ExportedSuite(cases, other_keys, tuple(dict.fromkeys(suite for suite, _, _ in records)))


class JudgedCases(Struct, frozen=True):
    """The cases of a run that did not pass, and what judged them."""

    run_id: str
    ids: frozenset[str]
    evaluators: tuple[JsonValue, ...]
    criteria: tuple[JsonValue, ...]


def failed_cases(run: StoredRun, *, folder: Path) -> JudgedCases:
    """Return the ids of the cases of a run that did not pass, and their evaluators.

    `folder` is as for `exported_suite`. Raises ConfigError if their evaluators differ.
    """
    is_chosen = row_selector("failed", ())
    names = {(row.slot.suite, row.eval_id) for row in run.results() if is_chosen(row)}
    records = list(run.cases_named(names))
    evaluators = [record.evaluators for record in records if isinstance(record.evaluators, list | tuple)]
    if any(each != evaluators[0] for each in evaluators):
        raise ConfigError(
            f"the cases of run {run.run_id} have different evaluators; "
            f"export them: agentv runs export {run.run_id} --failed -o {folder / 'failed.yaml'}"
        )
    ids = frozenset(eval_id for _, eval_id in names)
    return JudgedCases(run.run_id, ids, tuple(evaluators[0]) if evaluators else (), tuple(_criteria(records)))


def _tagged(record: CaseRecord, category: str | None) -> CaseRecord:
    return record if category is None else replace(record, tags=tuple(dict.fromkeys((*record.tags, category))))


def _criteria(records: Iterable[CaseRecord]) -> list[JsonValue]:
    found: dict[str, JsonObject] = {}
    for record in records:
        for criterion in record.criteria:
            name = str(criterion["name"])
            if found.setdefault(name, criterion) != criterion:
                raise ConfigError(
                    f"the suites of this run define the criterion {name!r} differently; export their cases one by one "
                    "with --case"
                )
    return list(found.values())


def _case(record: CaseRecord, run_id: str, folder: Path, *, read_from: Origin | None, is_unique: bool) -> JsonObject:
    name = "-".join(filter(None, (Path(record.suite).stem, record.eval_id, record.prompt)))
    origin: dict[str, JsonValue] = {"run": run_id, "suite": record.suite, "eval_id": record.eval_id}
    if record.prompt is not None:
        origin["prompt"] = record.prompt
    if read_from is not None:
        origin |= read_from.to_json()
    case: dict[str, JsonValue] = {"id": record.eval_id if is_unique else name}
    if record.expected_outcome:
        case["expected_outcome"] = record.expected_outcome
    if record.input_messages or not record.turns:
        case["input"] = short_messages([_message(message, folder) for message in record.input_messages], "user")
    if record.turns:
        case["turns"] = [_turn(turn, record.eval_id) for turn in record.turns]
    if record.expected_messages:
        expected = [_message(message, folder) for message in record.expected_messages]
        case["expected"] = short_messages(expected, "assistant")
    if record.tags:
        case["tags"] = list(record.tags)
    case["metadata"] = {**record.metadata, "origin": origin}
    execution = {**record.turn_rules, **({"evaluators": record.evaluators} if record.evaluators else {})}
    if execution:
        case["execution"] = execution
    if record.incomplete is not None:
        case["incomplete"] = record.incomplete
    return case


def _turn(turn: JsonObject, eval_id: str) -> JsonObject:
    """Return a turn as in an eval file. Raises ConfigError for a turn with a file, whose real path is not stored."""
    content = turn["input"]
    if isinstance(content, list | tuple) and any(isinstance(part, Mapping) and "path" in part for part in content):
        raise ConfigError(
            f"case {eval_id!r} has turns with attached files, which cannot be exported; choose other cases with --case"
        )
    return turn


def _has_data(message: Message) -> bool:
    """Return True for a user's message with a part that no eval file can have, such as a logged image."""
    parts = message.content if isinstance(message.content, tuple) else ()
    return message.role == "user" and any(isinstance(part, DataPart) for part in parts)


def _message(message: Message, folder: Path) -> JsonObject:
    """Return a message as in an eval file; the paths of attached files are relative to `folder`."""
    json = message_to_json(message)
    if isinstance(message.content, tuple):
        json["content"] = [
            {"type": "file", "value": os.path.relpath(part.real_path, folder)}
            if isinstance(part, FilePart)
            else part_to_json(part)
            for part in message.content
            if not isinstance(part, DataPart)  # thoughts and the like of earlier answers
        ] or ""
    return json
