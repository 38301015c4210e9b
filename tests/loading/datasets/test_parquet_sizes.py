"""Parquet files that unpack to much more than their size: refused, or read with little memory."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.peak import measured

from agentv.loading.datasets.parquet_sizes import ParquetSizeError, batch_rows

arro3 = pytest.importorskip("arro3.core")
SUITE = "execution: {evaluators: [{name: short, type: length, max: 9}]}\nevalcases: {file: rows.parquet}\n"


def save(path: Path, arrays: Mapping[str, object], **options: Any) -> None:
    from arro3.io import write_parquet  # noqa: PLC0415 - an optional package

    write_parquet(arro3.Table.from_pydict(arrays), str(path), **{"compression": "zstd(3)", **options})


def written(path: Path, columns: Mapping[str, Sequence[str]], **options: Any) -> Path:
    save(
        path, {name: arro3.Array(list(values), arro3.DataType.string()) for name, values in columns.items()}, **options
    )
    return path


def rows_at_once(path: Path) -> int:
    with path.open("rb") as file:
        return batch_rows(file)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (lambda: {"input": ["x" * 250_000_000]}, "unpacks to 250,000,004 bytes; at most 100 MiB are read"),
        (lambda: {"input": ["q", "x" * 60_000_000]}, "row 2 has 60,000,.* bytes; at most 16 MiB are read"),
    ],
)
def test_a_cell_that_unpacks_to_too_much_is_an_error(
    columns: Callable[[], dict[str, list[str]]], message: str, tmp_path: Path
) -> None:
    written(tmp_path / "rows.parquet", columns())
    (tmp_path / "suite.yaml").write_text(SUITE)
    found = measured("check", "suite.yaml", cwd=tmp_path)
    assert found.code == 4
    assert "rows.parquet  $  " in found.output
    assert re.search(message, found.output), found.output
    assert found.megabytes < 300


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (lambda: {"input": ["x" * 400_000] * 1_500, "id": [str(number) for number in range(1_500)]}, {}),
        (lambda: {"input": [f"{number}{'x' * 300_000}" for number in range(1_000)]}, {"dictionary_enabled": False}),
        (lambda: {"input": ["🙂" + "x" * 15_000_000]}, {}),
    ],
)
def test_long_cells_are_read_with_little_memory(
    columns: Callable[[], dict[str, list[str]]], options: dict[str, Any], tmp_path: Path
) -> None:
    written(tmp_path / "rows.parquet", columns(), **options)
    (tmp_path / "suite.yaml").write_text(SUITE)
    found = measured("check", "suite.yaml", cwd=tmp_path)
    assert (found.code, found.output) == (0, "1 file checked: no problems found\n")
    assert found.megabytes < 300


def test_short_rows_are_read_many_at_once(tmp_path: Path) -> None:
    columns = {"input": [f"Question {number}" for number in range(2_000)]}
    choices: tuple[dict[str, Any], ...] = (
        {},
        {"dictionary_enabled": False},
        {"writer_version": "parquet_2_0"},
        {"max_row_group_size": 100},
    )
    for options in choices:
        assert rows_at_once(written(tmp_path / "rows.parquet", columns, **options)) > 1000
    assert rows_at_once(written(tmp_path / "rows.parquet", {"input": []})) == 1024


def test_more_values_than_a_file_of_its_size_has_are_an_error(tmp_path: Path) -> None:
    offsets = arro3.Array([0, 2_000_000], arro3.DataType.int32())
    values = arro3.Array([7] * 2_000_000, arro3.DataType.int32())
    path = tmp_path / "rows.parquet"
    save(path, {"input": arro3.list_array(offsets, values)})
    with pytest.raises(
        ParquetSizeError, match=r"'input.*' has 2,000,000 values in .* bytes; at most 1,000,000 are read"
    ):
        rows_at_once(path)


def test_damaged_headers_are_an_error_or_read(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.parquet", {"input": ["a", "b"] * 50, "id": [str(number) for number in range(100)]})
    good = path.read_bytes()
    chance = random.Random(3)
    for _ in range(2_000):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])
        try:
            assert 1 <= rows_at_once(path) <= 1024
        except ParquetSizeError as error:
            assert str(error)  # noqa: PT017 - most are errors, some change nothing
