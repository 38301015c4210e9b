"""Calibrations of judges: small JSON files in `.agentv/calibrations`, meant to be committed."""

import math
from pathlib import Path

from agentv.scoring.keys.identity import digest, slug
from agentv.storage.files.line_file import write_by_rename
from agentv.storage.records.decode import check_schema
from agentv.storage.records.json_line import decode, pretty, time_text
from agentv.storage.records.narrow import read_integer, read_number, read_object, read_text, read_time
from agentv.storage.run.find import calibrations_folder
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.summaries import Calibration, Confusion, MeasuredRate

CALIBRATION_SCHEMA = "agentv-calibration-1"


def save_calibration(home: Path, calibration: Calibration) -> Path:
    """Write a calibration into the `.agentv` folder `home`, replacing an older one of the same judge.

    Raises StorageError.
    """
    key = digest([calibration.evaluator, calibration.criterion, sorted(calibration.setups)])
    path = calibrations_folder(home) / f"{slug(calibration.evaluator) or 'judge'}-{key[:12]}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_by_rename(path, pretty(calibration_to_record(calibration)))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def load_calibrations(home: Path) -> tuple[Calibration, ...]:
    """Return all calibrations of a `.agentv` folder, sorted by file name. Raises StorageError for an invalid one."""
    return tuple(_load(path) for path in sorted(calibrations_folder(home).glob("*.json")))


def _load(path: Path) -> Calibration:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return record_to_calibration(decode(data))
    except (ValueError, StorageError) as error:
        raise StorageError(f"{path}: {error}; write it again with: agentv judge calibrate") from error


def calibration_to_record(calibration: Calibration) -> dict[str, JsonValue]:
    """Return a calibration as a JSON record."""
    confusion = calibration.confusion
    return {
        "schema": CALIBRATION_SCHEMA,
        "evaluator": calibration.evaluator,
        "criterion": calibration.criterion,
        "setups": sorted(calibration.setups),
        "run_id": calibration.run_id,
        "labelled_at": time_text(calibration.labelled_at),
        "annotators": calibration.annotators,
        "cases": calibration.cases,
        "confusion": {
            "both_pass": confusion.both_pass,
            "judge_alone": confusion.judge_alone,
            "people_alone": confusion.people_alone,
            "both_fail": confusion.both_fail,
        },
        "sensitivity": _rate_to_record(calibration.sensitivity),
        "specificity": _rate_to_record(calibration.specificity),
        "kappa": calibration.kappa,
    }


def record_to_calibration(record: JsonObject) -> Calibration:
    """Read a calibration. Raises StorageError for another or newer schema, ValueError for an invalid record."""
    check_schema(record.get("schema"), CALIBRATION_SCHEMA)
    confusion, setups, kappa = read_object(record, "confusion"), record.get("setups"), record.get("kappa")
    if not isinstance(setups, list) or not all(isinstance(each, str) for each in setups):
        raise ValueError("setups: expected a list of strings")
    if not isinstance(kappa, int | float | None):
        raise ValueError("kappa: expected a number or null")  # noqa: TRY004 - callers catch ValueError
    return Calibration(
        evaluator=read_text(record, "evaluator"),
        criterion=read_text(record, "criterion"),
        setups=tuple(map(str, setups)),
        run_id=read_text(record, "run_id"),
        labelled_at=read_time(record, "labelled_at"),
        annotators=read_integer(record, "annotators"),
        cases=read_integer(record, "cases"),
        confusion=Confusion(*(read_integer(confusion, key) for key in Confusion.__struct_fields__)),
        sensitivity=_read_rate(record, "sensitivity"),
        specificity=_read_rate(record, "specificity"),
        kappa=None if kappa is None else float(kappa),
    )


def _rate_to_record(rate: MeasuredRate | None) -> JsonValue:
    return None if rate is None else {"value": rate.value, "rows": rate.rows, "worth": rate.effective_n}


def _read_rate(record: JsonObject, key: str) -> MeasuredRate | None:
    if record.get(key) is None:
        return None
    fields = read_object(record, key)
    value, effective_n = read_number(fields, "value", -1), read_number(fields, "worth")
    if not (0 <= value <= 1 and 0 < effective_n < math.inf):
        raise ValueError(f"{key}: expected a `value` of 0..1 and a `worth` above 0")
    return MeasuredRate(value, read_integer(fields, "rows"), effective_n)
