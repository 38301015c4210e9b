"""Seed evaluation.md: editors as targets, asked through files."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EDITOR = Path(__file__).parent.parent / "fixtures" / "editor.py"


@pytest.mark.parametrize("provider", ["vscode", "vscode-insiders"])
def test_vs_code_provider(run: Callable[..., Any], tmp_path: Path, provider: str) -> None:
    content = [{"type": "text", "value": "Review it."}, *({"type": "file", "value": name} for name in FILES)]
    suite = {
        "evalcases": [
            {
                "id": case_id,
                "expected_outcome": "Answers",
                "input_messages": [{"role": "user", "content": content}],
                "evaluators": [{"name": "answer", "type": "contains", "value": "Review it."}],
            }
            for case_id in ("a", "b")
        ]
    }
    target = {
        "name": "t",
        "provider": provider,
        "command": f"{sys.executable} -S -E {EDITOR} answer",
        "subagentRoot": "agents",
    }
    files = {f"evals/{name}": "text" for name in FILES}

    def rows(**settings: Any) -> Any:
        return run(json.dumps(suite), targets=json.dumps({"targets": [{**target, **settings}]}), files=files).rows

    # THEN the prompt document links guideline and attachment files and holds the query
    assert [row["status"] for row in rows()] == ["pass", "pass"]
    (first, _) = sorted((tmp_path / "agents" / "subagent-1" / "messages").glob("*_req.md"))
    style, order = ((tmp_path / "evals" / name).as_uri() for name in FILES)
    document = first.read_text()
    assert document.index(f"]({style})") < document.index(f"]({order})") < document.index("[[ ## user_query ## ]]")
    assert "read all of the files" in document

    # AND batches when it is asked to: one message for both cases
    calls = tmp_path / "agents" / "subagent-1" / "calls.jsonl"
    before = len(calls.read_text().splitlines())
    assert [row["status"] for row in rows(providerBatching=True)] == ["pass", "pass"]
    assert len(calls.read_text().splitlines()) == before + 2  # one opens the window, one tells the agent

    # AND a dry run returns what would be asked, and no text
    dry = rows(dryRun=True)
    assert [row["candidate_answer"] for row in dry] == ["", ""]
    assert [row["agent_provider_request"]["dry_run"] for row in dry] == [True, True]


FILES = ("style.instructions.md", "order.json")
