"""Every block of docs/how-to/machines.md works on a real cluster."""

from pathlib import Path

from tests.support.ray_cluster import RayCluster
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


def test_no_secret_leaves_the_environment(cluster: RayCluster, tmp_path: Path) -> None:
    """Neither the memory of the cluster, nor its files, nor the run folder holds the value of a variable."""
    canary = "sk-canary-5b1f0c7e"
    (tmp_path / ".env").write_text("OTHER_KEY=sk-canary-of-a-file-5b1f0c7e\n")
    (tmp_path / "targets.yaml").write_text(
        "targets:\n  - {name: t, provider: openai, model: m, base_url: http://127.0.0.1:9, api_key: ${{ CANARY }}, "
        "max_retries: 0}\n"
    )
    (tmp_path / "evals.yaml").write_text(
        "execution: {target: t, evaluators: [{name: e, type: contains, value: a}]}\n"
        "evalcases:\n  - {id: a, input: b, expected_outcome: c}\n"
    )
    done = cluster.run(tmp_path, "run", "evals.yaml", CANARY=canary)
    assert done.returncode in (3, 4), done.stdout + done.stderr
    for folder in (tmp_path, cluster.folder):
        for path in folder.rglob("*"):
            if path.is_file():
                found = path.read_bytes()
                assert canary.encode() not in found, path
                assert b"sk-canary-of-a-file" not in found or path == tmp_path / ".env", path
