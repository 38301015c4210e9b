"""`{{ name }}` in judge prompts. Filled in one pass: a value is never filled again."""

import re
from collections.abc import Callable, Iterable

ANSWER_NAMES = ("candidate_answer", "output_messages", "conversation", "diff")
"""The variables that hold the answer: a prompt without any of them gives a judge nothing to judge."""

JUDGE_VARIABLES = (
    "question",
    "expected_outcome",
    "reference_answer",
    "candidate_answer",
    "input_messages",
    "expected_messages",
    "output_messages",
    "conversation",
    "guidelines",
    "trace_summary",
    "diff",
    "evaluator_results",
    "criterion_name",
    "criterion_description",
    "criterion_scale",
)
"""The variables of judge prompts (docs/how-to/judges.md), besides `context.PATH`."""

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][^\s{}]*)\s*\}\}")


def fill(template: str, value_of: Callable[[str], str | None]) -> str:
    """Replace each `{{ name }}` by its value, fetched once; a name without a value is left as written."""
    values: dict[str, str] = {}
    unknown: set[str] = set()

    def put(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values and name not in unknown:
            value = value_of(name)
            if value is None:
                unknown.add(name)
            else:
                values[name] = value
        return values.get(name, match[0])

    return _VARIABLE.sub(put, template)


def variable_names(template: str) -> tuple[str, ...]:
    """Return the names that a template uses, each once, in order."""
    return tuple(dict.fromkeys(_VARIABLE.findall(template)))


def template_warnings(
    template: str, *, known: Iterable[str] = JUDGE_VARIABLES, needed: Iterable[str] = ANSWER_NAMES
) -> tuple[str, ...]:
    """Return warnings about a prompt: unknown names, or no name that holds the answer. None of them stops a run."""
    listed = tuple(known)
    used = variable_names(template)
    names = ", ".join((*listed, "context.PATH"))
    unknown = [name for name in used if name not in listed and not name.startswith("context.")]
    warnings = [f"unknown variable {{{{ {name} }}}}, left as it is; known: {names}" for name in unknown]
    if not set(used) & set(needed):
        wanted = ", ".join(f"{{{{ {name} }}}}" for name in needed)
        warnings.append(f"the prompt shows the judge no answer: it uses none of {wanted}; known: {names}")
    return tuple(warnings)
