"""Deterministic embeddings: texts that share words have similar vectors."""

import base64
import hashlib
import math
import re
import struct

from agentv.fake import gemini, openai_chat
from agentv.fake.api import Api, Question, Reply, Turn, as_count, as_list, as_object, joined_texts, objects, refused
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_DIMENSIONS = 256
_WORD = re.compile(r"\w+")


def embed(text: str, dimensions: int = _DIMENSIONS) -> list[float]:
    """Return a vector of length 1: each lower-case word adds 1 or -1 at an index derived from its hash."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [""]:
        number = int.from_bytes(hashlib.sha256(word.encode(errors="replace")).digest()[:8])
        vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def _vectors(question: Question) -> list[list[float]]:
    dimensions = as_count(question.options.get("dimensions")) or _DIMENSIONS
    return [embed(turn.text, dimensions) for turn in question.turns]


def _question(model: str, texts: list[str], options: JsonObject) -> Question:
    return Question(model, tuple(Turn("user", text) for text in texts), options=options)


def _read_openai(body: JsonObject, model: str) -> Question:
    given = body.get("input")
    if not given:
        raise refused("Missing required parameter: 'input'.")
    items = as_list(given)
    # A list of numbers is one text, given as token ids.
    texts = [given] if not items or isinstance(items[0], int) else items
    return _question(model, [text if isinstance(text, str) else compact_json(text) for text in texts], body)


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
    return _question(model, texts, {"dimensions": requests[0].get("outputDimensionality")})


def _write_gemini_one(question: Question, _: Reply) -> JsonObject:
    return {"embedding": {"values": _vectors(question)[0]}}


def _write_gemini_many(question: Question, _: Reply) -> JsonObject:
    return {"embeddings": [{"values": vector} for vector in _vectors(question)]}


OPENAI_EMBEDDINGS = Api("openai-embeddings", _read_openai, _write_openai, openai_chat.refuse, speaks=False)
AZURE_EMBEDDINGS = Api(
    "azure-embeddings",
    _read_openai,
    _write_openai,
    openai_chat.refuse,
    speaks=False,
    needed_query=("api-version",),
)
GEMINI_EMBED = Api("gemini-embed", _read_gemini, _write_gemini_one, gemini.refuse, speaks=False)
GEMINI_EMBED_MANY = Api("gemini-embed", _read_gemini, _write_gemini_many, gemini.refuse, speaks=False)
