"""`--dump-traces` writes one JSON file for each answer, as AgentV's specification of the option says."""

import json
from typing import Any

import pytest
from tests.support.carrying import Project

TALKING_AGENT = """
def answer(request):
    call = {"tool": "lookup", "input": {"id": 1}, "output": "found"}
    said = f"answer to {request.question}"
    return {"text": said, "output_messages": [{"role": "assistant", "content": said, "tool_calls": [call]}]}
"""


def dumped(project: Project) -> dict[str, Any]:
    """The traces of the only run, by file name."""
    (folder,) = (project.folder / ".agentv" / "traces").iterdir()
    assert (project.folder / ".agentv" / "runs" / folder.name).is_dir()
    return {path.name: json.loads(path.read_text("utf-8")) for path in sorted(folder.iterdir())}


def test_each_answer_has_a_file_with_its_tool_calls(project: Project) -> None:
    (project.folder / "agent.py").write_text(TALKING_AGENT)
    project.call("run", "suite.yaml", "--dump-traces", "--trials", "2")
    traces = dumped(project)
    assert list(traces) == [f"{case}_t_trial-{trial}_attempt-0.json" for case in "abc" for trial in (0, 1)]
    first = traces["a_t_trial-0_attempt-0.json"]
    assert (first["eval_id"], first["target"], first["trial"], first["attempt"]) == ("a", "t", 0, 0)
    assert first["trace"] == [{"type": "tool_call", "name": "lookup", "input": {"id": 1}, "output": "found"}]
    assert first["trace_summary"] == {
        "eventCount": 1,
        "toolNames": ["lookup"],
        "toolCallsByName": {"lookup": 1},
        "errorCount": 0,
    }


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (("retry", "latest", "--case", "b"), ["b_t_trial-0_attempt-0_generation-1.json"]),
        (
            ("rescore", "latest", "--evaluators", "others.yaml"),
            [f"{case}_t_trial-0_attempt-0_generation-1.json" for case in "abc"],
        ),
    ],
)
def test_a_further_judgement_has_a_file_of_its_own(
    project: Project, command: tuple[str, ...], files: list[str]
) -> None:
    (project.folder / "agent.py").write_text(TALKING_AGENT)
    (project.folder / "others.yaml").write_text("evaluators: [{name: other, type: contains, value: answer}]")
    project.call("run", "suite.yaml", "--dump-traces")
    before = dumped(project)
    project.call(*command, "--dump-traces")
    added = {name: each for name, each in dumped(project).items() if name not in before}
    assert list(added) == files
    assert all(len(each["trace"]) == 1 for each in added.values())


def test_an_answer_without_a_trace_has_an_empty_one(project: Project) -> None:
    project.call("run", "suite.yaml", "--dump-traces")
    first = dumped(project)["a_t_trial-0_attempt-0.json"]
    assert first["trace"] == []
    assert first["trace_summary"] == {"eventCount": 0, "toolNames": [], "toolCallsByName": {}, "errorCount": 0}


@pytest.mark.parametrize("arguments", [(), ("--include-trace",)])
def test_without_the_option_no_trace_is_written(project: Project, arguments: tuple[str, ...]) -> None:
    project.call("run", "suite.yaml", *arguments)
    assert not (project.folder / ".agentv" / "traces").exists()


def test_a_folder_that_cannot_be_written_is_reported_and_the_run_goes_on(project: Project) -> None:
    (project.folder / ".agentv").mkdir()
    (project.folder / ".agentv" / "traces").write_text("a file")
    code, said = project.call("run", "suite.yaml", "--dump-traces")
    assert code != 0
    assert "--dump-traces" in said
