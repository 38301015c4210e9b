"""Telemetry that the real Claude Code and Codex send, in a short form for tests/fixtures/agent-logs.

`python -m tests.real_agents.telemetry FOLDER [AGENT...]` records it anew. Events and attributes that no reader looks at
are left out, and paths of this machine are replaced.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.real_agents.transcripts import run_agent
from tests.telemetry.record import receiving

from agentv.types.provider import ProviderResponse

_LEFT_OUT = ("user.", "anthropic.", "terminal.", "auth.", "app.", "host.", "managed_settings.", "plugin", "config.")
_KINDS = ("user_prompt", "assistant_response", "tool_result", "api_request", "sse_event", "api_error")


def run_with_telemetry(agent: str, folder: Path) -> tuple[ProviderResponse, Path, Sequence[dict[str, Any]]]:
    """Call a real agent once; return the response, the transcript and the exports that it sends."""
    with receiving() as (url, bodies):
        response, (transcript,) = run_agent(agent, folder, url)
    exports = [json.loads(body) for path, body in bodies if not path.endswith("/metrics")]
    return response, transcript, exports


def shortened(export: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an export without what no reader looks at."""
    export = json.loads(json.dumps(export).replace(str(folder), "/example"))
    for resource in export.get("resourceLogs", []) + export.get("resourceSpans", []):
        resource["resource"] = {"attributes": [_attribute("service.name", resource)]}
        for scope in resource.get("scopeLogs", []) + resource.get("scopeSpans", []):
            name = "logRecords" if "logRecords" in scope else "spans"
            kept = [each for each in scope[name] if name == "spans" or _kind(each) in _KINDS]
            for each in kept:
                each["attributes"] = [one for one in each["attributes"] if not one["key"].startswith(_LEFT_OUT)]
            scope[name] = kept
    return export


def _attribute(key: str, of: dict[str, Any]) -> dict[str, Any]:
    inner = of.get("resource", of)
    return next((each for each in inner["attributes"] if each["key"] == key), {"key": key, "value": {}})


def _kind(record: dict[str, Any]) -> str:
    return str(_attribute("event.name", record)["value"].get("stringValue")).removeprefix("codex.")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for agent_name in sys.argv[2:] or ("claude", "codex"):
        with tempfile.TemporaryDirectory() as made:
            *_, sent = run_with_telemetry(agent_name, Path(made))
            lines = (json.dumps(shortened(each, Path(made)), separators=(",", ":")) for each in sent)
            (place / f"{agent_name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        print(agent_name, (place / f"{agent_name}.jsonl").stat().st_size)
