"""Options and commands of other tools: synonyms of ours are accepted; for others, the error names ours."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

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
    "--model": "here a model is a target: `--target NAME` of targets.yaml, or without a file `--target PROVIDER:MODEL`",
    "--provider": "here it is `--target NAME`, a target of targets.yaml",
    "--providers": "here it is `--target NAME`, a target of targets.yaml",
    "--grader": "here it is `judge` of the eval file, a target or an evaluator",
    "--judge": "here it is `judge` of the eval file, a target or an evaluator",
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
    "--threshold": "here it is `--gate 'mean >= X'`",
    "--max-budget": "here it is `--budget-usd X`",
    "--budget": "here it is `--budget-usd X`",
    "--retries": "here it is `--max-retries N`",
    "--parallel": "here it is `--workers N`",
    "--jobs": "here it is `--workers N`",
    "--n": "here it is `--limit N`",
    "-n": "here it is `--workers N` for concurrent calls, or `--trials N` to repeat each case",
    "--question": "here questions are cases of an eval file, as `input`",
    "--prompt": "here prompts are `prompts` of an eval file",
    "--system-prompt": "here it is `prompts: [{system: …}]` of an eval file",
    "--config": "here the eval file is named without an option",
    "--file": "here the eval file is named without an option",
    "--dataset": "here the file is named without an option",
    **dict.fromkeys(("--out", "--output-file", "--out-file", "--report"), "here it is `-o FILE`"),
    **{
        f"--{word}": f"here it is `-o {file}`"
        for word, file in (
            ("html", "report.html"),
            ("markdown", "report.md"),
            ("md", "report.md"),
            ("junit", "report.junit.xml"),
            ("junitxml", "report.junit.xml"),
            ("csv", "results.csv"),
            ("jsonl", "results.jsonl"),
            ("sarif", "report.sarif"),
        )
    },
    "--format": "the suffix of `-o FILE` selects the format",
    "--output-dir": "runs are stored under .agentv/runs; a report is written by `-o FILE`",
}
"""Advice by the option of another tool. An option of ours in it may be one that only `agentv run` has."""
_FILE_OPTION = "-o"
_COMMANDS: Mapping[str, str] = {
    "redteam": "attacks are cases like any other: `agentv run`",
    "share": "`agentv report RUN -o report.html` writes a file to share, `agentv store push` a run for the team",
    "export": "`agentv report RUN -o FILE` writes any format",
    "evaluate": "`agentv run` runs eval files",
    "evals": "`agentv run` runs eval files",
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


def with_advice(error: click.NoSuchOption, arguments: Sequence[str] = ()) -> click.NoSuchOption:
    """Return the error for an unknown option of a command line with what to use in its place."""
    name = error.option_name
    known = () if error.ctx is None else _options_of(error.ctx.command)
    advice = _as_sentence(_fitting(_advice_on_model(name, arguments) or _OPTIONS.get(name), known))
    if advice is not None:
        return click.NoSuchOption(name, f"{error.message} {advice}", (), error.ctx)
    # click compares names with their dashes, so that short ones resemble each other.
    close = get_close_matches(name.lstrip("-"), [each.lstrip("-") for each in known], n=2, cutoff=0.65)
    return click.NoSuchOption(name, error.message, [f"--{each}" for each in close], error.ctx)


def _advice_on_model(option: str, arguments: Sequence[str]) -> str | None:
    """Return the target that `--model PROVIDER/MODEL` or `--model PROVIDER:MODEL` means; None if it is another one."""
    from agentv.providers import PROVIDERS  # here: a command line without an error needs no provider
    from agentv.registry import model_spelling, names_model

    if option != "--model":
        return None
    words = iter(arguments)
    given = next((word.partition("=")[2] or next(words, "") for word in words if word.partition("=")[0] == option), "")
    spelled = given if names_model(given, PROVIDERS) else model_spelling(given, PROVIDERS)
    return spelled and f"here it is `--target {spelled}`, which needs no targets file"


def _options_of(command: click.Command) -> Sequence[str]:
    return [name for each in command.params if isinstance(each, click.Option) for name in each.opts]


_OUR_OPTION = re.compile(r"`(--?[\w-]+)[^`]*`")


def _fitting(advice: str | None, known: Sequence[str]) -> str | None:
    """Return the advice for a command with the options `known`; if it lacks ours, the command that has it is named."""
    found = None if advice is None else _OUR_OPTION.search(advice)
    if advice is None or found is None or found[1] in known or not known:
        return advice
    owner = "agentv report RUN" if found[1] == _FILE_OPTION else "agentv run"
    return advice.replace(found[0], f"`{owner} {found[0][1:]}")


def _as_sentence(advice: str | None) -> str | None:
    return advice and f"{advice[0].upper() if advice[0].isalpha() else advice[0]}{advice[1:]}."
