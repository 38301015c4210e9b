"""Runs the steps of a GitHub job on this machine: its scripts for real, its caches in a folder."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\b(?:github|steps|secrets)(?:\.[\w-]+)+")
ARTIFACT_URL = "https://github.example/a/b/actions/runs/1/artifacts/1"
_STATUS = ("always()", "cancelled()")


@dataclass
class StepResult:
    """The result of one step: `success`, `failure` or `skipped`, with its outputs and what it printed."""

    outcome: str
    outputs: dict[str, str] = field(default_factory=dict)
    printed: str = ""


@dataclass
class Job:
    """A job of the workflow in a project. `caches` is the folder of all caches, newest last by name."""

    project: Path
    caches: Path
    path: str
    """The variable PATH of scripts."""
    event_name: str
    github: Mapping[str, Any]
    """The context `github`, without the name of the event."""
    variables: Mapping[str, str] = field(default_factory=dict)
    results: dict[str, StepResult] = field(default_factory=dict)
    """The results so far by id or name of the step, in order."""

    def run(self) -> str:
        """Run all steps; return `success` or `failure`."""
        workflow = yaml.safe_load((self.project / ".github" / "workflows" / "agentv.yml").read_text("utf-8"))
        (job,) = workflow["jobs"].values()
        for step in job["steps"]:
            name = step.get("id") or step.get("name") or step.get("uses") or step["run"]
            self.results[name] = self._step(step, workflow.get("env", {}))
        return "failure" if self._has_failed else "success"

    @property
    def _has_failed(self) -> bool:
        return any(result.outcome == "failure" for result in self.results.values())

    def _step(self, step: Mapping[str, Any], env: Mapping[str, str]) -> StepResult:
        condition = str(step.get("if", ""))
        if self._has_failed and not any(status in condition for status in _STATUS):
            return StepResult("skipped")
        if condition and not self._value(_EXPRESSION.sub(r"\1", condition)):
            return StepResult("skipped")
        if "run" in step:
            return self._script(step["run"], {**env, **self._filled(step.get("env", {}))})
        return self._action(step["uses"], self._filled(step.get("with", {})))

    def _script(self, script: str, env: Mapping[str, str]) -> StepResult:
        output = self.project.parent / "step-output"
        output.write_text("")
        own = {"PATH": self.path, "HOME": str(self.project), "GITHUB_OUTPUT": str(output), "GITHUB_ACTIONS": "true"}
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.project,
            env={**own, **env, **self.variables},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return StepResult("failure" if done.returncode else "success", outputs, done.stdout + done.stderr)

    def _action(self, name: str, given: Mapping[str, str]) -> StepResult:
        kind = name.partition("@")[0]
        if kind == "actions/cache/restore":
            found = self._find_cache(given["key"], given["restore-keys"])
            if found is not None:
                _copy(found, self.project / given["path"])
            return StepResult("success", {"cache-hit": str(found)})
        if kind == "actions/cache/save":
            number = len(list(self.caches.iterdir()))
            _copy(self.project / given["path"], self.caches / f"{number:04} {given['key']}")
        if kind == "actions/upload-artifact":
            return StepResult("success", {"artifact-url": ARTIFACT_URL})
        return StepResult("success")

    def _find_cache(self, key: str, prefix: str) -> Path | None:
        """Return the cache with a key, else the newest with the prefix."""
        saved = {path: path.name.split(" ", 1)[1] for path in sorted(self.caches.iterdir())}
        exact = [path for path, name in saved.items() if name == key]
        found = exact or [path for path, name in saved.items() if name.startswith(prefix)]
        return found[-1] if found else None

    def _filled(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {
            key: _EXPRESSION.sub(lambda match: _text(self._value(match[1])), str(value))
            for key, value in values.items()
        }

    def _value(self, expression: str) -> Any:
        """Return the value of an expression with names, strings, numbers, `&&`, `||`, `!`, `==` and functions."""
        text = _NAME.sub(lambda match: f"value({match[0]!r})", expression.strip())
        text = re.sub(r"!(?!=)", " not ", text).replace("&&", " and ").replace("||", " or ")
        functions = {
            "value": self._named,
            "always": lambda: True,
            "cancelled": lambda: False,
            "contains": lambda text, part: part in text,
            "hashFiles": lambda pattern: "x" if any(self.project.glob(pattern)) else "",
        }
        return eval(" ".join(text.split()), functions)

    def _named(self, name: str) -> Any:
        root, *keys = name.split(".")
        if root == "secrets":
            return ""
        if root == "steps":
            result = self.results.get(keys[0])
            return "" if result is None else result.outcome if keys[1] == "outcome" else result.outputs.get(keys[2], "")
        value: Any = {**self.github, "event_name": self.event_name}
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return "" if value is None else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
