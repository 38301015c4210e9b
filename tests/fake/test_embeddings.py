"""Embeddings by each API that has them."""

import base64
import struct

import pytest
from tests.fake.client import post

from agentv.fake import FakeServer


def test_embeddings_come_as_numbers_or_packed(fake_server: FakeServer) -> None:
    body = {"model": "fake", "input": ["one text", "another"], "dimensions": 8}
    plain = post(fake_server, "/v1/embeddings", body).json
    packed = post(fake_server, "/v1/embeddings", {**body, "encoding_format": "base64"}).json
    vectors = [item["embedding"] for item in plain["data"]]
    unpacked = [struct.unpack("<8f", base64.b64decode(item["embedding"])) for item in packed["data"]]
    assert [item["index"] for item in plain["data"]] == [0, 1]
    assert [pytest.approx(vector) for vector in vectors] == [list(vector) for vector in unpacked]
    assert plain["usage"] == {"prompt_tokens": 4, "total_tokens": 4}


def test_azure_and_gemini_embed_the_same(fake_server: FakeServer) -> None:
    openai = post(fake_server, "/v1/embeddings", {"model": "fake", "input": "one text"}).json
    azure = post(fake_server, "/openai/deployments/fake/embeddings?api-version=1", {"input": "one text"}).json
    content = {"parts": [{"text": "one text"}]}
    one = post(fake_server, "/v1beta/models/fake:embedContent", {"content": content}).json
    many = post(fake_server, "/v1beta/models/fake:batchEmbedContents", {"requests": [{"content": content}]}).json
    vector = openai["data"][0]["embedding"]
    assert azure["data"][0]["embedding"] == vector
    assert one["embedding"]["values"] == vector
    assert many["embeddings"] == [{"values": vector}]
