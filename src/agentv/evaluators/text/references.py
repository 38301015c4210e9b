"""The reference texts that an answer is compared with, and their paths."""

from collections.abc import Iterator

from agentv.evaluators.rules.base import judged_text
from agentv.scoring.results.sources import expected_answer, source_value
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json


def references_at(context: EvaluationContext, paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each reference as (path, text); each item of a list has its own path.

    Raises EvaluatorError when a path has no value, or an empty list.
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
    if path == "ground_truth":  # by far the most frequent path, with nothing to walk
        return expected_answer(context)
    return None if path.startswith("files.") else source_value(context, path)
