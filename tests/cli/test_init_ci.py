"""The jobs that `agentv init` writes for GitHub and GitLab do on this machine what they say."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def made(tmp_path: Path, tools: Path, template: str = "agent") -> Path:
    project = tmp_path / "project"
    assert shell(f"agentv init --template {template} project", tmp_path, tools).returncode == 0
    return project


def steps(project: Path) -> list[Mapping[str, Any]]:
    text = (project / ".github" / "workflows" / "agentv.yml").read_text("utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    return list(job["steps"])


@pytest.mark.parametrize("wrong", [False, True])
def test_the_github_job_shows_its_summary_and_keeps_one_comment(tmp_path: Path, tools: Path, wrong: bool) -> None:
    project = made(tmp_path, tools)
    suite = project / "evals" / "first.yaml"
    if wrong:
        suite.write_text(suite.read_text().replace("10:00 to 14:00", "never"))
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GITHUB_REPOSITORY": "a/b", "NUMBER": "7", "GH_TOKEN": "x"}
    env["GITHUB_ACTIONS"] = "true"
    for _push in range(2):
        codes = {
            step["run"]: shell(step["run"], project, tools, **env).returncode
            for step in steps(project)
            if "run" in step
        }
        failed = [script for script, code in codes.items() if code]
        assert failed == ([script for script in codes if "agentv run" in script] if wrong else [])
    report = (project / "report.md").read_text()
    assert (tmp_path / "summary").read_text().endswith(report)
    assert json.loads((tools / "comments.json").read_text()) == [["github-actions[bot]", report]]
    assert ("**`FAIL: " if wrong else "**`PASS: ") in report


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


def test_steps_after_the_run_wait_for_its_files_and_run_when_it_failed(tmp_path: Path, tools: Path) -> None:
    after = steps(made(tmp_path, tools))[5:]
    assert len(after) == 3
    assert all("always()" in step["if"] and "hashFiles('report." in step["if"] for step in after)


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_script_holds_what_others_write(tmp_path: Path, tools: Path, template: str) -> None:
    """A title or a branch inside a script would be run by it; in the environment it is a text."""
    for step in steps(made(tmp_path, tools, template)):
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("template", [name for name in TEMPLATES if name != "evaluator-plugin"])
def test_the_gitlab_job_leaves_what_it_keeps(tmp_path: Path, tools: Path, template: str) -> None:
    project = made(tmp_path, tools, template)
    job = yaml.safe_load((project / ".gitlab-ci.yml").read_text("utf-8"))["evals"]
    done = shell("\n".join(job["script"]), project, tools)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (project / path).stat().st_size > 0
    assert re.search(r"<testcase ", (project / "report.junit.xml").read_text())


def test_the_gitlab_job_fails_with_its_gate(tmp_path: Path, tools: Path) -> None:
    project = made(tmp_path, tools)
    suite = project / "evals" / "first.yaml"
    suite.write_text(suite.read_text().replace("10:00 to 14:00", "never"))
    job = yaml.safe_load((project / ".gitlab-ci.yml").read_text("utf-8"))["evals"]
    assert shell("\n".join(job["script"]), project, tools).returncode == 1
    assert "<failure " in (project / "report.junit.xml").read_text()


def test_the_jobs_compare_with_a_baseline_if_there_is_one(tmp_path: Path, tools: Path) -> None:
    project = made(tmp_path, tools)
    assert shell("agentv run --trials 3 --gate none && agentv baseline save", project, tools).returncode == 0
    suite = project / "evals" / "first.yaml"
    job = yaml.safe_load((project / ".gitlab-ci.yml").read_text("utf-8"))["evals"]
    (run,) = [step["run"] for step in steps(project) if "agentv run" in step.get("run", "")]
    for script in (run, "\n".join(job["script"])):
        done = shell(script, project, tools)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "confirmed_regressions is 0, as required (<= 0)" in done.stdout
    suite.write_text(suite.read_text().replace("10:00 to 14:00", "never"))
    done = shell(run, project, tools)
    assert (done.returncode, "gate 'confirmed_regressions <= 0' failed on 1 case" in done.stdout) == (1, True)
