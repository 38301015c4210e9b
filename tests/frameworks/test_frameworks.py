"""The pages of docs/how-to/frameworks, each with its framework: a run in the environment of the framework's own lock.

The agent of each page has the same two tools and gets the same three questions from the fake model server. The tests
are skipped where uv or npm is missing or the packages cannot be downloaded. CrewAI (835 MB) needs AGENTV_CREWAI=1.
`./run python -m tests.frameworks.record NAME` records what an agent returns, for the tests without its framework.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.environments import NAMES, PAGES, MissingError, prepare, variables
from tests.support.fake_server import serving_fake
from tests.support.judging import make_context
from tests.test_readme import ROOT, blocks_of

from agentv.scoring.tools.recorded_calls import recorded_calls
from agentv.types.messages_json import messages_from_json

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

STATE = "Order {} is on its way."
CALLS = {
    "state": [("find_order", {"order": "7"}, "Order 7 is on its way.")],
    "refund": [
        ("find_order", {"order": "8"}, "Order 8 is on its way."),
        ("refund", {"order": "8", "euros": 5}, "5 euros of order 8 are refunded."),
    ],
    "thanks": [],
}


def results_of(answer: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    messages = messages_from_json(answer["output_messages"])
    calls = recorded_calls(make_context(output_messages=messages)) or ()
    return [(call.tool, call.input, _plain(call.output)) for call in calls]


def _plain(output: Any) -> Any:
    """Return the result of a tool without the object into which the ADK and the AI SDK wrap it."""
    return output.get("result", output.get("value")) if isinstance(output, dict) else output


@pytest.mark.parametrize("name", NAMES)
def test_the_agent_of_a_page_is_read_with_its_calls_their_results_and_its_usage(name: str, tmp_path: Path) -> None:
    try:
        program = prepare(name, tmp_path)
    except MissingError as error:
        pytest.skip(str(error))
    for block in blocks_of(PAGES[name]):
        (tmp_path / block.file).write_text(block.text, "utf-8")
    (tmp_path / ".agentv").mkdir()
    suite = ROOT / "tests" / "frameworks" / "orders.yaml"
    (tmp_path / suite.name).write_bytes(suite.read_bytes())

    with serving_fake() as server:
        command = [str(program), "run", suite.name, "--target", "clerk"]
        done = subprocess.run(
            command, cwd=tmp_path, env=variables(server.url, tmp_path), capture_output=True, text=True, check=False
        )
        requests = len(server.calls)

    assert done.returncode == 0, done.stdout + done.stderr
    (stored,) = (tmp_path / ".agentv" / "runs").glob("*/answers.jsonl")
    answers = {answer["slot"]["eval_id"]: answer for answer in map(json.loads, stored.read_text("utf-8").splitlines())}
    assert {case: results_of(answer) for case, answer in answers.items()} == CALLS
    usages = [answer["usage"] for answer in answers.values()]
    assert requests == sum(usage["requests"] for usage in usages) == 2 + 3 + 1
    assert all(usage["input"] and usage["output"] for usage in usages)
