"""Rubrics for the cases of an eval file that have none: planned, generated, and added to the file."""

from collections.abc import Sequence

from msgspec import Struct

from agentv.engine.generate.generation import Generated, GenerationSetup, GenerationTask, generate
from agentv.engine.planning.prepared_case import build_prompt
from agentv.loading.edit.cases_file import CasesFile, NewKey
from agentv.registry import Specs
from agentv.reports.text.yaml_text import yaml_item, yaml_line
from agentv.scoring.judge_replies.generated import parse_rubrics
from agentv.types.cases import EvalCase, RubricItem
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import reference_answer

KEY = "rubrics"
_PLACEHOLDER = (RubricItem("placeholder", "Stands for a generated rubric"),)


class RubricsJob(Struct, frozen=True):
    """The generation tasks for a file: one for each case without rubrics, by the case's index in the file.

    `skipped` are the ids of cases that have rubrics already.
    """

    file: CasesFile
    tasks: dict[int, GenerationTask[tuple[RubricItem, ...]]]
    skipped: tuple[str, ...]


def make_rubrics_job(file: CasesFile, cases: Sequence[EvalCase], chosen: Sequence[int], specs: Specs) -> RubricsJob:
    """Return the job for the chosen cases of a file.

    Raises EvalFileError if rubrics cannot be added to the file, before any paid call.
    """
    without = [index for index in chosen if KEY not in file.cases[index]]
    job = RubricsJob(
        file=file,
        tasks={index: _task(cases[index]) for index in without},
        skipped=tuple(cases[index].id for index in chosen if KEY in file.cases[index]),
    )
    if without:
        file.with_keys({index: _new_key(_PLACEHOLDER) for index in without}, specs)
    return job


def _task(case: EvalCase) -> GenerationTask[tuple[RubricItem, ...]]:
    prompt = build_prompt(case, quotes_paths_only=False)
    return GenerationTask(
        id=case.id,
        values={
            "question": prompt.question,
            "expected_outcome": case.expected_outcome,
            "reference_answer": reference_answer(case.expected_messages) or "",
            "guidelines": prompt.guidelines,
            "case_id": case.id,
        },
        parse=lambda reply, nonce, shown: parse_rubrics(reply, nonce=nonce, shown=shown),
    )


async def request_rubrics(job: RubricsJob, setup: GenerationSetup) -> list[Generated[tuple[RubricItem, ...]]]:
    """Generate the rubrics of a job; the results are in the order of its cases."""
    return await generate(tuple(job.tasks.values()), setup)


def with_rubrics(job: RubricsJob, made: Sequence[Generated[tuple[RubricItem, ...]]], specs: Specs) -> bytes:
    """Return the file's bytes with the generated rubrics. Raises EvalFileError if they cannot be added."""
    keys = {index: _new_key(each.value) for index, each in zip(job.tasks, made, strict=True) if each.value is not None}
    return job.file.with_keys(keys, specs)


def rubrics_to_json(items: Sequence[RubricItem]) -> list[JsonValue]:
    """Return rubrics as in eval files, without keys that have their default."""
    return [_item_to_json(item) for item in items]


def _item_to_json(item: RubricItem) -> JsonObject:
    weight = int(item.weight) if item.weight.is_integer() else item.weight
    return {
        "id": item.id,
        "description": item.description,
        **({"weight": weight} if weight != 1 else {}),
        **({"required": True} if item.required else {}),
    }


def _new_key(items: Sequence[RubricItem]) -> NewKey:
    value = rubrics_to_json(items)
    lines = yaml_item({KEY: value}).split("\n")
    return NewKey(KEY, value, "\n".join(line[2:] for line in lines), yaml_line(value))
