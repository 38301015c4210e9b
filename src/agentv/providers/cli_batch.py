"""Many cases in one command: {CASES_FILE} out, a line for each case back (formats.md, `provider_batching`). Pure."""

import json
from collections.abc import Collection, Iterable, Mapping

from agentv.providers.replies import parse_answer
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import ProviderRequest, ProviderResponse

_NAMED = 20
"""How many wrong lines a message names before it counts the rest."""


def cases_text(requests: Iterable[ProviderRequest]) -> str:
    """Return what stands in {CASES_FILE}: one JSON object a line with `id, prompt, guidelines, files`."""
    return "".join(json.dumps(_case(request)) + "\n" for request in requests)


def _case(request: ProviderRequest) -> Mapping[str, JsonValue]:
    return {
        "id": request.eval_case_id,
        "prompt": request.question,
        "guidelines": request.guidelines,
        "files": list(request.input_files),
    }


def parse_batch(text: str, ids: Collection[str]) -> dict[str, ProviderResponse]:
    """Return the answers by case id; ids without a line are missing from it.

    Raises ProviderError that names every bad line by its number, and every duplicate and unknown id.
    """
    answers: dict[str, ProviderResponse] = {}
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            problems.append(f"line {number} is not JSON")
            continue
        case_id = value.get("id") if isinstance(value, Mapping) else None
        if not isinstance(case_id, str):
            problems.append(f"line {number} has no id")
        elif case_id not in ids:
            problems.append(f"line {number} has the unknown id {case_id!r}")
        elif case_id in answers:
            problems.append(f"line {number} has the id {case_id!r} again")
        else:
            answers[case_id] = parse_answer(value)
    if problems:
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        message = f"the batch's output is wrong: {'; '.join(problems[:_NAMED])}{more}"
        raise ProviderError(Failure("malformed_reply", message))
    return answers
