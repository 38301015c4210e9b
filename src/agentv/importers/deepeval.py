"""Goldens of DeepEval (its cases), as `EvaluationDataset.save_as` writes them, as eval files."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentv.importers.located import Converted, Located, Losses, lost_reason, open_located, require
from agentv.loading.files.documents import Document, Mark
from agentv.loading.files.json_lines import parse_json
from agentv.loading.files.text import decode, read_lines, shown
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import short_messages

GOLDEN_KEYS: Mapping[str, str | None] = {
    "input": None,
    "expected_output": None,
    "context": None,
    "name": None,
    "comments": None,
    "expected_tools": None,
    "additional_metadata": None,
    "custom_column_key_values": None,
    "source_file": None,
    "expectations": "use `rubrics` of the case",
    "actual_output": "score given answers with `agentv score`",
    "retrieval_context": "it is what the agent finds; put it into the answer's messages",
    "tools_called": "score given answers with `agentv score`",
    "token_cost": None,
    "input_token_count": None,
    "output_token_count": None,
}
"""The keys of a golden: None if a key is carried over or has no meaning here, else advice."""

CONVERSATION_KEYS: Mapping[str, str | None] = {
    "turns": None,
    "expected_outcome": None,
    "context": None,
    "name": None,
    "comments": None,
    "additional_metadata": None,
    "custom_column_key_values": None,
    "scenario": None,
    "user_description": "a user is not simulated here; write the turns",
    "persona": "a user is not simulated here; write the turns",
    "expectations": "use `rubrics` of the case",
}
_LOSING_KEYS = ("expectations",)
_ANY_ANSWER = "A correct and helpful answer"
_TURN_KEYS: Mapping[str, str | None] = {"role": None, "content": None}

Settings = dict[str, JsonValue]


def is_deepeval(value: JsonValue) -> bool:
    """Return True for a list of goldens of DeepEval."""
    items = value if isinstance(value, list) else []
    return bool(items) and all(isinstance(item, Mapping) and is_golden(item) for item in items)


def is_golden(item: Mapping[str, JsonValue]) -> bool:
    """Return True for one golden or one conversation of DeepEval."""
    return {"input", "expected_output", "retrieval_context"} <= item.keys() or {"scenario", "turns"} <= item.keys()


def convert_deepeval(path: Path, output: Path) -> Converted:  # noqa: ARG001 - the signature of all converters
    """Return the eval file of goldens in JSON or JSON Lines. Raises EvalFileError for a file that cannot be read."""
    losses = Losses()
    items = list(_located_lines(path, losses) if path.suffix == ".jsonl" else open_located(path, losses).items())
    require(items, path, "it has no goldens")
    names = [item.get("name").text() for item in items]
    cases: list[JsonValue] = []
    for number, (item, name) in enumerate(zip(items, names, strict=True), 1):
        stem = re.sub(r"\s+", "-", name.strip())
        id_ = stem if stem and names.count(name) == 1 else f"{stem or 'golden'}-{number}"
        before = len(losses.errors)
        case = _conversation(item) if "turns" in _keys(item) else _case(item)
        lost = losses.reasons_since(before)
        effect = {("incomplete" if case["input"] else "skip"): lost_reason(lost)} if lost else {}
        cases.append({"id": id_, **{key: value for key, value in case.items() if value}, **effect})
    items[0].drop("metrics are not part of a dataset", "add evaluators: the default is a model that judges")
    return Converted(
        program="DeepEval",
        suite={"$schema": "agentv-eval-v2", "dialect": "agentv", "evalcases": cases},
        cases=len(cases),
        losses=tuple(losses.found),
    )


def _located_lines(path: Path, losses: Losses) -> Iterable[Located]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        document, problems = parse_json(decode(line, shown(path), first_line=number), shown(path), number)
        if document is None:
            raise EvalFileError(shown(path), problems)
        start = Document(document.path, document.value, Mark(number, 1), document.marks)
        yield Located(start, losses, path.parent, value=document.value)


def _keys(item: Located) -> frozenset[str]:
    return frozenset(key for key, _ in item.entries())


def _drop_unsupported(item: Located, known: Mapping[str, str | None], owner: str) -> None:
    """Record the keys with a value that are not carried over; DeepEval writes keys without a value, too."""
    for key, place in item.entries():
        if place.value in (None, "", [], {}):
            continue
        if key not in known:
            place.drop(f"`{key}` is not a known key of {owner}; it is not carried over")
        elif known[key] is not None:
            record = place.lose if key in _LOSING_KEYS else place.drop
            record(f"`{key}` is not carried over", known[key])


def _case(item: Located) -> Settings:
    _drop_unsupported(item, GOLDEN_KEYS, "a golden")
    question = item.get("input").text()
    if not question:
        item.get("input").lose("this golden has no input", "write the question")
    case: Settings = {"expected_outcome": _outcome(item, "expected_output")}
    case["input"] = question
    expected = item.get("expected_output").text()
    if expected:
        case["expected"] = expected
    return case | _metadata(item) | _tool_evaluators(item)


def _outcome(item: Located, key: str) -> str:
    expected = item.get(key).text()
    if not expected:
        item.get(key).drop(f"this golden has no {key}: a judge gets {_ANY_ANSWER!r}", "write what is expected")
    return expected or _ANY_ANSWER


def _conversation(item: Located) -> Settings:
    """Return the case of a conversational golden: its turns up to the last one of the user."""
    _drop_unsupported(item, CONVERSATION_KEYS, "a conversational golden")
    turns: list[JsonObject] = []
    for turn in item.get("turns").items():
        _drop_unsupported(turn, _TURN_KEYS, "a turn")
        turns.append({"role": turn.get("role").text(), "content": turn.get("content").text()})
    while turns and turns[-1]["role"] == "assistant":
        item.get("turns").drop("the last answer of the conversation is not carried over: the target gives it")
        turns.pop()
    if not turns:
        turns = [{"role": "user", "content": item.get("scenario").text()}]
        item.get("scenario").drop("the scenario becomes the question: a user is not simulated here")
    outcome = _outcome(item, "expected_outcome")
    return {"expected_outcome": outcome, "input": short_messages(turns, "user"), **_metadata(item)}


def _metadata(item: Located) -> Settings:
    """Return the entry `metadata` of a case; {} without any."""
    metadata: Settings = {}
    for key in ("additional_metadata", "custom_column_key_values"):
        value = item.get(key).value
        if isinstance(value, Mapping):
            metadata.update(value)
    context = [part.text() for part in item.get("context").items()]
    if context:
        metadata["context"] = context  # the ideal context, which DeepEval does not show to the agent either
    for key in ("comments", "source_file", "scenario"):
        if item.get(key).text():
            metadata[key] = item.get(key).text()
    return {"metadata": metadata} if metadata else {}


def _tool_evaluators(item: Located) -> Settings:
    """Return the entry `evaluators` for expected tools: all must be called, with at least these arguments."""
    expected: list[JsonValue] = []
    for tool in item.get("expected_tools").items():
        arguments = tool.get("inputParameters").value or tool.get("input_parameters").value
        call: Settings = {"tool": tool.get("name").text()}
        expected.append({**call, "args": arguments} if isinstance(arguments, Mapping) else call)
        for key, place in tool.entries():
            if key not in ("name", "type", "inputParameters", "input_parameters") and place.value not in (None, ""):
                place.drop(f"`{key}` of a tool is not carried over")
    if not expected:
        return {}
    judge: Settings = {"name": "answer", "type": "llm_judge"}
    tools: Settings = {"name": "tools", "type": "tool_trajectory", "mode": "superset", "expected": expected}
    return {"evaluators": [judge, tools]}
