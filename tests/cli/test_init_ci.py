"""The jobs that `agentv init` writes for GitHub and GitLab do on this machine what they say."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.fake_server import serving_fake
from tests.support.github_job import ARTIFACT_URL, Job

from agentv.cli.evals.init import TEMPLATES

GH = '''#!{python}
"""A stand-in for GitHub's `gh`: stores comments in a file, and records its calls."""
import json, pathlib, re, sys
here = pathlib.Path(__file__).parent
kept = here / "comments.json"
comments = json.loads(kept.read_text()) if kept.exists() else []
given = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(given) + "\\n")
if "--jq" in given:
    start = re.search(r'startswith\\("(.*)"\\)', given[given.index("--jq") + 1])[1]
    for number, (user, body) in enumerate(comments, start=1):
        if user == "github-actions[bot]" and body.startswith(start):
            print(number)
else:
    body = pathlib.Path(given[-1].removeprefix("body=@")).read_text()
    found = re.search(r"issues/comments/(\\d+)$", given[-3])
    if found:
        comments[int(found[1]) - 1][1] = body
    else:
        comments.append(["github-actions[bot]", body])
    kept.write_text(json.dumps(comments))
'''


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with commands that stand for those of a CI machine: pip installs nothing, gh comments in a file."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in {"pip": "#!/bin/sh\n", "gh": GH.replace("{python}", sys.executable)}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def shell(script: str, cwd: Path, tools: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=cwd,
        env={"PATH": path, "HOME": str(cwd), **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


SOURCE = "git+https://example.org/me/agentv@c0ffee"


def made(tmp_path: Path, tools: Path, template: str = "agent") -> Path:
    project = tmp_path / "project"
    assert shell(f"agentv init --from {SOURCE} --template {template} project", tmp_path, tools).returncode == 0
    return project


def steps(project: Path) -> list[Mapping[str, Any]]:
    text = (project / ".github" / "workflows" / "agentv.yml").read_text("utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    return list(job["steps"])


class Repository:
    """A project on a GitHub of this machine, with the caches of its jobs and the comments of its pull request."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder, self.tools = folder, tools
        self.project = made(folder, tools)
        (folder / "caches").mkdir()
        assert shell("git init -q .", self.project, tools).returncode == 0
        self._runs = 0

    def push(self) -> Job:
        """Return the job of a push to the main branch, after it ran."""
        return self._run("push", {"before": "0" * 40})

    def pull_request(self, head: str = "a/b") -> Job:
        """Return the job of a push to a pull request whose branch is in the repository `head`."""
        base = {"sha": f"sha-{self._runs}"}
        return self._run(
            "pull_request", {"number": 7, "pull_request": {"base": base, "head": {"repo": {"full_name": head}}}}
        )

    def _run(self, name: str, event: Mapping[str, Any]) -> Job:
        self._runs += 1
        for left in ("report.md", "report.html", ".agentv/baseline.jsonl"):  # each job begins with a fresh checkout
            (self.project / left).unlink(missing_ok=True)
        shutil.rmtree(self.project / ".agentv" / "cache", ignore_errors=True)
        github = {
            "run_id": self._runs,
            "run_attempt": 1,
            "sha": f"sha-{self._runs}",
            "repository": "a/b",
            "event": event,
        }
        job = Job(
            project=self.project,
            caches=self.folder / "caches",
            path=f"{self.tools}:{Path(sys.executable).parent}:/usr/bin:/bin",
            event_name=name,
            github=github,
            variables={"GITHUB_STEP_SUMMARY": str(self.folder / "summary"), "GITHUB_REPOSITORY": "a/b"},
        )
        job.run()
        return job

    def break_agent(self) -> None:
        agent = self.project / "my_agent.py"
        agent.write_text(agent.read_text().replace("10:00", "never"))

    @property
    def comments(self) -> list[list[str]]:
        file = self.tools / "comments.json"
        comments: list[list[str]] = json.loads(file.read_text()) if file.exists() else []
        return comments

    @property
    def caches(self) -> list[str]:
        return [path.name.split(" ", 1)[1] for path in sorted((self.folder / "caches").iterdir())]


@pytest.fixture
def repository(tmp_path: Path, tools: Path) -> Repository:
    return Repository(tmp_path, tools)


def outcomes(job: Job) -> dict[str, str]:
    return {name: result.outcome for name, result in job.results.items()}


def test_a_pull_request_is_compared_with_the_main_branch_and_gets_one_comment(repository: Repository) -> None:
    main = repository.push()
    assert "failure" not in outcomes(main).values(), main.results
    assert "agentv-baseline-sha-1" in repository.caches
    assert repository.comments == []

    same = repository.pull_request()
    assert "failure" not in outcomes(same).values(), same.results
    assert "confirmed_regressions is 0, as required (<= 0)" in same.results["evals"].printed
    repository.break_agent()
    worse = repository.pull_request()

    assert [name for name, outcome in outcomes(worse).items() if outcome == "failure"] == ["evals"]
    assert "gate 'confirmed_regressions <= 0' failed on 1 case" in worse.results["evals"].printed
    report = (repository.project / "report.md").read_text()
    assert "**`FAIL: " in report
    assert report.endswith(f"\n[Every case with its answers]({ARTIFACT_URL}) (report.html in the artifact)\n")
    assert repository.comments == [["github-actions[bot]", report]]
    assert (repository.folder / "summary").read_text().endswith(report)
    assert sum(name.startswith("agentv-baseline") for name in repository.caches) == 1


def test_gates_of_eval_files_apply_beside_the_gates_for_change(repository: Repository) -> None:
    suite = repository.project / "evals" / "first.yaml"
    suite.write_text(suite.read_text().replace("  - not worse\n", "  - not worse\n  - p95(duration_s) <= 0\n"))
    repository.push()
    job = repository.pull_request()
    assert outcomes(job)["evals"] == "failure"
    assert "not <= 0" in job.results["evals"].printed
    assert "replaces the gates" not in job.results["evals"].printed


def test_a_new_eval_file_must_pass_until_the_baseline_has_it(repository: Repository) -> None:
    repository.push()
    first = repository.project / "evals" / "first.yaml"
    (repository.project / "evals" / "second.yaml").write_text(first.read_text())
    job = repository.pull_request()
    assert outcomes(job)["evals"] == "success", job.results["evals"].printed
    assert "(the baseline does not have this file" in job.results["evals"].printed
    repository.break_agent()
    assert outcomes(repository.pull_request())["evals"] == "failure"


def test_the_comment_on_many_failures_stays_short(repository: Repository) -> None:
    """GitHub refuses comments of more than 65,536 characters."""
    (repository.project / "my_agent.py").write_text("print('wrong ' * 5_000)\n")
    asked = f"expected_outcome: x, input_messages: [{{role: user, content: 'Why? {'so ' * 500}'}}]"
    cases = "".join(f"  - {{id: case-{number}, {asked}}}\n" for number in range(60))
    suite = f"evaluators: [{{name: right, type: contains, value: right}}]\nevalcases:\n{cases}"
    (repository.project / "evals" / "first.yaml").write_text(suite)
    targets = repository.project / ".agentv" / "targets.yaml"
    targets.write_text(targets.read_text().replace("{PROMPT_FILE} {OUTPUT_FILE}", "{PROMPT_FILE}"))
    assert outcomes(repository.pull_request())["evals"] == "failure"
    ((_, comment),) = repository.comments
    assert "0 of 60" in comment
    assert len(comment) < 20_000
    assert len(comment.splitlines()) < 150


def test_without_a_baseline_every_case_must_pass(repository: Repository) -> None:
    repository.break_agent()
    first = repository.pull_request()
    assert outcomes(first)["evals"] == "failure"
    assert "Not evaluated: not worse (no --baseline" in first.results["evals"].printed
    (comment,) = repository.comments
    assert "1 of 2" in comment[1]


def test_a_main_branch_that_got_worse_is_red_and_is_the_next_baseline(repository: Repository) -> None:
    repository.push()
    repository.break_agent()
    assert outcomes(repository.push())["evals"] == "failure"
    assert [name for name in repository.caches if "baseline" in name] == [
        "agentv-baseline-sha-1",
        "agentv-baseline-sha-2",
    ]
    assert outcomes(repository.pull_request())["evals"] == "success"


def test_a_run_that_judged_nothing_is_no_baseline(repository: Repository) -> None:
    (repository.project / "my_agent.py").write_text("raise SystemExit(1)\n")
    job = repository.push()
    assert job.results["evals"].outputs == {"code": "3"}
    assert outcomes(job)["baseline"] == "skipped"
    assert repository.caches == []


def test_a_committed_baseline_comes_first(repository: Repository) -> None:
    done = shell("agentv run --trials 3 && agentv baseline save", repository.project, repository.tools)
    assert done.returncode == 0, done.stdout + done.stderr
    repository.break_agent()
    repository.push()  # its scores are worse, and not what counts
    job = repository.pull_request()
    assert "gate 'confirmed_regressions <= 0' failed on 1 case" in job.results["evals"].printed


def test_a_pull_request_from_a_fork_gets_no_comment(repository: Repository) -> None:
    job = repository.pull_request(head="mallory/b")
    assert outcomes(job)["Keep one comment on the pull request up to date"] == "skipped"
    assert outcomes(job)["Show the summary with the job"] == "success"
    assert repository.comments == []


def test_answers_of_models_are_paid_for_once(repository: Repository) -> None:
    with serving_fake() as server:
        targets = (
            f"targets:\n  - {{name: default, provider: openai, model: m, api_key: k, base_url: {server.url}/v1}}\n"
        )
        (repository.project / ".agentv" / "targets.yaml").write_text(targets)
        repository.pull_request()
        calls = len(server.calls)
        assert calls > 0
        assert [name for name in repository.caches if "answers" in name] == ["agentv-answers-1-1"]
        repository.pull_request()
        assert len(server.calls) == calls
        assert [name for name in repository.caches if "answers" in name] == ["agentv-answers-1-1", "agentv-answers-2-1"]


def test_jobs_without_a_source_of_agentv_fail_and_name_the_line_to_fill_in(tmp_path: Path, tools: Path) -> None:
    project = made(tmp_path, tools)
    for name in (".github/workflows/agentv.yml", ".gitlab-ci.yml"):
        file = project / name
        file.write_text(file.read_text().replace(SOURCE, ""))
        install = next(line for line in file.read_text().splitlines() if "pip install " in line)
        done = shell(install.strip().removeprefix("- ").removeprefix("run: "), project, tools, AGENTV_SOURCE="")
        assert done.returncode != 0
        assert "AGENTV_SOURCE: is empty, set it" in done.stderr
        assert name in done.stderr


def test_a_comment_of_another_user_is_left_alone(tmp_path: Path, tools: Path) -> None:
    project = made(tmp_path, tools)
    (tools / "comments.json").write_text(json.dumps([["mallory", "<!-- agentv-report --> mine"]]))
    (project / "report.md").write_text("<!-- agentv-report -->\n\nours\n")
    shell(steps(project)[-1]["run"], project, tools, GITHUB_REPOSITORY="a/b", NUMBER="7")
    comments = json.loads((tools / "comments.json").read_text())
    assert comments == [
        ["mallory", "<!-- agentv-report --> mine"],
        ["github-actions[bot]", "<!-- agentv-report -->\n\nours\n"],
    ]


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_script_holds_what_others_write(tmp_path: Path, tools: Path, template: str) -> None:
    """A title or a branch inside a script would be run by it; in the environment it is a text."""
    for step in steps(made(tmp_path, tools, template)):
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("template", [name for name in TEMPLATES if name != "evaluator-plugin"])
def test_the_gitlab_job_leaves_what_it_keeps(tmp_path: Path, tools: Path, template: str) -> None:
    project = made(tmp_path, tools, template)
    job = yaml.safe_load((project / ".gitlab-ci.yml").read_text("utf-8"))["evals"]
    done = shell("\n".join(job["script"]), project, tools, AGENTV_SOURCE=SOURCE)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (project / path).stat().st_size > 0
    assert re.search(r"<testcase ", (project / "report.junit.xml").read_text())


def test_the_gitlab_job_fails_with_its_gate(tmp_path: Path, tools: Path) -> None:
    project = made(tmp_path, tools)
    suite = project / "evals" / "first.yaml"
    suite.write_text(suite.read_text().replace("10:00 to 14:00", "never"))
    job = yaml.safe_load((project / ".gitlab-ci.yml").read_text("utf-8"))["evals"]
    assert shell("\n".join(job["script"]), project, tools, AGENTV_SOURCE=SOURCE).returncode == 1
    assert "<failure " in (project / "report.junit.xml").read_text()


def test_the_gitlab_job_compares_with_a_committed_baseline(tmp_path: Path, tools: Path) -> None:
    project = made(tmp_path, tools)
    assert shell("agentv run --trials 3 --gate none && agentv baseline save", project, tools).returncode == 0
    job = yaml.safe_load((project / ".gitlab-ci.yml").read_text("utf-8"))["evals"]
    done = shell("\n".join(job["script"]), project, tools, AGENTV_SOURCE=SOURCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "confirmed_regressions is 0, as required (<= 0)" in done.stdout
