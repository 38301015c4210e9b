"""MiniLM in numpy: a BERT encoder with six layers, which turns each text into a unit vector of 384 numbers.

The arithmetic is that of sentence-transformers for all-MiniLM-L6-v2: at most 256 tokens of a text, the mean over its
tokens, length 1. The vectors agree to 1e-6 with those of sentence-transformers in tests/fixtures/minilm_vectors.json.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped] # has no types
from tokenizers import Encoding, Tokenizer

from agentv.types.errors import ConfigError

Matrix: TypeAlias = NDArray[np.float32]

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 10_000_000
_FLOAT = np.dtype("<f4")


def load_tensors(path: Path) -> Mapping[str, Matrix]:
    """Memory-map a safetensors file and return its float32 tensors by name.

    Raises ConfigError if the file is invalid or cannot be read.
    """
    try:
        raw: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        start = _LENGTH_BYTES + int.from_bytes(raw[:_LENGTH_BYTES].tobytes(), "little")
        # A file that is not safetensors may claim a header of any length.
        header = json.loads(raw[_LENGTH_BYTES : min(start, _MAX_HEADER_BYTES)].tobytes())
        entries = {name: entry for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}
        return {name: _tensor(raw[start:], name, entry) for name, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is not a valid weights file: {error}; install the package again") from error


def _tensor(data: NDArray[np.uint8], name: str, entry: Mapping[str, list[int]]) -> Matrix:
    """Return the tensor that a header's entry describes. Raises ValueError if the data do not have its size."""
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if end > len(data) or end - begin != prod(shape) * _FLOAT.itemsize:
        raise ValueError(f"the tensor {name!r} is truncated")
    return data[begin:end].view(_FLOAT).reshape(shape)


DIMENSIONS = 384
MAX_TOKENS = 256
HEADS = 12
LAYERS = 6

TOKENS_AT_ONCE = 2048
"""The maximum number of tokens per batch, padding included. Larger batches take more memory and are no faster."""

MAX_CHARACTERS = 100_000
"""The number of characters to which a text is cut before tokenization. 256 tokens of common words have far fewer."""

_EPSILON = np.float32(1e-12)
"""Added to each variance, so that no division is by zero; the value is that of BERT."""

_PADDING_BIAS = np.float32(-1e9)
"""Added to the attention scores of padding, so that its share becomes 0."""

# On -4..4, erf(x) is x P(x²) / Q(x²), with an error below 5e-7. P and Q are the polynomials of Eigen and XLA.
_ERF_NUMERATOR = np.array(
    (
        *(-2.72614225801306e-10, 2.77068142495902e-8, -2.10102402082508e-6, -5.69250639462346e-5),
        *(-7.34990630326855e-4, -2.95459980854025e-3, -1.60960333262415e-2),
    ),
    np.float32,
)
_ERF_DENOMINATOR = np.array(
    (-1.45660718464996e-5, -2.13374055278905e-4, -1.68282697438203e-3, -7.37332916720468e-3, -1.42647390514189e-2),
    np.float32,
)
_ERF_BOUND = np.float32(4.0)  # from here on, erf is 1 in float32


class Encoded(Struct, frozen=True):
    """One unit vector per text, as rows; `cut` holds the indices of truncated texts."""

    vectors: Matrix
    cut: frozenset[int]


class MiniLm:
    """The model, loaded from its folder. Not thread-safe: `encode` limits the cores of numpy for the whole process."""

    def __init__(self, folder: Path) -> None:
        self._weights = load_tensors(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._threads = ThreadpoolController()
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the embeddings of texts, and which of the texts were truncated."""
        # Texts are tokenized one by one: for a batch the library starts threads, and warns about them after every fork.
        encodings = [self._tokenizer.encode(_clean(text)) for text in texts]
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        lengths = [len(encoding.ids) for encoding in encodings]
        # The matrices are small: a second core gains little, and BLAS waits for it when it is busy.
        with self._threads.limit(limits=1, user_api="blas"):
            for rows in _batches_of_similar_length(lengths):
                ids, mask = _padded([encodings[row] for row in rows])
                vectors[rows] = _pooled(self._forward(ids, mask), mask)
        cut = (row for row in range(len(texts)) if lengths[row] > MAX_TOKENS or len(texts[row]) > MAX_CHARACTERS)
        return Encoded(vectors, frozenset(cut))

    def _forward(self, ids: NDArray[np.int64], mask: Matrix) -> Matrix:
        """Return the last layer's activations for every token; `mask` is 1 for tokens and 0 for padding."""
        weights = self._weights
        words = weights["embeddings.word_embeddings.weight"][ids]
        positions = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        hidden: Matrix = words + positions + weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normed("embeddings.LayerNorm", hidden)
        padding_bias = ((1 - mask) * _PADDING_BIAS)[:, None, None, :]
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self._attended(f"{name}.attention.self", hidden, padding_bias)
            attention = self._linear(f"{name}.attention.output.dense", attended)
            hidden = self._normed(f"{name}.attention.output.LayerNorm", hidden + attention)
            expanded = gelu(self._linear(f"{name}.intermediate.dense", hidden))
            hidden = self._normed(f"{name}.output.LayerNorm", hidden + self._linear(f"{name}.output.dense", expanded))
        return hidden

    def _attended(self, name: str, hidden: Matrix, padding_bias: Matrix) -> Matrix:
        """Return the self-attention of every token: softmax of scaled products, per head."""
        texts, tokens, width = hidden.shape
        query, key, value = (
            self._linear(f"{name}.{part}", hidden).reshape(texts, tokens, HEADS, width // HEADS).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores: Matrix = query @ key.transpose(0, 1, 3, 2)
        scores *= np.float32((width // HEADS) ** -0.5)
        scores += padding_bias
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        attended: Matrix = (scores @ value).transpose(0, 2, 1, 3).reshape(texts, tokens, width)
        return attended

    def _linear(self, name: str, hidden: Matrix) -> Matrix:
        """Apply the linear layer called `name`."""
        # Flattened to two dimensions: numpy passes a stack of matrices to BLAS one by one, which is slower.
        flat = hidden.reshape(-1, hidden.shape[-1]) @ self._weights[f"{name}.weight"].T
        flat += self._weights[f"{name}.bias"]
        return flat.reshape(*hidden.shape[:-1], -1)

    def _normed(self, name: str, hidden: Matrix) -> Matrix:
        """Apply the layer normalization called `name` in place, and return `hidden`."""
        hidden -= hidden.mean(axis=-1, keepdims=True)
        hidden /= np.sqrt(np.square(hidden).mean(axis=-1, keepdims=True) + _EPSILON)
        hidden *= self._weights[f"{name}.weight"]
        hidden += self._weights[f"{name}.bias"]
        return hidden


def _clean(text: str) -> str:
    """Return a valid input for the tokenizer: limited in length and without lone surrogates."""
    return text[:MAX_CHARACTERS].encode(errors="replace").decode()


def gelu(numbers: Matrix) -> Matrix:
    """Return x (1 + erf(x / √2)) / 2 of each number, as in BERT, not the approximation of it by tanh."""
    result: Matrix = np.clip(numbers * np.float32(0.5**0.5), -_ERF_BOUND, _ERF_BOUND)
    square = result * result
    result *= _polynomial(_ERF_NUMERATOR, square)
    result /= _polynomial(_ERF_DENOMINATOR, square)
    result += np.float32(1)
    result *= numbers
    result *= np.float32(0.5)
    return result


def _polynomial(coefficients: Matrix, x: Matrix) -> Matrix:
    """Return the values of a polynomial; the coefficient of the highest power comes first."""
    total: Matrix = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total


def _batches_of_similar_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of the texts in batches. The texts of a batch have similar lengths and need little padding."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch:
            longest = min(lengths[batch[0]], MAX_TOKENS)  # the longest text comes first
            if longest * (len(batch) + 1) > TOKENS_AT_ONCE:
                yield batch
                batch = []
        batch.append(row)
    if batch:
        yield batch


def _padded(encodings: Sequence[Encoding]) -> tuple[NDArray[np.int64], Matrix]:
    """Return the token ids, at most 256 per text, as one matrix, and a mask of 1 for tokens and 0 for padding."""
    id_lists = [_cut(encoding.ids) for encoding in encodings]
    longest = max(map(len, id_lists))
    ids = np.zeros((len(id_lists), longest), np.int64)
    mask = np.zeros((len(id_lists), longest), np.float32)
    for row, tokens in enumerate(id_lists):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def _cut(ids: Sequence[int]) -> list[int]:
    """Return at most 256 token ids. If some are cut, the id of the end-of-text token is still the last one."""
    return list(ids) if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]


def _pooled(hidden: Matrix, mask: Matrix) -> Matrix:
    """Return the mean over each text's tokens, normalized to length 1."""
    weight = mask[:, :, None]
    mean = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
    unit: Matrix = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    return unit
