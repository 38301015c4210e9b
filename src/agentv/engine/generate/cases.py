"""Cases from records: what is asked for, and the eval file they become."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agentv.engine.generate.generation import GenerationTask, Made
from agentv.engine.generate.rubrics import rubrics_to_json
from agentv.loading.suites.recorded import Record
from agentv.reports.text.yaml_text import yaml_item, yaml_line
from agentv.scoring.judge_replies.generated import GeneratedCase, parse_cases
from agentv.scoring.keys.digests import make_id
from agentv.types.json_value import JsonObject, JsonValue

PLACEHOLDER: JsonObject = {
    "id": "a-case-that-stands-for-those-to-come",
    "expected_outcome": "x",
    "input_messages": [{"role": "user", "content": "x"}],
}
"""A case to try beforehand whether a file can take more."""


class NewCases(Struct, frozen=True):
    """Cases by record, each with an id of its own; `repeated` is how many asked what another asks already."""

    made: tuple[Made[tuple[JsonObject, ...]], ...]
    repeated: int = 0

    @property
    def cases(self) -> list[JsonObject]:
        """All of them, in the order of the records."""
        return [case for each in self.made for case in each.value or ()]


def make_turn_settings(
    records: Iterable[Record], *, count: int
) -> tuple[GenerationTask[tuple[GeneratedCase, ...]], ...]:
    """Return what is asked for: at most `count` cases from each record."""
    return tuple(
        GenerationTask(
            id=record.place,
            values={"record": record.text, "source": record.place, "count": str(count)},
            parse=lambda reply, nonce, shown: parse_cases(reply, nonce=nonce, shown=shown, most=count),
        )
        for record in records
    )


def make_cases(made: Sequence[Made[tuple[GeneratedCase, ...]]], existing: Sequence[JsonObject]) -> NewCases:
    """Return what was made as cases of an eval file, beside those that exist there.

    Ids are made unique; a case whose input stands there already, or came before, is left out.
    """
    ids = {str(case.get("id")) for case in existing}
    asked = {_question(case) for case in existing}
    listed: list[Made[tuple[JsonObject, ...]]] = []
    repeated = 0
    for each in made:
        cases: list[JsonObject] = []
        for generated in each.value or ():
            question = _normalised(generated.input)
            if question in asked:
                repeated += 1
                continue
            asked.add(question)
            id_ = make_id(generated.id or generated.input, fallback="case", taken=ids)
            ids.add(id_)
            cases.append(_to_json(generated, id_, each.id))
        value = None if each.value is None else tuple(cases)
        listed.append(Made(id=each.id, value=value, failure=each.failure, usage=each.usage, cost_usd=each.cost_usd))
    return NewCases(tuple(listed), repeated)


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())


def _question(case: JsonObject) -> str:
    """Return the one message of a case that is nothing but a text; "" for every other case."""
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
