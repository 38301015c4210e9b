"""What a run names by path besides its eval files: nodes with a copy of the project have it, or the run is refused."""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.contracts.test_packed_projects import ADDRESS
from tests.support.cluster import ProcessMachines, run_on, stored_rows

from agentv.storage.run.blobs import BLOB_LIMIT
from agentv.types.errors import ConfigError
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport

CASES = "cases:\n  - {id: one, input: a question, expected_outcome: A}\n"
HAS = f"execution: {{target: t, evaluators: [{{name: has, type: contains, value: A}}]}}\n{CASES}"
ECHO = (
    "targets: [{name: t, provider: mock, response: A}, {name: judge, provider: python, callable: '../judge.py:answer'}]"
)
JUDGE = """def answer(request):
    first = request.question.partition("A recorded answer")[0]
    return '{"better": "tie", "reasoning": "same"}' if first != request.question else '{"better": "A"}'
"""
SCRIPT = 'import json\nprint(json.dumps({"score": 0.7, "hits": [], "misses": []}))\n'
CODEX = """#!/bin/sh
cat > /dev/null
echo '{"type": "item.completed", "item": {"type": "agent_message", "text": "A program"}}'
"""
PROMPT = "Judge {{ candidate_answer }} by {{ expected_outcome }}"
RECORDED = '{"id": "one", "text": "A recorded answer"}\n'


def judged(evaluator: str) -> str:
    return f"execution: {{target: t, evaluators: [{evaluator}]}}\n{CASES}"


def target(settings: str) -> str:
    return f"targets: [{{name: t, {settings}}}]"


def project_of(folder: Path, files: dict[str, str]) -> Path:
    """Make a repository that ignores the folder `local`, in which everything is that the run names."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for name, text in ({".gitignore": "local/\n.agentv/runs\n", "judge.py": JUDGE} | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()


def away(folder: Path) -> "RunReport":
    """Run a project on a node with a copy of it, while nothing of it is left here."""
    machines = ProcessMachines(1)
    old = {*folder.glob("[!.]*"), *folder.glob(".agentv*"), *folder.glob(".agentv/runs/*")} - {folder / ".agentv"}

    def sent(*given: object) -> ProcessMachines:
        machines(*given)  # type: ignore[arg-type]
        for number, path in enumerate(sorted(old)):
            path.rename(folder.parent / str(number))
        return machines

    return asyncio.run(run_on(folder, sent, backend="ray", ray_address=ADDRESS))


def said(report: RunReport) -> list[CaseResult]:
    """Return the rows of a run without what differs between two runs."""
    return [
        (row.score, row.candidate_answer, row.error, row.hits, row.answer_key, row.score_keys)  # type: ignore[misc]
        for row in stored_rows(report)
    ]


@pytest.mark.parametrize(
    ("targets", "suite", "files"),
    [
        (target("provider: replay, file: ../local/answers.jsonl"), HAS, {"answers.jsonl": RECORDED}),
        (target("provider: cli, cwd: .., command_template: python3 local/agent.py"), HAS, {"agent.py": "print('A')"}),
        (target("provider: python, callable: '../local/own.py:answer'"), HAS, {"own.py": "answer = lambda _: 'A'"}),
        (target("provider: codex, executable: ../local/codex.sh"), HAS, {"codex.sh": CODEX}),
        (ECHO, judged("{name: c, type: code_judge, cwd: ../local, script: [python3, judge.py]}"), {"judge.py": SCRIPT}),
        (ECHO, judged("{name: l, type: llm_judge, target: judge, prompt: ../local/prompt.md}"), {"prompt.md": PROMPT}),
        (ECHO, judged("{name: t, type: toxicity, toxic_terms: ../local/terms.txt}"), {"terms.txt": "A\n"}),
    ],
)  # fmt: skip
def test_files_that_git_ignores_are_sent_if_a_target_or_evaluator_names_them(
    tmp_path: Path, targets: str, suite: str, files: dict[str, str]
) -> None:
    named = {f"local/{name}": text for name, text in files.items()}
    folder = project_of(tmp_path / "project", {".agentv/targets.yaml": targets, "evals/suite.yaml": suite, **named})
    here = said(asyncio.run(run_on(folder, None)))
    assert said(away(folder)) == here != []


@pytest.mark.parametrize("ignored", [".agentv.yaml", ".agentv/"])
def test_the_settings_of_a_project_hold_on_nodes_also_if_git_ignores_them(tmp_path: Path, ignored: str) -> None:
    settings = ".agentv.yaml" if ignored == ".agentv.yaml" else ".agentv/config.yaml"
    files = {".gitignore": ignored, settings: "redact: ['se..et']\n", "evals/suite.yaml": HAS}
    cli = target("provider: cli, command_template: echo A secret")
    folder = project_of(tmp_path / "project", {".agentv/targets.yaml": cli, **files})
    report = away(folder)
    assert [row.candidate_answer for row in stored_rows(report)] == ["A ***"]


LONG = "A recorded answer " + "word " * (BLOB_LIMIT // 4)


@pytest.mark.parametrize("run", ["first", "latest", "latest~1", "../.agentv/runs/RUN"])
@pytest.mark.parametrize("named_by", ["target", "evaluator"])
def test_nodes_read_the_answers_of_a_stored_run(tmp_path: Path, run: str, named_by: str) -> None:
    recorded = f"{{name: r, provider: mock, response: {json.dumps(LONG)}}}"
    before = {
        ".agentv/targets.yaml": f"targets: [{recorded}]",
        "evals/suite.yaml": HAS.replace("target: t", "target: r"),
    }
    folder = project_of(tmp_path / "project", before)
    stored = asyncio.run(run_on(folder, None, name="first"))
    if run == "latest~1":
        asyncio.run(run_on(folder, None))
    assert stored.folder is not None
    run = run.replace("RUN", Path(stored.folder).name)
    again = f"{{name: t, provider: replay, recorded_target: r, run: '{run}'}}"
    judge = "{name: judge, provider: python, callable: '../judge.py:answer'}"
    pairwise = judged(f"{{name: p, type: pairwise, target: judge, against_run: '{run}'}}").replace(
        "target: t", "target: r", 1
    )
    (folder / ".agentv" / "targets.yaml").write_text(f"targets: [{recorded}, {again}, {judge}]")
    (folder / "evals" / "suite.yaml").write_text(HAS if named_by == "target" else pairwise)
    kept = tmp_path / "here"
    here = asyncio.run(run_on(folder, None))
    assert here.folder is not None
    Path(here.folder).rename(kept)
    report = away(folder)
    assert report.folder is not None
    assert outcomes(Path(report.folder)) == outcomes(kept)
    assert outcomes(kept)[0]["error"] is None


def outcomes(run: Path) -> list[dict[str, object]]:
    """Return the outcomes of the stored rows; a long answer is the name of its blob."""
    rows = map(json.loads, (run / "results.jsonl").read_text().splitlines())
    return [{name: row.get(name) for name in ("score", "candidate_answer", "error", "hits")} for row in rows]


def test_an_unknown_run_and_a_file_of_a_dataset_that_git_ignores_are_refused(tmp_path: Path) -> None:
    dataset = HAS.replace(CASES, "cases: {file: ../local/cases.csv}\n")
    files = {"evals/suite.yaml": dataset, "local/cases.csv": "id,input,expected_outcome\none,q,A\n"}
    folder = project_of(tmp_path / "project", {".agentv/targets.yaml": ECHO, **files})
    with pytest.raises(ConfigError, match=r"the file '../local/cases.csv' does not exist.*nothing that git ignores"):
        away(folder)
    replay = target("provider: replay, run: nowhere")
    files = {".agentv/targets.yaml": replay, "evals/suite.yaml": HAS}
    with pytest.raises(ConfigError, match=r"there is no run 'nowhere'"):
        away(project_of(tmp_path / "other" / "project", files))


def test_a_note_names_what_nodes_do_not_have(tmp_path: Path) -> None:
    data = {f"local/{name}.txt": "data" for name in "ab"} | {"data-1.bin": "", ".env": "KEY=x"}
    ignored = {".gitignore": "local/\n*.bin\n.env\n.agentv/runs\n"}
    folder = project_of(tmp_path / "project", {".agentv/targets.yaml": ECHO, "evals/suite.yaml": HAS} | data | ignored)
    report = away(folder)
    assert [note for note in report.notes if "git ignores" in note] == [
        "not sent to the nodes, because git ignores them: data-1.bin, local"
    ]
