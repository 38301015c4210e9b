"""Agent Skills' `evals.json`: its cases with the keys of AgentV 4, which reads it as a suite."""

from collections.abc import Mapping

from agentv.loading.files.documents import Document
from agentv.loading.importers.rewriting import Entries, Rewriter, Taken, is_list
from agentv.types.json_value import JsonValue

_ASSERTIONS = ("assertions", "expectations")


def is_skills_file(value: JsonValue) -> bool:
    """Return True for the content of an `evals.json`."""
    return isinstance(value, Mapping) and is_list(value.get("evals"))


def with_agentv_keys(source: Document) -> Document:
    """Return the document of an `evals.json` with AgentV's keys; what it does not know stays as it is."""
    rewriter = Rewriter(source)
    given = rewriter.entries(Taken(source.value, ()))
    name = given.pop("skill_name", None)
    cases = given.pop("evals")
    made: Entries = {
        "tests": cases._replace(value=rewriter.list([_case(rewriter, each) for each in rewriter.items(cases)]))
    }
    if name is not None:
        made["name"] = name
        made["metadata"] = name._replace(value=rewriter.object({"skill_name": name}))
    return rewriter.document(rewriter.object({**made, **given}))


def _case(rewriter: Rewriter, taken: Taken) -> Taken:
    given = rewriter.entries(taken)
    if not given:
        return taken
    made = {key: item for key, item in given.items() if key not in ("prompt", "files", *_ASSERTIONS)}
    case_id = given.get("id")
    if case_id is not None and isinstance(case_id.value, int):
        made["id"] = case_id._replace(value=str(case_id.value))
    for ours, theirs in (("input", "prompt"), ("input_files", "files"), ("criteria", "expected_output")):
        if theirs in given:
            made[ours] = given[theirs]
    listed = next((given[key] for key in _ASSERTIONS if key in given), None)
    if listed is not None:
        judges = [_judge(rewriter, each, number) for number, each in enumerate(rewriter.items(listed), 1)]
        made["assertions"] = listed._replace(value=rewriter.list(judges))
    return taken._replace(value=rewriter.object(made))


def _judge(rewriter: Rewriter, taken: Taken, number: int) -> Taken:
    """Return a judge that holds the answer against one sentence."""
    if not isinstance(taken.value, str):
        return taken
    name, kind = Taken(f"assertion-{number}", taken.at), Taken("llm-grader", taken.at)
    return taken._replace(value=rewriter.object({"name": name, "type": kind, "prompt": taken}))
