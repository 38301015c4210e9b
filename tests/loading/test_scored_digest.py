"""The digest of an eval file without its settings that change no score: gates may be edited between two runs."""

import json
from pathlib import Path

import pytest
import yaml
from tests.loading.specs import SPECS

from agentv.loading.suites.suites import load_suite

CASE = "{id: a, input: Hi, evaluators: [{name: hi, type: contains, value: hi}]}"
CASES = f"evalcases: [{CASE}]\n"
SETTINGS = "gates: [pass_rate >= 90%]\nconfirm_reruns: 3\nworkers: 4\nbudget_usd: 2\n"
IN_EXECUTION = "execution: {workers: 4, budgetUsd: 2}\n"


def as_json(text: str) -> str:
    return json.dumps(yaml.safe_load(text))


def digest(folder: Path, text: str, name: str = "s.yaml") -> str:
    (folder / name).write_text(text)
    return load_suite(folder / name, specs=SPECS).scored_sha256


@pytest.mark.parametrize("settings", [SETTINGS, IN_EXECUTION], ids=["at the top", "under execution"])
@pytest.mark.parametrize("is_json", [False, True], ids=["YAML", "JSON"])
def test_settings_that_change_no_score_do_not_count(tmp_path: Path, settings: str, *, is_json: bool) -> None:
    name = "s.json" if is_json else "s.yaml"
    plain, gated = ((as_json(text) if is_json else text) for text in (CASES, CASES + settings))
    assert digest(tmp_path, gated, name) == digest(tmp_path, plain, name)


@pytest.mark.parametrize(
    "other",
    [
        CASES.replace("Hi", "Hello"),
        CASES.replace("value: hi", "value: ho"),
        f"{CASES}pass_score: 0.5\n",
        f"{CASES}execution: {{trials: 3, workers: 4}}\n",
    ],
)
def test_all_else_counts(tmp_path: Path, other: str) -> None:
    assert digest(tmp_path, other) != digest(tmp_path, CASES)


def test_comments_and_layout_do_not_count(tmp_path: Path) -> None:
    assert digest(tmp_path, f"# two lines\nevalcases:\n  - {CASE}\n") == digest(tmp_path, CASES)
