"""Settings of a suite: at the top of its file, or under `execution`."""

from pathlib import Path

import pytest
from tests.loading.specs import SPECS

from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalSuite
from agentv.types.errors import EvalFileError

CASES = """
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
"""


def load(folder: Path, top: str, cases: str = CASES) -> EvalSuite:
    path = folder / "suite.yaml"
    path.write_text(top + cases)
    return load_suite(path, specs=SPECS)


def test_confirm_reruns_is_a_count_with_a_default(tmp_path: Path) -> None:
    assert load(tmp_path, "").confirm_reruns == 2
    assert load(tmp_path, "confirm_reruns: 1").confirm_reruns == 1
    with pytest.raises(EvalFileError, match=r"suite.yaml:1:17 .*must be at least 1"):
        load(tmp_path, "confirm_reruns: 0")
