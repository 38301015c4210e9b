"""Reading the weights of a model: the safetensors format is a JSON header and the raw bytes of every tensor behind it.

https://github.com/huggingface/safetensors#format. The file is mapped into memory, so that processes share its pages.
"""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentv.types.errors import ConfigError

Matrix: TypeAlias = NDArray[np.float32]

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 10_000_000
_FLOAT = np.dtype("<f4")


def load_tensors(path: Path) -> Mapping[str, Matrix]:
    """Map a file and return its float32 tensors by name, read-only. Raises ConfigError when it is no such file."""
    try:
        raw: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        start = _LENGTH_BYTES + int.from_bytes(raw[:_LENGTH_BYTES].tobytes(), "little")
        header = json.loads(raw[_LENGTH_BYTES : min(start, _MAX_HEADER_BYTES)].tobytes())
        entries = {name: entry for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}
        return {name: _tensor(raw[start:], name, entry) for name, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} holds no weights that can be read: {error}; install the package again") from error


def _tensor(data: NDArray[np.uint8], name: str, entry: Mapping[str, list[int]]) -> Matrix:
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if end > len(data) or end - begin != prod(shape) * _FLOAT.itemsize:
        raise ValueError(f"the tensor {name!r} is cut off")
    return data[begin:end].view(_FLOAT).reshape(shape)
