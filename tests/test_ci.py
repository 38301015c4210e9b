"""What CI runs: the choice of tests for `.ci/run --fast`, the hosted workflow, the hooks for pre-commit."""

import importlib.util
import subprocess
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from tests.support.nightly import IS_NIGHTLY, sample

ROOT = Path(__file__).parent.parent
TESTS = {
    "tests/engine/test_run.py": "",
    "tests/api/test_evaluate.py": "from tests.support.rows import make_row\n",
    "tests/criteria/test_laws.py": "",
    "tests/reports/rows.py": "",
    "tests/reports/test_junit.py": "from tests.support import judging, rows\n",
    "tests/support/rows.py": "",
    "tests/support/rowset.py": "",
    "tests/test_ci.py": "",
    "tests/test_readme.py": "",
}


def load_changed_tests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("changed_tests", ROOT / ".ci" / "changed_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


changed_tests = load_changed_tests()


def read_yaml(path: str) -> dict[Any, Any]:
    read = yaml.safe_load((ROOT / path).read_text("utf-8"))
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], []),
        (["README.md"], []),
        (["src/agentv/engine/runs/run.py"], ["tests/engine"]),
        (["src/agentv/api.py"], ["tests/api"]),
        (["src/agentv/registry.py"], []),
        (["src/agentv/engine/criteria/runner.py"], ["tests/criteria"]),
        (["tests/test_readme.py"], ["tests/test_readme.py"]),
        (["tests/engine/test_run.py"], ["tests/engine/test_run.py"]),
        (["tests/engine/test_run.py", "src/agentv/engine/runs/run.py"], ["tests/engine"]),
        (["tests/engine/test_deleted.py"], []),
        (["tests/reports/rows.py"], ["tests/reports"]),
        (["tests/support/rows.py"], ["tests/api/test_evaluate.py", "tests/reports/test_junit.py"]),
    ],
)
def test_changed_tests_lists_rooms_tests_and_users_of_helpers(changed: list[str], expected: list[str]) -> None:
    quick = ["tests/test_ci.py"] if changed else []
    assert changed_tests.tests_for(changed, TESTS) == tuple(sorted([*expected, *quick]))


def test_changed_tests_names_folders_and_files_that_exist() -> None:
    folders = [f"tests/{name}" for name in changed_tests.FOLDERS.values()]
    rooms = [f"src/agentv/{name}" for name in changed_tests.FOLDERS]
    assert [path for path in (*folders, *rooms, *changed_tests.QUICK) if not (ROOT / path).exists()] == []


def test_ci_run_refuses_an_unknown_option() -> None:
    done = subprocess.run([ROOT / ".ci" / "run", "--quick"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "usage: .ci/run [--fast | --nightly]\n")


def test_a_sample_is_the_same_part_of_each_group_in_their_order_and_all_at_night() -> None:
    taken = sample(range(100), 5, of_each=lambda number: number % 2)
    assert taken == sorted(taken) == sample(range(100), 5, of_each=lambda number: number % 2)
    assert Counter(number % 2 for number in taken) == ({0: 50, 1: 50} if IS_NIGHTLY else {0: 5, 1: 5})
    assert sample("ab", 3) == ["a", "b"]


def test_the_workflow_runs_ci_on_pushes_and_pull_requests() -> None:
    workflow = read_yaml(".github/workflows/ci.yml")
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key `on` as true
    (job,) = workflow["jobs"].values()
    assert job["timeout-minutes"] == 90
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    (cache,) = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache@")]
    assert cache["path"] == "~/.cache/uv"
    assert "hashFiles('uv.lock')" in cache["key"]


def test_a_workflow_runs_all_of_it_every_night() -> None:
    workflow = read_yaml(".github/workflows/nightly.yml")
    assert set(workflow[True]) == {"schedule", "workflow_dispatch"}
    assert [set(each) for each in workflow[True]["schedule"]] == [{"cron"}]
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run --nightly"]


def test_the_hooks_run_the_tools_of_the_project() -> None:
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries == [
        "./run ruff format --force-exclude",
        "./run ruff check --force-exclude",
        "./run mypy",
        "./run lint-imports",
    ]
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
