"""The files of a job as a user of agentv writes them: a JSONL dataset, its side file, a targets file."""

import json
from pathlib import Path

from bench.harnesses.job import COMMAND, EXPECTED, RUBRIC, Job, question

_TARGETS = {
    "echo": {"provider": "python", "callable": "echo.py:echo"},
    "ask": {"provider": "openai", "model": "fake"},
    "judge": {"provider": "openai", "model": "fake", "judge_target": "default"},
    "commands": {"provider": "cli", "command_template": " ".join((*COMMAND, "{PROMPT}"))},
}
_ECHO = "async def echo(request):\n    return request.question\n"


def write_job(job: Job, folder: Path) -> Path:
    """Write a job's files into a folder, and return its dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    target = {"name": "default", **_TARGETS[job.kind]}
    if job.url:
        target["base_url"] = job.url
    judged = job.kind == "judge"
    evaluator = {"type": "llm_judge"} if judged else {"type": "contains", "value": EXPECTED}
    execution = {"workers": job.at_once, "evaluators": [{"name": "says", **evaluator}]}
    # JSON is valid YAML, and needs no library.
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}), encoding="utf-8")
    (folder / "cases.yaml").write_text(json.dumps({"execution": execution}), encoding="utf-8")
    (folder / "echo.py").write_text(_ECHO, encoding="utf-8")
    dataset = folder / "cases.jsonl"
    with dataset.open("w", encoding="utf-8") as lines:
        for number in range(job.cases):
            messages = [{"role": "user", "content": question(number)}]
            case = {"id": f"case-{number}", "expected_outcome": RUBRIC, "input_messages": messages}
            lines.write(json.dumps(case) + "\n")
    return dataset
