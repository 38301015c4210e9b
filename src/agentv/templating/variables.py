"""`{{ name }}` in judge prompts, and in other templates with a fixed set of names, such as HTTP requests.

A value that was filled in is not searched for further names.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from agentv.templating.case_variables import fill_prompt, find_value
from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue

ANSWER_NAMES = ("candidate_answer", "output_messages", "conversation", "diff")
"""The variables that contain the answer: a judge prompt must use at least one of them."""

JUDGE_VARIABLES = (
    "question",
    "system_prompt",
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
    "criteria",
    "metadata",
    "rubrics",
    "tool_calls",
)
"""The variables of judge prompts (docs/reference/evaluators/llm_judge.md), besides `context.PATH`."""

ALIASES = {
    "response": "candidate_answer",
    "output": "candidate_answer",
    "answer": "candidate_answer",
    "input": "question",
    "prompt": "question",
    "reference": "reference_answer",
    "ground_truth": "reference_answer",
    "groundTruth": "reference_answer",
    "expected_output": "reference_answer",
    "file_changes": "diff",
    "input_text": "question",
    "output_text": "candidate_answer",
    "expected_output_text": "reference_answer",
    "metadata_json": "metadata",
    "rubrics_json": "rubrics",
    "EVALUATOR_RESULTS_JSON": "evaluator_results",
    **{re.sub("_(.)", lambda letter: letter[1].upper(), name): name for name in JUDGE_VARIABLES if "_" in name},
}
"""Other names of judge variables: those of AgentDock and AgentV 4, and camelCase."""

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][^\s{}]*)\s*\}\}")


def fill(template: str, value_of: Callable[[str], str | None], variables: Mapping[str, JsonValue] | None = None) -> str:
    """Replace each `{{ name }}` by its value; a name without a value is left as written.

    With `variables`, a name for which `value_of` returns None is looked up in `variables`, where it may be a path
    (`a.b`). A name with filters is looked up only there. Without `variables`, there are no filters, and `value_of` is
    called once for each name.
    """
    if variables:
        return fill_prompt(template, value_of, variables)
    values: dict[str, str] = {}
    unknown: set[str] = set()

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values and name not in unknown:
            value = value_of(name)
            if value is None:
                unknown.add(name)
            else:
                values[name] = value
        return values.get(name, match[0])

    return _VARIABLE.sub(replacement, template)


def variable_names(template: str) -> tuple[str, ...]:
    """Return the names that a template uses, each once, in order."""
    return tuple(dict.fromkeys(_VARIABLE.findall(template)))


def canonical_name(name: str) -> str:
    """Return the standard name of a variable, which may be given by an alias."""
    return ALIASES.get(name, name)


def is_built_in(name: str, known: Iterable[str] = JUDGE_VARIABLES) -> bool:
    """Return True for the name or alias of one of the `known` variables, and for `context.PATH`."""
    return canonical_name(name) in known or name.startswith("context.")


def template_problems(
    template: str,
    *,
    known: Iterable[str] = JUDGE_VARIABLES,
    needed: Iterable[str] = ANSWER_NAMES,
    allow_unknown: bool = False,
    variables: Mapping[str, JsonValue] | None = None,
) -> tuple[str, ...]:
    """Return the problems of a judge prompt: unknown names unless they are allowed, or no variable with the answer.

    An unknown name would not be replaced, so that the judge would read `{{ name }}`. The prompt has to use at least one
    of `needed`.
    """
    built_in = tuple(known)
    names = variable_names(template)
    custom = variables or {}
    unknown = [name for name in names if not is_built_in(name, built_in) and not _has_value(name, custom)]
    problems = [] if allow_unknown else [f"unknown variable {_with_suggestion(name, built_in)}" for name in unknown]
    if problems:
        listed = ", ".join((*built_in, "context.PATH"))
        problems[-1] += f"; known: {listed}; `allow_unknown: true` leaves other names as text"
    if {canonical_name(name) for name in names}.isdisjoint(needed):
        answers = ", ".join(f"{{{{ {name} }}}}" for name in needed)
        problems.append(f"the prompt shows the judge no answer: it uses none of {answers}")
    return tuple(problems)


def _has_value(name: str, variables: Mapping[str, JsonValue]) -> bool:
    """Return True if a name, which may have filters, has a value from the variables or from the filter `default`."""
    plain_name, *filters = name.split("|")
    return find_value(plain_name, variables)[1] or any(each.startswith("default(") for each in filters)


def _with_suggestion(name: str, known: Iterable[str]) -> str:
    near = nearest(name, [*known, *ALIASES])
    return f"{{{{ {name} }}}}" + (f" (did you mean {{{{ {near} }}}}?)" if near else "")
