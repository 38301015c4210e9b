"""The value of `workspace` in a suite or case of AgentV 2.10 to 4.42, translated into a workspace of ours.

AgentV shares one folder among all cases unless `isolation: per_test` is set; here each result has a copy of its own.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path

from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.files.path_guard import FileProblemError, guard_for
from agentv.loading.models.reader import open_yaml
from agentv.loading.translation.translation import Translation
from agentv.types.errors import EvalFileError, nearest

_HOOKS = ("before_all", "before_each", "after_each", "after_all")
_AGENTV_KEYS = ("template", "isolation", "repos", "hooks", "mode", "path", "docker", "env", *_HOOKS)
_OUR_KEYS = ("template", "git", "ref", "repos", "setup", "teardown", "keep")
_PATH_VARIABLE = "{{workspace_path}}"
_MAX_COMMAND_MS = 600_000


def translate_workspace(document: Document, folder: Path) -> Translation:
    """Return the translation of a workspace: an object, or the path of a YAML file with one, relative to `folder`.

    `document` has the workspace as its value; `folder` is that of the eval file. Paths in the workspace are relative to
    `folder`, or to the folder of the workspace's own file, where commands also start. Nothing is run.
    """
    document, base, problem = _open_workspace(document, folder)
    translation = Translation(document)
    if problem is not None:
        translation.refuse((), problem)
        return translation
    _translate_source(translation, base, folder)
    _translate_hooks(translation, base)
    for key in [key for key in translation.entries(()) if key not in _OUR_KEYS]:
        near = nearest(key, _AGENTV_KEYS)
        hint = f"did you mean {near!r}?" if near else None
        translation.drop((key,), f"{key!r} is not a key of AgentV's `workspace`, and has no effect", hint)
    return translation


def _open_workspace(document: Document, folder: Path) -> tuple[Document, Path, str | None]:
    """Return the document of the workspace, the folder of its file, and a problem if it cannot be read."""
    if isinstance(document.value, Mapping):
        return document, folder, None
    if not isinstance(document.value, str):
        return document, folder, "`workspace` must be an object, or the path of a YAML file"
    path = folder / document.value
    try:
        guard_for(folder, cwd=Path.cwd()).check(path, document.value)
        inner = open_yaml(path).document
    except FileProblemError as error:
        return document, folder, f"the workspace {error.message}; {error.allowed}"
    except EvalFileError as error:
        return document, folder, f"the file of the workspace cannot be read: {error}"
    problem = None if isinstance(inner.value, Mapping) else f"the file {path} of the workspace must contain an object"
    return inner, path.parent, problem


def _translate_source(translation: Translation, base: Path, folder: Path) -> None:
    """Translate the sources of a workspace: its template and repositories."""
    entries = translation.entries(())
    if "docker" in entries:
        message = "workspaces in docker are not supported"
        translation.refuse(("docker",), message, "use `template` or `repos`, and start the container in the target")
        translation.remove((), "docker")
    if entries.get("mode") == "static":
        message = "AgentV works in the folder `path` itself; here each result has a copy of it"
        translation.warn(("mode",), message)
        translation.rename((), "path", "template")
    translation.ignore((), "mode", "path")
    template = entries.get("template")
    if isinstance(template, str) and base != folder:
        translation.put((), "template", relpath(base / template, folder), like="template")
    if entries.get("isolation", "shared") == "shared":
        at: JsonPath = ("isolation",) if "isolation" in entries else ()
        translation.warn(at, "AgentV shares one workspace among all cases; here each result has a copy of its own")
    translation.remove((), "isolation")
    repos = entries.get("repos")
    for index in range(len(repos) if isinstance(repos, list) else 0):
        _translate_repo(translation, ("repos", index), base, folder)


def _translate_repo(translation: Translation, at: JsonPath, base: Path, folder: Path) -> None:
    """Translate a repository: the keys of AgentV 4, or its earlier `source`, `checkout` and `clone`."""
    entries = translation.entries(at)
    for group in ("checkout", "clone"):
        for key, value in tuple(translation.entries((*at, group)).items()):
            if key not in entries:
                translation.put(at, key, value, like=group)
    source = translation.entries((*at, "source"))
    for key in ("url", "path"):
        if key in source and "repo" not in entries:
            translation.put(at, "repo", source[key], like="source")
    translation.remove(at, "checkout", "clone", "source")
    translation.rename(at, "repo", "git")
    for key in ("commit", "base_commit"):
        translation.rename(at, key, "ref")
    translation.remove(at, "commit", "base_commit")
    if "path" not in entries and isinstance(entries.get("git"), str):
        translation.put(at, "path", str(entries["git"]).removesuffix(".git").rsplit("/", 1)[-1], like="git")
    git, ancestor = entries.get("git"), entries.get("ancestor")
    if isinstance(git, str) and base != folder and git.startswith("."):
        translation.put(at, "git", relpath(base / git, folder), like="git")
    if isinstance(ancestor, int) and not isinstance(ancestor, bool) and ancestor > 0:
        translation.put(at, "ref", f"{entries.get('ref', 'HEAD')}~{ancestor}", like="ancestor")
    translation.remove(at, "ancestor")
    translation.ignore(at, "depth", "filter", "resolve")  # how much is fetched, not what the agent sees


def _translate_hooks(translation: Translation, base: Path) -> None:
    """Translate hooks and required commands into one `setup` and one `teardown` for each result."""
    commands: dict[str, list[str]] = {"setup": [], "teardown": []}
    required = translation.document.at(("env", "required_commands"))
    if isinstance(required, list) and required:
        commands["setup"].append(_check_of_commands([str(each) for each in required]))
    for key in tuple(translation.entries(("env",)).keys() - {"required_commands"}):
        translation.drop(("env", key), f"AgentV's `env.{key}` of a workspace has no counterpart here")
    is_off = translation.document.at(("hooks", "enabled")) is False
    for at in _hook_places(translation):
        name = str(at[-1])
        if not is_off and (command := _hook_command(translation, at, base)) is not None:
            commands["setup" if name.startswith("before") else "teardown"].append(command)
            if name.endswith("_all"):
                message = f"AgentV runs `{name}` once for all cases; here it runs for each result, in its own workspace"
                translation.warn(at, message)
    for key, parts in commands.items():
        if parts:
            like = "hooks" if "hooks" in translation.entries(()) else "env"
            translation.put((), key, " &&\n".join(f"({part})" for part in parts), like=like)
    translation.remove((), "hooks", "env", *_HOOKS)


def _hook_places(translation: Translation) -> Iterator[JsonPath]:
    """Yield the paths of the hooks, in the order in which they run; before AgentV 3 they were not under `hooks:`."""
    for name in _HOOKS:
        for at in (("hooks", name), (name,)):
            if translation.entries(at):
                yield at


def _check_of_commands(names: Sequence[str]) -> str:
    words = " ".join(map(shlex.quote, names))
    missing = 'echo "the required command $name is not installed" >&2'
    return f'for name in {words}; do command -v "$name" >/dev/null || {{ {missing}; exit 1; }}; done'


def _hook_command(translation: Translation, at: JsonPath, base: Path) -> str | None:
    """Return a hook as a command of sh, run in its `cwd` with the workspace's path as JSON on stdin, as AgentV does."""
    hook = translation.entries(at)
    key = "command" if hook.get("command") is not None else "script"
    written = hook.get(key)
    if written is None:
        return None  # only `reset`, which a fresh copy does not need
    limit = hook.get("timeout_ms")
    if isinstance(limit, int | float) and limit > _MAX_COMMAND_MS:
        translation.warn((*at, "timeout_ms"), "a command of a workspace may take ten minutes at most")
    words = [str(word) for word in written] if isinstance(written, list) else ["sh", "-c", str(written)]
    cwd = hook.get("cwd")
    folder = (base / cwd if isinstance(cwd, str) else base).resolve()
    command = " ".join(map(_quoted, words))
    print_input = 'printf \'{"workspace_path":"%s"}\' "$workspace"'
    return f"workspace=$PWD; cd {shlex.quote(str(folder))} && {print_input} | {command}"


def _quoted(word: str) -> str:
    """Return a word for sh, in which `{{workspace_path}}` is filled."""
    parts = [shlex.quote(part) if part else "" for part in word.split(_PATH_VARIABLE)]
    return '"$workspace"'.join(parts) or "''"
