"""`agentv init`: create a first eval file that runs offline, without changing existing files."""

import json
import keyword
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

import click

from agentv.cli.evals.schema import SCHEMAS_FOLDER, schema_files
from agentv.types.errors import ConfigError, StorageError

_ARCHIVE = re.compile(r"\.(whl|zip|tar\.gz)$")


def ci_source(given: str | None) -> str:
    """Return what `pip install` installs in CI jobs: `given`, a path or URL, else the source of this installation.

    A URL of a repository is pinned to a commit. "" if this installation has no source that another machine can reach.
    Raises ConfigError for a path that does not exist, a folder without pyproject.toml, an invalid URL, a URL that
    contains a password or token, and a repository that git cannot read.
    """
    if given is not None:
        return _pinned(_url_source(given), given) if "://" in given else _path_source(given)
    source = own_source()
    return "" if source == "agentv" or _is_local(source) else source


def own_source() -> str:
    """Return the argument of `pip install` that gives this installation again, on this machine."""
    try:
        return recorded_source(distribution("agentv").read_text("direct_url.json"))
    except PackageNotFoundError:
        return "agentv"


def _is_local(source: str) -> bool:
    return urlsplit(source).scheme in ("file", "git+file")


def recorded_source(direct_url: str | None) -> str:
    """Return the source in `direct_url`, the text of direct_url.json (PEP 610).

    None means that agentv was installed by name from a package index: the source is then `agentv`.
    """
    if direct_url is None:
        return "agentv"
    recorded = json.loads(direct_url)
    url: str = recorded["url"]
    if vcs := recorded.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{url}#subdirectory={recorded['subdirectory']}" if "subdirectory" in recorded else url


def _path_source(given: str) -> str:
    path = Path(given).expanduser().resolve()
    if not path.exists():
        raise ConfigError(f"--from {given}: no such file or folder; a URL must contain ://")
    if path.is_dir() and not (path / "pyproject.toml").is_file():
        raise ConfigError(f"--from {given}: no pyproject.toml in this folder; give a clone of agentv or a wheel")
    return path.as_uri()


def _url_source(given: str) -> str:
    try:
        url = urlsplit(given)
    except ValueError:
        url = None
    if url is None or re.search(r"\s", given):
        raise ConfigError(f"--from {given}: not a valid URL")
    if url.password or (url.username and "ssh" not in url.scheme):
        raise ConfigError(
            "--from: the URL contains a password or token, which would be committed with the CI jobs; remove it"
        )
    is_repository = url.scheme in ("http", "https") and not _ARCHIVE.search(url.path)
    return f"git+{given}" if is_repository else given


_READ_TIMEOUT_S = 30.0


def _pinned(source: str, given: str) -> str:
    """Return the URL of a repository with the commit that is its HEAD now; any other source unchanged."""
    url, mark, fragment = source.partition("#")
    if not url.startswith("git+") or "@" in urlsplit(url).path:
        return source
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}  # never asks for a password
    try:
        done = subprocess.run(  # noqa: S603 - the URL that the user gave, never an option
            ["git", "ls-remote", "--", url.removeprefix("git+"), "HEAD"],  # noqa: S607 - the user's git
            env={**os.environ, **quiet},
            capture_output=True,
            text=True,
            timeout=_READ_TIMEOUT_S,
            check=False,
        )
        reason = (done.stderr.strip() or "it has no commit").splitlines()[-1]
        commit = done.stdout.split()[0] if done.returncode == 0 and done.stdout else None
    except (OSError, subprocess.TimeoutExpired) as error:
        reason, commit = str(error), None
    if commit is None:
        raise ConfigError(f"--from {given}: cannot read its latest commit: {reason}; give a commit, as URL@COMMIT")
    return f"{url}@{commit}{mark}{fragment}"


PLUGIN_TEMPLATE = "evaluator-plugin"
PLUGIN_NAME = "my-evaluator"
"""The default name of the template's package; its module and evaluator type have `_` instead of `-`."""

TEMPLATES: Mapping[str, str] = {
    "agent": "an agent command that reports its tool calls",
    "rag": "a retrieval pipeline in Python",
    "chat": "a chat model (canned answers until you choose a model)",
    "python": "a Python function",
    PLUGIN_TEMPLATE: "a package with your own evaluator",
}
_TEMPLATES_FOLDER = Path(__file__).parents[1] / "templates"
_ENV_FILE_PATTERNS = (".env", "/.env", ".env*", "*.env", "**/.env")
"""Lines of a .gitignore file, each of which excludes `.env`."""
_CI_FILES = (".github/workflows/agentv.yml", ".gitlab-ci.yml")


@click.command()
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    default="agent",
    show_default=True,
    help="; ".join(f"{name}: {description}" for name, description in TEMPLATES.items()) + ".",
)
@click.option("--name", metavar="NAME", help=f"Name of the evaluator package (default: {PLUGIN_NAME}).")
@click.option("--from", "install_from", metavar="PATH_OR_URL", help="Source from which CI jobs install agentv.")
@click.option("--json", "as_json", is_flag=True, help="Print the names of the written files as one JSON object.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=".")
def command(folder: Path, template: str, name: str | None, install_from: str | None, *, as_json: bool) -> None:
    """Create a first eval file, targets file, .env.template and CI jobs in FOLDER (default: here).

    The result can be run right away, without API keys or network access. Existing files are not changed. The CI jobs
    install agentv from --from, by default from the repository that the agentv you are running was installed from. The
    URL of a repository is pinned to its latest commit, unless it names one (URL@COMMIT).
    """
    source = ci_source(install_from)
    files = files_of(template)
    if name is not None:
        files = _with_package_name(files, template, name)
    written, existing = write_all(folder, _with_install_source(files, source))
    if as_json:
        report = {"schema": "agentv-init-1", "folder": str(folder), "written": written, "kept": existing}
        click.echo(json.dumps({**report, "agentv": source}))
        return
    for file in written:
        click.echo(f"wrote   {folder / file}")
    for file in existing:
        click.echo(f"exists  {folder / file}  (not changed)")
    if ".gitignore" in existing and not _ignores_env_file(folder / ".gitignore"):
        click.echo("\nAPI keys go into .env: add the line `.env` to .gitignore, so that they are never committed.")
    _print_source_advice(source, [file for file in _CI_FILES if file in written])
    change_folder = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    click.echo(f"\nNext: {change_folder}agentv run")


def _print_source_advice(source: str, ci_files: Sequence[str]) -> None:
    """Print what to do about a source that CI machines cannot reach."""
    if not ci_files:
        return
    if not source:
        files = " and ".join(ci_files)
        click.echo(
            f"\nCI jobs fail until AGENTV_SOURCE in {files} says where to install agentv from.\n"
            "Or remove these files, and let agentv init --from URL write them."
        )
    elif _is_local(source):
        click.echo(f"\nCI jobs install agentv from {source}, which exists only on this machine: replace it with a URL.")


def files_of(template: str) -> dict[str, str]:
    """Return the texts of all files for a template, by path relative to the project's folder."""
    schemas = {f".agentv/{SCHEMAS_FOLDER}/{name}": text for name, text in schema_files().items()}
    return {**_template_files("common"), **_template_files(template), **schemas}


def _with_install_source(files: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the files with the sources of agentv filled in: `source` in CI jobs, else a source of this machine."""
    local = shlex.quote(source or own_source())
    return {
        path: text.replace('"@AGENTV_SOURCE@"', json.dumps(source)).replace("@AGENTV@", local)
        for path, text in files.items()
    }


def _with_package_name(files: Mapping[str, str], template: str, name: str) -> dict[str, str]:
    """Return the files of the plug-in template with its package, module and evaluator type renamed.

    Raises UsageError for any other template, ConfigError for a name that cannot be used.
    """
    if template != PLUGIN_TEMPLATE:
        raise click.UsageError(f"--name requires --template {PLUGIN_TEMPLATE}; the other templates have no package")
    module = plugin_module(name)
    pairs = ((PLUGIN_NAME, name), (PLUGIN_NAME.replace("-", "_"), module))

    def renamed(text: str) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return {renamed(path): renamed(text) for path, text in files.items()}


def plugin_module(name: str) -> str:
    """Return the module name for a package name; it is also the evaluator type.

    Raises ConfigError if the package name is invalid, or conflicts with an evaluator type or a module.
    """
    from agentv.evaluators import EVALUATORS

    module = name.replace("-", "_").lower()
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9]|[-_](?=[A-Za-z0-9]))*", name) or keyword.iskeyword(module):
        allowed = "letters, digits, and single - or _ between them, starting with a letter"
        raise ConfigError(f"{name!r} is not a valid package name; allowed: {allowed}")
    if module in EVALUATORS or module in sys.stdlib_module_names or module == "agentv":
        owner = f"agentv's evaluator type {module!r}" if module in EVALUATORS else f"the module {module!r}"
        raise ConfigError(f"{name!r} conflicts with {owner}; choose another name")
    return module


def _template_files(template: str) -> dict[str, str]:
    root = _TEMPLATES_FOLDER / template
    paths = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {_project_path(path.relative_to(root)): path.read_text("utf-8") for path in paths}


def _project_path(path: Path) -> str:
    """Return the path of a template file in the project: `dot-env` becomes `.env`."""
    return "/".join(f".{part[4:]}" if part.startswith("dot-") else part for part in path.parts)


def write_all(folder: Path, files: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Write the files that do not exist yet, or none of them if one fails.

    Return the names of the written files and those of the existing ones. Raises ConfigError if a file is where a
    folder is needed or vice versa, StorageError if a file cannot be written for another reason.
    """
    created: list[Path] = []
    written: list[str] = []
    existing: list[str] = []
    try:
        for name, text in sorted(files.items()):
            is_new = _write_new(folder / name, text, created)
            (written if is_new else existing).append(name)
    except OSError as error:
        _remove_created(created)
        message = f"cannot write {error.filename or folder}: {error.strerror}; nothing was written"
        is_in_the_way = isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError)
        raise (ConfigError if is_in_the_way else StorageError)(message) from error
    return written, existing


def _write_new(path: Path, text: str, created: list[Path]) -> bool:
    """Write a file unless it exists; return True if it was written. Add each created file and folder to `created`."""
    for parent in reversed(path.parents):
        if not parent.is_dir():
            parent.mkdir()
            created.append(parent)
    if path.is_file():
        return False
    with path.open("x", encoding="utf-8") as file:
        created.append(path)
        file.write(text)
    return True


def _remove_created(created: list[Path]) -> None:
    for path in reversed(created):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _ignores_env_file(gitignore: Path) -> bool:
    lines = gitignore.read_text("utf-8", errors="replace").splitlines()
    return any(line.strip() in _ENV_FILE_PATTERNS for line in lines)
