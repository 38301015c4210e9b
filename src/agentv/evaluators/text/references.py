"""The texts an answer is compared with: where they stand, and what they say."""

from collections.abc import Iterator

from agentv.evaluators.rules.base import judged_text
from agentv.scoring.results.sources import expected_answer, source_value
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json


def references_at(context: EvaluationContext, paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each reference with the place where it stands; a list of texts has a place for each.

    Raises EvaluatorError when a path leads nowhere, or to an empty list.
    """
    for path in paths:
        value = _value(context, path)
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list | tuple) and value and all(isinstance(item, str | int | float) for item in value):
            for number, item in enumerate(value):
                yield f"{path}.{number}", item if isinstance(item, str) else compact_json(item)
        elif value in ([], ()):
            raise EvaluatorError(f"the reference {path!r} is an empty list: there is nothing to compare with")
        else:
            yield path, judged_text(context, path)


def _value(context: EvaluationContext, path: str) -> JsonValue:
    if path == "ground_truth":  # by far the most frequent place, and no path to walk
        return expected_answer(context)
    return None if path.startswith("files.") else source_value(context, path)
