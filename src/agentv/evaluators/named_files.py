"""The files that an evaluator's settings name, which a run needs.

A digest of their content is part of the score key, the digest of everything that the evaluator's score depends on.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

_SCRIPT_SUFFIXES = frozenset(
    {".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".rb", ".pl", ".php", ".lua", ".r", ".jl"}
)
_INTERPRETER = re.compile(r"(python|pypy|node|deno|bun|ruby|perl|php|lua|bash|zsh|dash|sh|Rscript|julia)[\d.]*")
_FLAGS_WITHOUT_VALUE = frozenset({"-u", "-B", "-E", "-I", "-O", "-S", "-s"})
"""Options of interpreters that take no value, so that the next argument may be the script."""

_SHELL_ONLY = re.compile(r"[|&;<>()$`*?\n~]|^\s*\w+=")
"""Syntax that only a shell understands: pipes, redirections, globs, variables and assignments."""

_WORD = re.compile(r"[^\s|&;<>()$`\"'=]+")
"""A word of a shell command, without the syntax around it."""


def is_file(path: Path) -> bool:
    """Return True if a path leads to a file; False also for a path that is invalid or cannot be checked."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def real_path(path: Path) -> str:
    """Return an absolute path. Links are resolved unless that fails, as for a circle of links or a bad name."""
    try:
        return str(path.resolve())
    except (OSError, ValueError, RuntimeError):
        return str(path.absolute())


def function_files(reference: str, folder: Path) -> tuple[str, ...]:
    """Return the absolute path of the file of the function that `reference` names; names are relative to `folder`.

    The file of `path.py:function` is returned whether it exists or not, that of `package.module:function` only if it
    exists below `folder`.
    """
    source = reference.rpartition(":")[0]
    if source.endswith(".py"):
        return _resolved(folder, (source,))
    module = source.replace(".", "/")
    return _resolved(folder, [path for path in (f"{module}.py", f"{module}/__init__.py") if is_file(folder / path)])


def script_files(script: str | Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the scripts that a command names; the command runs in `folder`.

    A script that the command requires (`python judge.py`, `./judge`) is returned whether it exists or not. A word that
    may mean something else (a path inside a container, a file that the command writes) is returned only if it exists.
    """
    required = tuple(_required_files(_arguments(script)))
    words = _WORD.findall(script) if isinstance(script, str) else script
    existing = (word for word in words if _is_script(word) and is_file(folder / word))
    return _resolved(folder, (*required, *existing))


def _required_files(command: Sequence[str]) -> Iterator[str]:
    """Yield the program if it is the path of a script or a relative path, and the script passed to an interpreter.

    A program without a `/` is not a path: it is searched in PATH.
    """
    program = command[0] if command else ""
    if "/" in program and (_is_script(program) or not Path(program).is_absolute()):
        yield program
    if _INTERPRETER.fullmatch(Path(program).name):
        argument = next((word for word in command[1:] if word not in _FLAGS_WITHOUT_VALUE), "")
        if _is_script(argument):
            yield argument


def _arguments(script: str | Sequence[str]) -> Sequence[str]:
    """Return the words of a command; none if a text needs a shell or has unbalanced quotes."""
    if not isinstance(script, str):
        return script
    try:
        return () if _SHELL_ONLY.search(script) else shlex.split(script)
    except ValueError:
        return ()


def _is_script(word: str) -> bool:
    return not word.startswith("-") and Path(word).suffix.lower() in _SCRIPT_SUFFIXES


def _resolved(folder: Path, paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(real_path(Path(folder, path)) for path in paths))
