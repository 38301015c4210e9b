"""Options and commands of other tools: synonyms of ours are accepted; for others, the error names ours."""

from collections.abc import Mapping

import click

SAME_MEANING: Mapping[str, str] = {
    "repeat": "trials",
    "epochs": "trials",
    "concurrency": "workers",
    "max-concurrency": "workers",
    "max-connections": "workers",
    "filter": "case",
    "filter-pattern": "case",
}
"""Our options by the options of other tools that mean the same; names without dashes."""

_OPTIONS: Mapping[str, str] = {
    **{f"--{theirs}": f"here it is `--{ours}`" for theirs, ours in SAME_MEANING.items()},
    "--watch": "there is no watch mode; `agentv run --cache on` calls the model only for what changed",
    "--model": "here a model is a target of targets.yaml, chosen by `--target NAME`",
    "--provider": "here it is `--target NAME`, a target of targets.yaml",
    "--providers": "here it is `--target NAME`, a target of targets.yaml",
    "--grader": "here it is `judge_target` of the target",
    "--tests": "here the eval file is named without an option",
    "--no-cache": "the cache is off by default; omit `--cache`",
    "--filter-failing": "here it is `agentv retry RUN --failed`",
    "--filter-errors-only": "here it is `agentv retry RUN --errors`",
    "--filter-first-n": "here it is `--sample N`",
    "--filter-sample": "here it is `--sample N`",
    "--filter-targets": "here it is `--target NAME`",
    "--filter-metadata": "here it is `--tag TAG`",
    "--filter-providers": "here it is `--target NAME`",
    "--max-samples": "here it is `--workers N`",
    "--max-tasks": "here it is `--workers N`",
    "--sample-id": "here it is `--case ID`",
    "--log-dir": "runs are stored under .agentv/runs",
    "--fail-on-error": "a run with errors ends with exit code 3; `--max-errors N` tolerates some",
    "--agent-timeout": "here it is `--timeout S`",
    "--out": "here it is `-o FILE`",
    "--threshold": "here it is `--gate 'mean >= X'`",
    "--max-budget": "here it is `--budget-usd X`",
}
_COMMANDS: Mapping[str, str] = {
    "view": "`agentv show latest` shows a run, `agentv report latest -o report.html` writes it as a page",
    "redteam": "attacks are cases like any other: `agentv run`",
    "share": "`agentv report RUN -o report.html` writes a file to share, `agentv store push` a run for the team",
    "export": "`agentv report RUN -o FILE` writes any format",
    "list": "`agentv runs list` lists the stored runs",
    "test": "`agentv run` runs eval files",
    "logs": "`agentv runs list` lists the stored runs",
}


def our_option(name: str) -> str:
    """Return our option for another tool's option of the same meaning; any other name unchanged."""
    return SAME_MEANING.get(name, name)


def command_advice(name: str) -> str | None:
    """Return a sentence on what to use in place of another tool's command; None for an unknown name."""
    return _as_sentence(_COMMANDS.get(name))


def with_advice(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return the error for another tool's option with what to use in its place; any other error unchanged."""
    advice = _as_sentence(_OPTIONS.get(error.option_name))
    if advice is None:
        return error
    return click.NoSuchOption(error.option_name, f"{error.message} {advice}", (), error.ctx)


def _as_sentence(advice: str | None) -> str | None:
    return advice and f"{advice[0].upper() if advice[0].isalpha() else advice[0]}{advice[1:]}."
