"""`agentv check`: check eval files, and the targets and project files they use, for problems."""

import json
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import click
from msgspec import Struct, field, structs

from agentv.cli.main import EXIT_NOTHING
from agentv.cli.options import ALLOW_PATH_OPTION, VAR_OPTION
from agentv.loading.files.dotenv import ENV_FILE
from agentv.reports.run.sarif import SARIF_SCHEMA
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line, printable, printable_json
from agentv.templating.environment import has_reference
from agentv.templating.secrets import looks_secret
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem
from agentv.version import __version__

_FRAME_WIDTH = 100
_COLUMNS_BEFORE_CARET = 60
_MAX_BYTES_READ = 4 * 2**20


class CodeFrames(Struct):
    """Makes code frames: the source line of a problem, and a caret below the faulty column.

    Each file is read once.
    """

    folder: Path
    """Relative paths start from it."""
    _files: dict[str, list[str]] = field(default_factory=dict)

    def frame(self, problem: Problem) -> list[str]:
        """Return the frame of a problem: two lines, or no lines if there is no source line to show.

        Frames end up in logs. So there is no frame for a `.env` file, and the value of a key that looks secret is
        replaced by `***`, unless its line has a `${{ }}` reference.
        """
        lines = self._lines(problem.path)
        if not 0 < problem.line <= len(lines) or Path(problem.path).name == ENV_FILE:
            return []
        source = lines[problem.line - 1]
        if looks_secret(problem.json_path) and not has_reference(source):
            source = f"{source[: problem.column - 1]}***"
        return frame_lines(source, problem.line, problem.column)

    def _lines(self, path: str) -> list[str]:
        """Return the lines in the text that `_file_start` returns for a file."""
        if path not in self._files:
            self._files[path] = _file_start(self.folder / path).replace("\r\n", "\n").split("\n")
        return self._files[path]


def _file_start(path: Path) -> str:
    """Return the text of a regular file; if it is large, only the complete lines in its first 4 MiB.

    Return "" for a pipe or a device, and for a file that cannot be read.
    """
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES_READ)
    except (OSError, ValueError):
        return ""
    whole = data if len(data) < _MAX_BYTES_READ else data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8-sig", "replace")


def frame_lines(source: str, line: int, column: int) -> list[str]:
    """Return a source line and below it a caret under `column`; a long line is cut to the part around `column`."""
    start = max(0, column - 1 - _COLUMNS_BEFORE_CARET) if len(source) > _FRAME_WIDTH else 0
    shown = "".join(map(_printed_form, source[start : start + _FRAME_WIDTH]))
    before = "".join(map(_printed_form, source[start : max(start, column - 1)]))
    head = "…" if start else ""
    tail = "…" if start + _FRAME_WIDTH < len(source) else ""
    gutter = f"{line:>6} | "
    blanks = " " * (len(gutter) + len(head) + sum(map(_cell_width, before)))
    return [f"{gutter}{head}{shown}{tail}".rstrip(), f"{blanks}^"]


def _printed_form(character: str) -> str:
    """Return a character as it is printed: a blank for a tab, and U+FFFD for a character that cannot be shown."""
    if character == "\t":
        return " "
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else character


def _cell_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


CHECK_SCHEMA = "agentv-check-1"
_SARIF_RULE = "file-problem"


def closing_line(problems: Sequence[Problem], files: int) -> str:
    """Return the last line of a report: the number of files, errors and warnings."""
    counts = Counter(problem.severity for problem in problems)
    found = [count_text(counts[severity], severity) for severity in ("error", "warning") if counts[severity]]
    return f"{count_text(files, 'file')} checked: {', '.join(found) or 'no problems found'}"


def text_report(problems: Sequence[Problem], files: int, folder: Path) -> str:
    """Return each problem on a line of its own, with its code frame below, and the closing line."""
    frames = CodeFrames(folder)
    lines: list[str] = []
    for problem in problems:
        lines += [printable(problem.render()).replace("\n", " "), *frames.frame(problem), ""]
    return "\n".join([*lines, closing_line(problems, files)])


def json_report(problems: Sequence[Problem], files: int, folder: Path) -> str:  # noqa: ARG001 - formats share a signature
    """Return one JSON object with every problem and the counts."""
    counts = Counter(problem.severity for problem in problems)
    report: dict[str, JsonValue] = {
        "schema": CHECK_SCHEMA,
        "files": files,
        "errors": counts["error"],
        "warnings": counts["warning"],
        "problems": [_to_json(problem) for problem in problems],
    }
    return printable_json(json.dumps(report, indent=2, ensure_ascii=False))


def _to_json(problem: Problem) -> JsonObject:
    return {
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
        "json_path": problem.json_path,
        "severity": problem.severity,
        "message": problem.message,
        "allowed": problem.allowed,
        "suggestion": problem.suggestion,
    }


def github_report(problems: Sequence[Problem], files: int, folder: Path) -> str:  # noqa: ARG001 - formats share a signature
    """Return workflow commands that annotate each problem's line in GitHub Actions, and the closing line."""
    return "\n".join([*map(_annotation, problems), closing_line(problems, files)])


def _annotation(problem: Problem) -> str:
    place = f",line={problem.line},col={problem.column}" if problem.line else ""
    text = one_line(_sentence(problem)).replace("%", "%25")
    file = one_line(problem.path).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{problem.severity} file={file}{place}::{text}"


def _sentence(problem: Problem) -> str:
    """Return the text of a problem without its file, line and column."""
    suggestion = f"did you mean {problem.suggestion!r}?" if problem.suggestion else None
    return "; ".join(filter(None, (f"{problem.json_path}  {problem.message}", problem.allowed, suggestion)))


def sarif_report(problems: Sequence[Problem], files: int, folder: Path) -> str:  # noqa: ARG001 - formats share a signature
    """Return a SARIF 2.1.0 log, which code scanners read."""
    driver = {
        "name": "agentv",
        "version": __version__,
        "rules": [{"id": _SARIF_RULE, "shortDescription": {"text": "An eval, targets or project file has a problem"}}],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*map(_sarif_result, problems)]}
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return printable_json(json.dumps(log, indent=2, ensure_ascii=False))


def _sarif_result(problem: Problem) -> JsonObject:
    location: dict[str, JsonValue] = {"artifactLocation": {"uri": quote(problem.path)}}
    if problem.line:
        location["region"] = {"startLine": problem.line, "startColumn": problem.column}
    return {
        "ruleId": _SARIF_RULE,
        "level": problem.severity,
        "message": {"text": _sentence(problem)},
        "locations": [{"physicalLocation": location}],
    }


FORMATS: Mapping[str, Callable[[Sequence[Problem], int, Path], str]] = {
    "text": text_report,
    "json": json_report,
    "github": github_report,
    "sarif": sarif_report,
}
"""The function of each format. It takes the problems, the number of files, and the folder from which paths start."""


EXIT_PROBLEMS = 4


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="Output format; text shows the faulty lines, github writes annotations of GitHub Actions.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option(
    "--online", is_flag=True, help="Also send a request to the targets and judges of the eval files (may cost money)."
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="With --online: call this target instead of those of the eval files; judges are called, too; repeatable.",
)
@click.option(
    "--targets-file",
    "--targets",
    "targets_file",
    metavar="FILE",
    help="With --online: targets file (default: nearest to the eval file).",
)
@click.option("--untrusted", is_flag=True, help="List what the files would execute, read and send.")
@VAR_OPTION
@ALLOW_PATH_OPTION
def command(
    paths: tuple[str, ...],
    format_: str,
    *,
    allow_paths: tuple[str, ...],
    variables: tuple[str, ...],
    as_json: bool,
    online: bool,
    untrusted: bool,
    targets: tuple[str, ...],
    targets_file: str | None,
) -> int:
    """Check eval files, and the targets and project files they use, for problems.

    PATHS are files or folders (default: evals/). Code named in eval files is not imported or run, except with --online.
    --untrusted lists every command, callable, URL, variable and path, so that you can review files of other people.

    Exit codes: 0 no errors, 3 a target does not answer (--online), 4 errors found, 5 nothing to check.
    """
    from agentv.cli.terminal import command_stream
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.check.check import check_paths
    from agentv.types.run_options import parse_variables

    cwd = Path.cwd()
    chosen = "json" if as_json else format_
    if untrusted:
        return _show_uses(paths, cwd, allow_paths, as_json=chosen == "json")
    checked = check_paths(
        paths,
        cwd=cwd,
        env=os.environ,
        specs=load_specs(),
        allow_paths=allow_paths,
        variables=parse_variables(variables),
    )
    # The annotations are commands to GitHub Actions; on a CI runner, sys.stdout would escape them.
    stream = command_stream(sys.stdout) if chosen == "github" else sys.stdout
    # One line for each eval file of AgentV for TypeScript: its version and the number of keys without meaning here.
    for line in checked.notes:
        click.echo(printable(line), err=chosen != "text")
    click.echo(FORMATS[chosen](checked.problems, len(checked.files), cwd), file=stream)
    if any(problem.severity == "error" for problem in checked.problems):
        return EXIT_PROBLEMS
    if online and checked.files:
        from agentv.cli.running.probing import probe_paths, show_probes

        return show_probes(probe_paths(paths, targets, targets_file, variables))
    if not checked.files:
        click.echo("no eval files found", err=True)
    return 0 if checked.files else EXIT_NOTHING


def _show_uses(paths: tuple[str, ...], cwd: Path, allow_paths: tuple[str, ...], *, as_json: bool) -> int:
    """Print what the files would execute, read and send; return the exit code."""
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.check.untrusted import SCHEMA, list_uses, to_text

    uses = list_uses(paths, cwd=cwd, specs=load_specs(), allow_paths=allow_paths)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "uses": [structs.asdict(use) for use in uses]}, indent=2))
    else:
        click.echo(to_text(uses))
    return 0 if uses else EXIT_NOTHING
