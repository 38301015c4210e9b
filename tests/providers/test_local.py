"""The local embedding model: MiniLM under numpy, held against sentence-transformers."""

import asyncio
import base64
import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.asking import make_request, make_target

from agentv.execution.sharing import SharedResources
from agentv.providers.local.embeddings import INSTALL_WEIGHTS, LocalProvider, LocalSettings, load_minilm, weights_folder
from agentv.providers.local.minilm import MAX_TOKENS, MiniLm, gelu, load_tensors
from agentv.scoring.text.vectors import cosine
from agentv.types.errors import ConfigError, MissingExtraError
from agentv.types.provider import EmbeddingRequest, EmbeddingResponse, ProviderError

ROOT = Path(__file__).parent.parent.parent
FIXTURE = json.loads((ROOT / "tests" / "fixtures" / "minilm_vectors.json").read_text("utf-8"))["vectors"]
TEXTS = [entry["text"] for entry in FIXTURE]

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors as its authors publish it: huggingface.co/sentence-transformers/all-MiniLM-L6-v2."""


def is_installed() -> bool:
    try:
        LocalSettings().check_embeddings()
    except MissingExtraError:
        return False
    return True


pytestmark = pytest.mark.skipif(not is_installed(), reason=f"the weights are not installed: {INSTALL_WEIGHTS}")


@pytest.fixture(scope="module")
def model() -> MiniLm:
    return load_minilm()


def theirs(entry: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(entry["float32"]), "<f4")


class Tools:
    shared = SharedResources()
    home = ""

    def find_run(self, reference: str) -> str:
        raise LookupError(reference)

    def note(self, message: str) -> None:
        raise AssertionError(message)

    def recorded_rows(self, path: str) -> None:
        raise LookupError(path)

    def counted_lines(self, path: str) -> None:
        raise LookupError(path)


def embed(*texts: str, timeout_s: float | None = None) -> EmbeddingResponse:
    provider = LocalProvider(make_target("local", LocalSettings()), Tools())
    return asyncio.run(provider.embed(EmbeddingRequest(texts, timeout_s)))


@pytest.mark.parametrize("number", range(len(FIXTURE)))
def test_vectors_agree_with_sentence_transformers_to_six_digits(model: MiniLm, number: int) -> None:
    ours = model.encode([TEXTS[number]]).vectors[0]
    assert np.abs(ours - theirs(FIXTURE[number])).max() < 1e-6
    assert ours[:4] == pytest.approx(FIXTURE[number]["first"], abs=2e-6)


def test_a_text_has_the_same_vector_whatever_stands_beside_it(model: MiniLm) -> None:
    together = model.encode(TEXTS * 3).vectors
    for number, vector in enumerate(together):
        assert np.abs(vector - theirs(FIXTURE[number % len(FIXTURE)])).max() < 1e-6


def test_the_weights_are_those_that_the_authors_of_the_model_publish() -> None:
    path = weights_folder() / "model.safetensors"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == WEIGHTS_SHA256


def test_a_text_is_cut_at_256_tokens_and_marked() -> None:
    whole, cut = "word " * (MAX_TOKENS - 2), "word " * (MAX_TOKENS - 1)
    assert embed(whole, cut, "short").cut == {1}
    same = embed(cut, cut + " and a very different end").vectors
    assert cosine(*same) == pytest.approx(1.0)


def test_a_text_of_a_megabyte_is_no_burden() -> None:
    assert embed("word " * 200_000).cut == {0}


def test_half_a_character_is_read_as_a_question_mark() -> None:
    half, mark = embed("half \ud83d one", "half ? one").vectors
    assert half == pytest.approx(mark, abs=1e-6)


def test_a_vector_has_384_numbers_and_length_one() -> None:
    (vector,) = embed("This is safe.").vectors
    assert len(vector) == 384
    assert sum(number * number for number in vector) == pytest.approx(1.0, abs=1e-6)


def test_opposites_lie_close_together() -> None:
    """The numbers of the warning in docs/evaluators about semantic_similarity."""
    safe, unsafe, days, month, rust = embed(*TEXTS[:5]).vectors
    assert round(cosine(safe, unsafe), 2) == 0.89
    assert round(cosine(days, month), 2) == 0.69
    assert abs(cosine(days, rust)) < 0.1


def test_it_answers_no_questions() -> None:
    provider = LocalProvider(make_target("local", LocalSettings()), Tools())
    with pytest.raises(ProviderError, match="cannot answer"):
        asyncio.run(provider.invoke(make_request()))


def test_without_its_packages_it_names_the_commands_that_bring_them() -> None:
    without = "import sys; sys.modules['numpy'] = None"
    code = f"{without}; from agentv.providers.local.embeddings import LocalSettings; LocalSettings().check_embeddings()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'agentv[local]' && {INSTALL_WEIGHTS}" in done.stderr


def test_gelu_is_exact_to_the_last_digits_of_its_numbers() -> None:
    from math import erf, sqrt  # noqa: PLC0415 - the oracle

    numbers = np.linspace(-12, 12, 4001, dtype=np.float32)
    exact = [float(x) * (1 + erf(float(x) / sqrt(2))) / 2 for x in numbers]
    assert np.abs(gelu(numbers) - exact).max() < 2e-6


def safetensors(entry: object, data: bytes, *, header_bytes: int | None = None) -> bytes:
    header = json.dumps({"__metadata__": {"format": "pt"}, "a": entry}).encode()
    return struct.pack("<Q", len(header) if header_bytes is None else header_bytes) + header + data


GOOD = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


def test_tensors_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(GOOD, struct.pack("<4f", 1, 2, 3, 4)))
    assert load_tensors(path)["a"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:53aa\n",
        safetensors(GOOD, b"\0" * 15),
        safetensors(GOOD, b"\0" * 16, header_bytes=2**60),
        safetensors({**GOOD, "shape": [2, 3]}, b"\0" * 16),
        safetensors({**GOOD, "data_offsets": [-16, 0]}, b"\0" * 16),
        safetensors({"dtype": "F32"}, b"\0" * 16),
        safetensors("none", b"\0" * 16),
        struct.pack("<Q", 2) + b"[]",
    ],
)
def test_a_file_that_is_no_model_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"model\.safetensors is not a valid weights file"):
        load_tensors(path)
