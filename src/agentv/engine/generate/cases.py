"""Cases generated from records: the generation tasks, and the resulting eval file."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agentv.engine.generate.generation import Generated, GenerationTask
from agentv.engine.generate.rubrics import rubrics_to_json
from agentv.loading.suites.recorded import Record
from agentv.reports.text.yaml_text import yaml_item, yaml_line
from agentv.scoring.judge_replies.generated import GeneratedCase, parse_cases
from agentv.scoring.keys.identity import make_id
from agentv.types.json_value import JsonObject, JsonValue

PLACEHOLDER: JsonObject = {
    "id": "agentv-placeholder-case",
    "expected_outcome": "x",
    "input_messages": [{"role": "user", "content": "x"}],
}
"""A case that is added on trial, to check before any call that a file accepts further cases."""


class NewCases(Struct, frozen=True):
    """Cases by record, each with a unique id; `repeated` counts those skipped because their input exists already."""

    by_record: tuple[Generated[tuple[JsonObject, ...]], ...]
    repeated: int = 0

    @property
    def cases(self) -> list[JsonObject]:
        """All of them, in the order of the records."""
        return [case for each in self.by_record for case in each.value or ()]


def make_case_tasks(records: Iterable[Record], *, count: int) -> tuple[GenerationTask[tuple[GeneratedCase, ...]], ...]:
    """Return one task per record, each for at most `count` cases."""
    return tuple(
        GenerationTask(
            id=record.place,
            values={"record": record.text, "source": record.place, "count": str(count)},
            parse=lambda reply, nonce, shown: parse_cases(reply, nonce=nonce, shown=shown, most=count),
        )
        for record in records
    )


def make_cases(by_record: Sequence[Generated[tuple[GeneratedCase, ...]]], existing: Sequence[JsonObject]) -> NewCases:
    """Turn the generated cases into cases for an eval file that already has `existing`.

    Ids are made unique; a case whose input exists already, or was generated before, is skipped.
    """
    ids = {str(case.get("id")) for case in existing}
    inputs = {_input_of(case) for case in existing}
    listed: list[Generated[tuple[JsonObject, ...]]] = []
    repeated = 0
    for each in by_record:
        cases: list[JsonObject] = []
        for generated in each.value or ():
            text = _normalised(generated.input)
            if text in inputs:
                repeated += 1
                continue
            inputs.add(text)
            id_ = make_id(generated.id or generated.input, fallback="case", taken=ids)
            ids.add(id_)
            cases.append(_to_json(generated, id_, each.id))
        value = None if each.value is None else tuple(cases)
        listed.append(
            Generated(id=each.id, value=value, failure=each.failure, usage=each.usage, cost_usd=each.cost_usd)
        )
    return NewCases(tuple(listed), repeated)


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())


def _input_of(case: JsonObject) -> str:
    """Return the text of a case whose input is a single text message; "" for every other case."""
    messages = case.get("input_messages") or case.get("inputMessages")
    only = messages[0] if isinstance(messages, list) and len(messages) == 1 else None
    content = only.get("content") if isinstance(only, Mapping) else None
    return _normalised(content) if isinstance(content, str) else ""


def _to_json(case: GeneratedCase, id_: str, place: str) -> JsonObject:
    rubrics: list[JsonValue] = rubrics_to_json(case.rubrics)
    return {
        "id": id_,
        "expected_outcome": case.expected_outcome,
        "input_messages": [{"role": "user", "content": case.input}],
        **({"rubrics": rubrics} if rubrics else {}),
        "metadata": {"source": place},
    }


def new_suite(cases: Sequence[JsonObject], *, data: str, schema: str | None) -> str:
    """Return the text of a new eval file; `schema` is the path of its JSON Schema, for editors."""
    head = f"# yaml-language-server: $schema={schema}\n" if schema else ""
    items = "".join(yaml_item(case) for case in cases)
    lines = "".join(f"  {line}\n" if line else "\n" for line in items.removesuffix("\n").split("\n"))
    return f"{head}description: {yaml_line(f'Cases generated from {data}')}\nevalcases:\n{lines}"
