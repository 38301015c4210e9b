"""Every block of docs/how-to/machines.md works on a real cluster."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.ray_cluster import MODEL_KEY_VALUE, RayCluster, object_store
from tests.test_readme import MACHINES, blocks_of


def test_every_block_of_the_page_holds(cluster: RayCluster, tmp_path: Path) -> None:
    blocks = blocks_of(MACHINES)
    for block in blocks:
        if block.file:
            path = tmp_path / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
    checked = 0
    for block in blocks:
        if block.language == "console":
            command, said = block.text.split("\n", 1)
            words = command.removeprefix("$ agentv ").removesuffix(" | tail -n 1").split()
            done = cluster.run(tmp_path, *words)
            assert done.stdout.splitlines()[-1] == said.strip(), done.stdout + done.stderr
            checked += 1
    assert checked == 2


SECRETS = (MODEL_KEY_VALUE.encode(), b"sk-canary-of-the-driver", b"sk-canary-of-a-file")


@pytest.fixture
def secret_project(tmp_path: Path) -> Path:
    """A project whose target takes its key from a variable of all machines, with another one in a `.env` file."""
    (tmp_path / ".env").write_text("OTHER_KEY=sk-canary-of-a-file-5b1f0c7e\n")
    (tmp_path / "targets.yaml").write_text(
        "targets:\n  - {name: t, provider: openai, model: m, base_url: 'http://127.0.0.1:9', "
        "api_key: '${{ MODEL_KEY }}', max_retries: 0}\n"
    )
    (tmp_path / "evals.yaml").write_text(
        "execution: {target: t, evaluators: [{name: e, type: contains, value: a}]}\n"
        "evalcases:\n  - {id: a, input: b, expected_outcome: text of a case}\n"
    )
    return tmp_path


def test_no_secret_is_in_a_file_of_the_cluster_or_of_the_run(cluster: RayCluster, secret_project: Path) -> None:
    done = cluster.run(secret_project, "run", "evals.yaml", CANARY="sk-canary-of-the-driver")
    assert "INCOMPLETE: no result could be judged" in done.stdout, done.stdout + done.stderr
    for folder in (secret_project, cluster.folder):
        for path in folder.rglob("*"):
            if path.is_file() and path != secret_project / ".env":
                found = path.read_bytes()
                assert not [secret for secret in SECRETS if secret in found], path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory that Ray's processes share")
def test_no_secret_is_in_the_object_store_that_has_the_project(cluster: RayCluster, secret_project: Path) -> None:
    (secret_project / "large.bin").write_bytes(bytes(range(256)) * 1_000)  # Ray keeps small objects elsewhere
    words = cluster.agentv("run", "evals.yaml", "--backend", "ray", "--ray-address", cluster.address)
    env = {**cluster.env, "CANARY": "sk-canary-of-the-driver"}
    done = subprocess.run(words, cwd=secret_project, env=env, capture_output=True, text=True, check=False)
    assert "INCOMPLETE: no result could be judged" in done.stdout, done.stdout + done.stderr
    stored = b"".join(map(object_store, cluster.raylets))
    assert b"text of a case" in stored
    assert not [secret for secret in SECRETS if secret in stored]
