"""The replies of the fake model: texts, tool calls and embeddings. Equal requests get equal replies."""

import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from agentv.fake import gemini, openai_chat
from agentv.fake.api import (
    CHARACTERS_PER_TOKEN,
    Api,
    Question,
    Reply,
    Tool,
    ToolUse,
    Turn,
    as_count,
    as_list,
    as_object,
    as_text,
    joined_texts,
    objects,
    refused,
)
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_MAX_DEPTH = 8
"""The limit of nested values in an example, and of references to references: a schema may refer to itself."""

_COMBINING_KEYS = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
_FORMATS: Mapping[str, str] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example_object(schema: JsonObject) -> JsonObject:
    """Return an example of a tool's schema, as arguments of a call; {} if the example is not an object."""
    example = example_of(schema)
    return example if isinstance(example, Mapping) else {}


def example_of(schema: JsonObject, *, name: str = "", root: JsonObject | None = None, depth: int = 0) -> JsonValue:
    """Return an example of a schema: its `const` or `default`, the first of its `enum` or `examples`, or a small value.

    `name` is the name of the property, for example texts such as "some city". References are resolved in `root`, which
    is the schema itself by default. `depth` is the number of objects and arrays around the value; from a depth of 8 on,
    None takes the place of a small value.
    """
    root = schema if root is None else root
    schema = _merged(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if as_list(schema.get(key)):
            return as_list(schema[key])[0]
    kind = _type_of(schema)
    if depth >= _MAX_DEPTH:
        return None
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        count = as_count(schema.get("minItems")) or 1
        item = example_of(as_object(schema.get("items")), name=name, root=root, depth=depth + 1)
        return [item] * min(count, as_count(schema.get("maxItems")) or count)
    return _scalar(schema, kind, name)


def _object(schema: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    """Return an example with the required properties, or with all properties if none is required."""
    properties = as_object(schema.get("properties"))
    required = [as_text(name) for name in as_list(schema.get("required"))]
    return {
        name: example_of(as_object(properties.get(name)), name=name, root=root, depth=depth + 1)
        for name in required or properties
    }


def _scalar(schema: JsonObject, kind: str, name: str) -> JsonValue:
    if kind in ("integer", "number"):
        for bound in ("minimum", "exclusiveMinimum", "maximum"):
            limit = schema.get(bound)
            if isinstance(limit, int | float):
                return limit + 1 if bound == "exclusiveMinimum" else limit
        return 1
    if kind in ("boolean", "null"):
        return True if kind == "boolean" else None
    text = _FORMATS.get(as_text(schema.get("format"))) or f"some {name or 'text'}"
    text = text.ljust(as_count(schema.get("minLength")) or 0, ".")
    return text[: as_count(schema.get("maxLength"))]


def _type_of(schema: JsonObject) -> str:
    types = as_list(schema.get("type")) or [schema.get("type")]
    name = as_text(types[0]).lower()  # Gemini's types are in upper case
    if name:
        return name
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _merged(schema: JsonObject, root: JsonObject) -> JsonObject:
    """Return the schema with the keys of its `_parts_to_merge` in place of `$ref`, `anyOf`, `oneOf` and `allOf`.

    Parts may have such keys too, so this is repeated. A `$ref` that does not start with "#/" is ignored.
    """
    for _ in range(_MAX_DEPTH):
        parts = _parts_to_merge(schema, root)
        if not parts:
            break
        schema = {key: value for key, value in schema.items() if key not in _COMBINING_KEYS}
        for part in parts:
            schema = {**schema, **part}
    return schema


def _parts_to_merge(schema: JsonObject, root: JsonObject) -> list[JsonObject]:
    """Return the first schema of anyOf, the first of oneOf, all of allOf, and the schema that $ref names in `root`."""
    first_of_any, first_of_one = (objects(schema.get(key))[:1] for key in ("anyOf", "oneOf"))
    parts = [*first_of_any, *first_of_one, *objects(schema.get("allOf"))]
    reference = as_text(schema.get("$ref"))
    if reference.startswith("#/"):
        found: JsonObject = root
        for step in reference[2:].split("/"):
            found = as_object(found.get(step))
        parts.append(found)
    return parts


_GENERATION_PROMPT = re.compile(r'^- "nonce": "([^"]+)", copied exactly\n- "(rubrics|cases)": ', re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?\n]+")
_MAX_SENTENCES = 3


def generated_reply(question: Question) -> str | None:
    """Return the reply to a prompt of `agentv generate`, as JSON; None for any other prompt."""
    # A target without a system prompt gets the instructions at the start of the user's text.
    prompt = _GENERATION_PROMPT.search(f"{question.system}\n{question.user_text}")
    if prompt is None:
        return None
    nonce, key = prompt.groups()
    fence_name = "expected_outcome" if key == "rubrics" else "record"
    sentences = _sentences(question.user_text, fence_name, nonce)
    items: list[JsonValue] = [_rubric(text) if key == "rubrics" else _case(text) for text in sentences]
    return compact_json({"nonce": nonce, key: items})


def _sentences(user_text: str, fence_name: str, nonce: str) -> list[str]:
    """Return the first three sentences inside the fence of this name, or of the whole text if it has no such fence."""
    label = f"{fence_name} {re.escape(nonce)}"
    found = re.search(rf"<<<{label}>>>\n(.*?)\n<<<end of {label}>>>", user_text, re.DOTALL)
    texts = (text.strip(' "{}[]#*-') for text in _SENTENCE.findall(found[1] if found else user_text))
    return [text for text in texts if text][:_MAX_SENTENCES]


def _rubric(text: str) -> JsonObject:
    return {"id": "", "description": f"Says: {text}", "weight": 1, "required": False}


def _case(text: str) -> JsonObject:
    return {"id": "", "input": f"Tell me about: {text}", "expected_outcome": text, "rubrics": [_rubric(text)]}


_REPLY_LINE = re.compile(
    r'\n*^Reply with one JSON object with the keys "nonce" \("([^"]+)", copied exactly\), (.*)\.\Z', re.MULTILINE
)
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\]\n", re.MULTILINE)
_REQUIREMENT = re.compile(r"^- (.+?)(?: \(((?:required|graded \d+ to \d+|, )+)\))?: (.*)$", re.MULTILINE)
_GRADED = re.compile(r"graded (\d+) to (\d+)")
_CRITERION = re.compile(r'^- ("(?:[^"\\]|\\.)*")(?:: (.*))? Score: (.*)$', re.MULTILINE)
_RANGE = re.compile(r"a number from (\S+) \(worst\) to (\S+) \(best\)")
_SCORE = re.compile(r'"score" \((.+)\)$')
_LABELS = re.compile(r"one of (.+) \(from worst to best\)")
_WORD = re.compile(r"\w{4,}|\d+")
_MAX_FINDINGS = 4
_PASSING_SHARE = 0.5


def judge_reply(question: Question) -> str | None:
    """Return the verdict for a judge's prompt, as JSON; None for any other prompt.

    A judge's prompt ends with a line that names the nonce and the other keys of the reply, in the words of
    `_REPLY_LINE`; a prompt of `agentv generate` uses other words.
    """
    found = _REPLY_LINE.search(question.user_text)
    if found is None:
        return None
    nonce, keys = found.groups()
    prompt = question.user_text[: found.start()]
    if '"better"' in keys:
        return compact_json(_preference(nonce, prompt))
    candidate, sections = _answer_and_sections(prompt, nonce)
    if '"checks"' in keys:
        return compact_json(_checks(nonce, candidate, sections.get("requirements", "")))
    if '"criteria"' in keys:
        return compact_json(_scores(nonce, candidate, sections.get("criteria", "")))
    scores = _SCORE.search(keys)
    return compact_json(_verdict(nonce, candidate, sections, scores[1] if scores else ""))


def overlap(expected: str, candidate: str) -> tuple[list[str], list[str]]:
    """Return the words of `expected` that are in the candidate, and those that are not: each once, in lower case.

    Only numbers and words of at least four letters count.
    """
    present = set(_words(candidate))
    words = list(dict.fromkeys(_words(expected)))
    return [word for word in words if word in present], [word for word in words if word not in present]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _found_share(found: Iterable[str], missing: Iterable[str]) -> float:
    hits, misses = len(list(found)), len(list(missing))
    return hits / (hits + misses) if hits + misses else 0.0


def _fence(nonce: str) -> re.Pattern[str]:
    return re.compile(rf"<<<(\w+) {re.escape(nonce)}>>>\n(.*?)\n?<<<end of \1 {re.escape(nonce)}>>>", re.DOTALL)


def _answer_and_sections(prompt: str, nonce: str) -> tuple[str, Mapping[str, str]]:
    """Return the fenced text, which is the answer to judge, and the text of each section outside of fences by name.

    In a prompt without sections, all text outside of fences is one section with the name "".
    """
    fence = _fence(nonce)
    candidate = "\n".join(found.group(2) for found in fence.finditer(prompt))
    unfenced = fence.sub("", prompt)
    _, *names_and_texts = _SECTION.split(unfenced)
    sections = dict(zip(names_and_texts[::2], names_and_texts[1::2], strict=True))
    return candidate, sections or {"": unfenced}


def _verdict(nonce: str, candidate: str, sections: Mapping[str, str], allowed: str) -> JsonObject:
    """Return the verdict by the share of the expected words that are in the answer.

    Those are the words of the expected outcome or of the reference answer, whichever gives the higher share; without
    both, they are the words of all sections.
    """
    texts = [sections.get(name, "").strip() for name in ("expected_outcome", "reference_answer")]
    expected = [text for text in texts if text not in ("", "(none given)")] or ["\n".join(sections.values())]
    overlaps = [overlap(text, candidate) for text in expected]
    found, missing = max(overlaps, key=lambda pair: _found_share(*pair))
    share = round(_found_share(found, missing), 2)
    score: JsonValue = share
    # On the scale from 0 to 1, the only one described with "0.0", the share is the score. `_on_scale` cannot read that
    # description, because its bounds are not called worst and best.
    if allowed and not allowed.startswith("a number from 0.0 ("):
        score = _on_scale(share, allowed)
    return {
        "nonce": nonce,
        "score": score,
        "hits": [f"says {word!r}" for word in found[:_MAX_FINDINGS]],
        "misses": [f"does not say {word!r}" for word in missing[:_MAX_FINDINGS]],
        "reasoning": f"{len(found)} of {len(found) + len(missing)} expected words are in the answer.",
    }


def _preference(nonce: str, prompt: str) -> JsonObject:
    """Return the verdict "A", "B" or "tie": which answer shares more words with the prompt's sections."""
    answers = {found.group(1): found.group(2) for found in _fence(nonce).finditer(prompt)}
    _, sections = _answer_and_sections(prompt, nonce)
    expected = "\n".join(sections.values())
    shared_a, shared_b = (len(overlap(expected, answers.get(name, ""))[0]) for name in ("answer_a", "answer_b"))
    better = "tie"
    if shared_a != shared_b:
        better = "A" if shared_a > shared_b else "B"
    return {"nonce": nonce, "reasoning": f"A shares {shared_a} words, B {shared_b}.", "better": better}


def _checks(nonce: str, candidate: str, requirements: str) -> JsonObject:
    checks = [_check(requirement, candidate) for requirement in _REQUIREMENT.finditer(requirements)]
    return {"nonce": nonce, "checks": checks, "overall_reasoning": "Judged by the words of each requirement."}


def _check(requirement: re.Match[str], candidate: str) -> JsonObject:
    name, marks, description = requirement.groups()
    found, missing = overlap(description, candidate)
    share = _found_share(found, missing)
    graded = _GRADED.search(marks or "")
    judgement: JsonObject = {"satisfied": share >= _PASSING_SHARE}
    if graded is not None:
        lowest, highest = map(int, graded.groups())
        judgement = {"score": lowest + round((highest - lowest) * share)}
    return {
        "id": name,
        **judgement,
        "reasoning": f"{len(found)} of {len(found) + len(missing)} words are in the answer.",
    }


def _scores(nonce: str, candidate: str, criteria: str) -> JsonObject:
    scores = [_score(line, candidate) for line in _CRITERION.finditer(criteria)]
    return {"nonce": nonce, "criteria": scores, "overall_reasoning": "Judged by the words of each criterion."}


def _score(line: re.Match[str], candidate: str) -> JsonObject:
    name = json.loads(line[1])
    found, missing = overlap(line[2] or name, candidate)
    reasoning = f"{len(found)} of {len(found) + len(missing)} words are in the answer."
    return {"name": name, "score": _on_scale(_found_share(found, missing), line[3]), "reasoning": reasoning}


def _on_scale(share: float, allowed: str) -> JsonValue:
    """Return the score for a share from 0 to 1. `allowed` is the judge prompt's description of the allowed scores."""
    if bounds := _RANGE.fullmatch(allowed):
        low, high = float(bounds[1]), float(bounds[2])
        return round(low + (high - low) * share, 2)
    if listed := _LABELS.fullmatch(allowed):
        labels: list[JsonValue] = json.loads(f"[{listed[1]}]")
        return labels[round(share * (len(labels) - 1))]
    if allowed.startswith("a text"):
        return "some" if share else "none"
    passed = share >= _PASSING_SHARE
    return passed if allowed.startswith("true") else ("pass" if passed else "fail")


CALLS_TOOL = "calls-tool"
"""The model of this name calls a tool of the request before it answers, even if the request does not require one."""

_MAX_ECHOED = 300
_STEP = re.compile(r"^@(call|say) +(.+)$", re.MULTILINE)


def answer(question: Question) -> Reply:
    """Return the reply to a request. The first rule that applies decides.

    1. A judge's prompt gets a verdict (`judge_reply`).
    2. Lines `@call TOOL {"json": "arguments"}` and `@say TEXT` in a user's text are steps (`_scripted_reply`).
    3. The model `calls-tool`, and any model that is required to call a tool, calls one, unless it just got a result.
    4. A prompt of `agentv generate` gets cases or rubrics (`generated_reply`).
    5. A request for JSON gets an example of its schema.
    6. The result of a tool is repeated, or else the user's last text: 300 characters at most.

    The reply has a constant thinking text if the request wants thinking. `max_tokens` limits the text of the reply.
    """
    reply = _reply_to(question)
    if question.thinks:
        reply = replace(reply, thinking="The user said something; I repeat it.")
    limit = (question.max_tokens or 0) * CHARACTERS_PER_TOKEN
    if question.max_tokens is not None and len(reply.text) > limit:
        reply = replace(reply, text=reply.text[:limit], finish="length")
    return reply


def _reply_to(question: Question) -> Reply:
    verdict = judge_reply(question)
    if verdict is not None:
        return Reply(verdict)
    step = _scripted_reply(question)
    if step is not None:
        return step
    result = _unused_tool_result(question)
    wants_tool = question.must_call is not None or question.base_model == CALLS_TOOL
    if question.tools and wants_tool and result is None:
        tool = next((tool for tool in question.tools if tool.name == question.must_call), question.tools[0])
        return _tool_call_reply(question, tool)
    generated = generated_reply(question)
    if generated is not None:
        return Reply(generated)
    if question.schema is not None:
        return Reply(compact_json(example_of(question.schema)))
    if result is not None:
        return Reply(f"The tool answered: {result[:_MAX_ECHOED]}")
    return Reply(f"You said: {question.user_text[:_MAX_ECHOED]}")


def _unused_tool_result(question: Question) -> str | None:
    """Return the result of a tool if it is the last turn, apart from system turns; else None."""
    last = next((turn for turn in reversed(question.turns) if turn.role != "system"), None)
    return last.text if last is not None and last.role == "tool" else None


def _scripted_reply(question: Question) -> Reply | None:
    """Return the next step of the last user's text that has steps; None without such a text.

    The number of tool results after that text is the number of steps that are done. A `@say` has no tool result, so it
    is never done: each later reply repeats it. If all steps are done, the reply repeats the result of the last
    `@call`, or nothing if another message follows that result.
    """
    scripts = [index for index, turn in enumerate(question.turns) if _is_script(turn)]
    if not scripts:
        return None
    script, *later = question.turns[scripts[-1] :]
    steps = _STEP.findall(script.text)
    done = sum(turn.role == "tool" for turn in later)
    kind, text = steps[min(done, len(steps) - 1)]
    if kind == "say":
        return Reply(text)
    if done >= len(steps):
        return Reply(f"The tool answered: {(_unused_tool_result(question) or '')[:_MAX_ECHOED]}")
    name, _, given = text.partition(" ")
    tool = next((tool for tool in question.tools if tool.name == name), Tool(name, {}))
    try:
        arguments = as_object(json.loads(given)) if given else example_object(tool.schema)
    except ValueError as error:
        return Reply(f"The arguments of @call {name} are not valid JSON: {error}")
    return Reply(tool_uses=(ToolUse(name, arguments, _call_id(question, done), tool.custom),), finish="tool")


def _is_script(turn: Turn) -> bool:
    return turn.role == "user" and _STEP.search(turn.text) is not None


def _tool_call_reply(question: Question, tool: Tool) -> Reply:
    arguments = {"input": "some input"} if tool.custom else example_object(tool.schema)
    return Reply(tool_uses=(ToolUse(tool.name, arguments, _call_id(question, 0), tool.custom),), finish="tool")


def _call_id(question: Question, step: int) -> str:
    return f"call_{question.digest[:16]}{step}"


_DIMENSIONS = 256
_EMBEDDED_WORD = re.compile(r"\w+")


def embed(text: str, dimensions: int = _DIMENSIONS) -> list[float]:
    """Return a vector of length 1, or of length 0 if the words cancel each other out.

    The hash of each word, in lower case, selects an index and whether 1 or -1 is added at that index.
    """
    vector = [0.0] * dimensions
    for word in _EMBEDDED_WORD.findall(text.lower()) or [""]:
        number = int.from_bytes(hashlib.sha256(word.encode(errors="replace")).digest()[:8])
        vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def _vectors(question: Question) -> list[list[float]]:
    dimensions = as_count(question.options.get("dimensions")) or _DIMENSIONS
    return [embed(turn.text, dimensions) for turn in question.turns]


def _embedding_question(model: str, texts: list[str], options: JsonObject) -> Question:
    return Question(model, tuple(Turn("user", text) for text in texts), options=options)


def _read_openai(body: JsonObject, model: str) -> Question:
    given = body.get("input")
    if not given:
        raise refused("Missing required parameter: 'input'.")
    items = as_list(given)
    # A list of numbers is one text as token ids; a list of such lists is several texts.
    texts = [given] if not items or isinstance(items[0], int) else items
    return _embedding_question(model, [text if isinstance(text, str) else compact_json(text) for text in texts], body)


def _write_openai(question: Question, _: Reply) -> JsonObject:
    packed = question.options.get("encoding_format") == "base64"
    vectors: list[JsonValue] = [_pack(vector) if packed else vector for vector in _vectors(question)]
    return {
        "object": "list",
        "model": question.model,
        "data": [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)],
        "usage": {"prompt_tokens": question.input_tokens, "total_tokens": question.input_tokens},
    }


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _read_gemini(body: JsonObject, model: str) -> Question:
    requests = objects(body.get("requests")) or [body]
    texts = [joined_texts(as_object(request.get("content")).get("parts")) for request in requests]
    return _embedding_question(model, texts, {"dimensions": requests[0].get("outputDimensionality")})


def _write_gemini_one(question: Question, _: Reply) -> JsonObject:
    return {"embedding": {"values": _vectors(question)[0]}}


def _write_gemini_many(question: Question, _: Reply) -> JsonObject:
    return {"embeddings": [{"values": vector} for vector in _vectors(question)]}


OPENAI_EMBEDDINGS = Api("openai-embeddings", _read_openai, _write_openai, openai_chat.refuse, has_reply=False)
AZURE_EMBEDDINGS = Api(
    "azure-embeddings",
    _read_openai,
    _write_openai,
    openai_chat.refuse,
    has_reply=False,
    needed_query=("api-version",),
)
GEMINI_EMBED = Api("gemini-embed", _read_gemini, _write_gemini_one, gemini.refuse, has_reply=False)
GEMINI_EMBED_MANY = Api("gemini-embed", _read_gemini, _write_gemini_many, gemini.refuse, has_reply=False)
