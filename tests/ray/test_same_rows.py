"""One project on this machine, on one node, on three nodes, and as four merged shards: the same rows and verdict."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ray_cluster import RayCluster

TARGETS = """
targets:
  - {name: model, provider: openai, model: m, api_key: "${{ MODEL_KEY }}", base_url: "URL", workers: 2}
  - {name: agent, provider: cli, command_template: "echo done > done.txt; echo the work is done", workers: 2}
"""

ANSWERS = """
description: a model three times, judged by a rule, a model and a program
gates: [mean >= 0.3]
execution:
  target: model
  trials: 3
  evaluators:
    - {name: has, type: contains, value: refund}
    - {name: judged, type: llm_judge, weight: 2}
    - {name: short, type: code_judge, script: [python3, short.py]}
cases:
"""

AGENTS = """
description: an agent in a workspace
gates: [pass_rate >= 0.9]
execution:
  target: agent
  workspace: {template: ../template}
  evaluators:
    - {name: diff, type: contains, source: diff, value: done.txt}
    - {name: files, type: code_judge, script: [python3, files.py]}
cases:
"""

SHORT = """
import json, sys
words = json.load(sys.stdin)["candidate_answer"].split()
print(json.dumps({"score": 1 / len(words), "hits": ["words"], "misses": []}))
"""

FILES = """
import json, os, sys
names = sorted(os.listdir(json.load(sys.stdin)["workspace_path"]))
print(json.dumps({"score": float(names == ["done.txt", "given.txt"]), "hits": names, "misses": []}))
"""

QUESTIONS = ["where is my refund", "when does it come", "a refund, please", "who pays"] * 3

CHANGING = re.compile(
    r'"(run_id|run|seq|timestamp|started_at|ended_at|duration_ms|latency_ms|wait_ms|request_id)":("[^"]*"|[-0-9.e]+)'
    r'|"answer_ref":{[^}]*}'
)
NONCE = re.compile(r'"nonce":"([^"]+)"')


@pytest.fixture(scope="module")
def project(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose model is a fake one in the network of the cluster, and that ran here as `here`."""
    folder = tmp_path_factory.mktemp("project")
    words = cluster.agentv("serve-fake", "--port", "0", "--json")
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=cluster.env)
    try:
        assert server.stdout is not None
        said = "".join(iter(server.stdout.readline, "}\n")) + "}"
        write_project(folder, json.loads(said)["urls"]["openai"])
        run(cluster, folder, "here")
        yield folder
    finally:
        server.terminate()
        server.communicate()


def write_project(folder: Path, url: str) -> None:
    cases = "".join(
        f"  - {{id: case-{number}, input: '{question}', expected_outcome: the refund}}\n"
        for number, question in enumerate(QUESTIONS)
    )
    files = {
        ".agentv/targets.yaml": TARGETS.replace("URL", url),
        "template/given.txt": "given\n",
        "evals/answers.yaml": ANSWERS + cases,
        "evals/agents.yaml": AGENTS + cases,
        "evals/short.py": SHORT,
        "evals/files.py": FILES,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def agentv(cluster: RayCluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run agentv in the network of the cluster, but here."""
    return subprocess.run(
        cluster.agentv(*words), cwd=folder, env=cluster.env, capture_output=True, text=True, check=False
    )


def run(cluster: RayCluster, folder: Path, name: str, *words: str) -> None:
    """Run the project, which passes its gates."""
    done = agentv(cluster, folder, "run", "evals", "--name", name, *words)
    assert done.returncode == 0, done.stdout + done.stderr


def rows_of(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the lines of a run's files without what differs between two runs on one machine, sorted."""
    records = {each: json.loads((each / "run.json").read_text()) for each in (folder / ".agentv" / "runs").iterdir()}
    (found,) = (each for each, record in records.items() if record["name"] == name)
    names = ("cases.jsonl", "answers.jsonl", "results.jsonl")
    return {name: sorted(map(_lasting, (found / name).read_text().splitlines())) for name in names}


def _lasting(line: str) -> str:
    for nonce in set(NONCE.findall(line)):
        line = line.replace(nonce, "NONCE")
    return CHANGING.sub("", line)


def check_same(cluster: RayCluster, project: Path, name: str) -> None:
    assert rows_of(project, name) == rows_of(project, "here")
    verdicts = {each: agentv(cluster, project, "report", each).stdout.splitlines()[-1] for each in ("here", name)}
    assert verdicts[name] == verdicts["here"]
    compared = agentv(cluster, project, "compare", "here", name)
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert "no score changed" in compared.stdout


def test_a_run_on_three_nodes_has_the_rows_of_a_run_here(cluster: RayCluster, project: Path) -> None:
    run(cluster, project, "three", "--backend", "ray", "--ray-address", cluster.address, "--shared-path", str(project))
    check_same(cluster, project, "three")


def test_nodes_with_a_copy_of_the_project_have_the_rows_of_a_run_here(cluster: RayCluster, project: Path) -> None:
    run(cluster, project, "copies", "--backend", "ray", "--ray-address", cluster.address)
    check_same(cluster, project, "copies")


def test_a_run_on_one_node_has_the_rows_of_a_run_here(cluster: RayCluster, project: Path) -> None:
    run(cluster, project, "one", "--backend", "ray")  # without an address: a cluster of one node for the run
    check_same(cluster, project, "one")


def test_four_merged_shards_have_the_rows_of_a_run_here(cluster: RayCluster, project: Path) -> None:
    shards = [f"shard-{number}" for number in range(1, 5)]
    for number, name in enumerate(shards, 1):
        run(cluster, project, name, "--shard", f"{number}/4")
    merged = agentv(cluster, project, "merge", *shards, "--name", "merged")
    assert merged.returncode == 0, merged.stdout + merged.stderr
    check_same(cluster, project, "merged")
