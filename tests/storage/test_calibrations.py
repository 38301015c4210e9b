"""Files of calibrations."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored import NOON

from agentv.storage.judgements.calibrations import (
    calibration_to_record,
    load_calibrations,
    record_to_calibration,
    save_calibration,
)
from agentv.types.errors import StorageError
from agentv.types.summaries import Calibration, Confusion, MeasuredRate

RATE = MeasuredRate(0.9, 20, 18.5)
CALIBRATION = Calibration("tone", "tone", ("aa",), "run-1", NOON, 2, 40, Confusion(18, 2, 2, 18), RATE, None, 0.8)
counts = st.integers(0, 10**6)
rates = st.none() | st.builds(
    MeasuredRate, st.floats(0, 1), counts, st.floats(1e-3, 1e6, allow_nan=False, allow_infinity=False)
)


@given(
    st.builds(
        Calibration,
        st.text(st.characters(codec="utf-8")),
        st.text(st.characters(codec="utf-8")),
        st.lists(st.text("0123456789abcdef"), max_size=4).map(lambda setups: tuple(sorted(setups))),
        st.just("run-1"),
        st.just(NOON),
        counts,
        counts,
        st.builds(Confusion, counts, counts, counts, counts),
        rates,
        rates,
        st.none() | st.floats(-1, 1),
    )
)
def test_a_calibration_survives_a_round_trip(calibration: Calibration) -> None:
    assert record_to_calibration(calibration_to_record(calibration)) == calibration


def test_a_newer_calibration_of_the_same_judge_replaces_the_older(tmp_path: Path) -> None:
    first = save_calibration(tmp_path, CALIBRATION)
    assert save_calibration(tmp_path, CALIBRATION) == first
    assert load_calibrations(tmp_path) == (CALIBRATION,)
    assert first.name.startswith("tone-")


def test_no_folder_is_no_calibration(tmp_path: Path) -> None:
    assert load_calibrations(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "write it again with: agentv judge calibrate"),
        ('{"schema": "agentv-calibration-2"}', "is newer than this agentv supports"),
        ('{"schema": "other-1"}', "expected a record of schema .*write it again with: agentv judge calibrate"),
        ('{"setups": 1}', "setups: expected a list of strings"),
        ('{"setups": [], "kappa": "x"}', "kappa: expected a number"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "calibrations" / "tone.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(StorageError, match=message) as error:
        load_calibrations(tmp_path)
    assert str(file) in str(error.value)


def test_a_fraction_of_a_case_is_refused(tmp_path: Path) -> None:
    file = save_calibration(tmp_path, CALIBRATION)
    file.write_text(json.dumps({**json.loads(file.read_text()), "cases": 2.5}))
    with pytest.raises(StorageError, match=r"cases: expected a whole number, found 2\.5"):
        load_calibrations(tmp_path)
