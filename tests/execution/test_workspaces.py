import asyncio
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agentv.execution.folder_trees import remove_tree
from agentv.execution.sharing import SharedResources
from agentv.execution.workspaces.sources import missing_source
from agentv.execution.workspaces.workspaces import Workspace, open_workspace
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError
from agentv.types.workspaces import WorkspaceChanges, WorkspaceConfig, WorkspaceRepo, workspace_from_json

T = TypeVar("T")
Work = Callable[[Path], object]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("def total(a, b):\n    return a - b\n")
    (folder / "README.md").write_text("A shop.\n")
    (folder / "run.sh").write_text("echo hello\n")
    (folder / "logo.bin").write_bytes(bytes(range(256)))
    return folder


@asynccontextmanager
async def opened(config: WorkspaceConfig, base_dir: Path, *, name: str = "row") -> AsyncIterator[Workspace]:
    async with (
        SharedResources() as shared,
        open_workspace(config, name=name, base_dir=base_dir, home=base_dir / ".agentv", shared=shared) as workspace,
    ):
        yield workspace


def use(config: WorkspaceConfig, base_dir: Path, use: Callable[[Workspace], Awaitable[T]]) -> T:
    async def run() -> T:
        async with asyncio.timeout(60), opened(config, base_dir) as workspace:
            return await use(workspace)

    return asyncio.run(run())


def captured_after(work: Work, template: Path, **settings: object) -> WorkspaceChanges:
    """Return the changes captured after an agent did `work` in a copy of the template."""

    async def use_it(workspace: Workspace) -> WorkspaceChanges:
        work(workspace.path)
        return await workspace.capture()

    where = {} if "git" in settings else {"template": template.name}
    return use(workspace_from_json({**where, **settings}), template.parent, use_it)  # type: ignore[dict-item] # JSON


def failure_of(config: WorkspaceConfig, base_dir: Path) -> Failure:
    async def never(_: Workspace) -> None:
        raise AssertionError

    with pytest.raises(ProviderError) as raised:
        use(config, base_dir, never)
    return raised.value.failure


def statuses(captured: WorkspaceChanges) -> dict[str, str]:
    return {file.path: file.status for file in captured.changed}


def git(*arguments: str, cwd: Path) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit_all(folder: Path, message: str = "work") -> str:
    if not (folder / ".git").exists():
        git("init", "--quiet", cwd=folder)
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message", message, cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


# --- copies ------------------------------------------------------------------------------------------------------


def test_a_workspace_is_a_copy_that_leaves_its_template_alone(template: Path) -> None:
    async def spoil(workspace: Workspace) -> None:
        assert (workspace.path / "src/app.py").read_bytes() == (template / "src/app.py").read_bytes()
        for file in workspace.path.rglob("*"):
            if file.is_file():
                file.write_text("spoilt")

    use(WorkspaceConfig(template="template"), template.parent, spoil)

    assert (template / "README.md").read_text() == "A shop.\n"


def test_every_case_starts_from_the_same_files_if_the_template_changes(template: Path) -> None:
    async def run() -> tuple[str, str]:
        config = WorkspaceConfig(template="template")
        async with SharedResources() as shared:
            places: Any = {"base_dir": template.parent, "home": template.parent}
            async with open_workspace(config, name="a", shared=shared, **places) as first:
                (first.path / "README.md").write_text("An agent was here.\n")
                (template / "README.md").write_text("Edited by its owner.\n")
                async with open_workspace(config, name="b", shared=shared, **places) as second:
                    return (first.path / "README.md").read_text(), (second.path / "README.md").read_text()

    assert asyncio.run(run()) == ("An agent was here.\n", "A shop.\n")


def test_modes_links_and_empty_folders_are_copied(template: Path) -> None:
    (template / "run.sh").chmod(0o755)
    (template / "locked").mkdir(mode=0o555)
    (template / "latest").symlink_to("src")
    (template / "here").symlink_to("./README.md")

    async def look(workspace: Workspace) -> tuple[int, bool, str]:
        assert (await workspace.capture()).changed == ()
        mode = (workspace.path / "run.sh").stat().st_mode
        return stat.S_IMODE(mode), (workspace.path / "locked").is_dir(), str((workspace.path / "latest").readlink())

    assert use(WorkspaceConfig(template="template"), template.parent, look) == (0o755, True, "src")


def test_an_absolute_link_into_the_template_leads_into_the_copy(template: Path) -> None:
    (template / "link").symlink_to(template / "README.md")

    captured_after(lambda path: (path / "link").write_text("through the link\n"), template)

    assert (template / "README.md").read_text() == "A shop.\n"


def test_a_link_out_of_the_template_leads_where_it_led(template: Path) -> None:
    (template.parent / "shared.txt").write_text("for all rows")
    (template / "shared").symlink_to("../shared.txt")

    async def read(workspace: Workspace) -> str:
        return (workspace.path / "shared").read_text()

    assert use(WorkspaceConfig(template="template"), template.parent, read) == "for all rows"


def test_pipes_and_sockets_in_a_template_hold_nothing_up(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(template / "pipe")
    monkeypatch.chdir(template)  # the name of a socket may have only a hundred characters
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert captured_after(lambda _: None, template).changed == ()


def test_a_copy_of_a_linked_work_tree_does_not_lead_to_its_repository(template: Path) -> None:
    (template / ".git").write_text(f"gitdir: {template.parent}/elsewhere/.git/worktrees/template\n")

    async def is_there(workspace: Workspace) -> bool:
        return (workspace.path / ".git").exists()

    assert use(WorkspaceConfig(template="template"), template.parent, is_there) is False


@pytest.mark.parametrize("name", ["nowhere", "template/README.md"])
def test_a_template_that_is_no_folder_is_a_config_error(template: Path, name: str) -> None:
    failure = failure_of(WorkspaceConfig(template=name), template.parent)
    assert (failure.kind, failure.message) == (
        "config_error",
        f"workspace: there is no folder {template.parent / name} to copy",
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"template": "template"}, None),
        ({"template": "nowhere"}, "workspace: there is no folder {here}/nowhere to copy"),
        ({"template": "template/README.md"}, "workspace: there is no folder {here}/template/README.md to copy"),
        ({"git": "template"}, "workspace: the folder {here}/template is not a git repository"),
        ({"git": "nowhere"}, "workspace: there is no repository {here}/nowhere"),
        ({"git": "https://nowhere.example/x.git"}, None),
        ({"git": "git@nowhere.example:x.git"}, None),
    ],
)
def test_a_source_that_is_not_there_is_known_without_fetching_anything(
    template: Path, settings: dict[str, str], said: str | None
) -> None:
    missing = missing_source(workspace_from_json(settings), template.parent)

    assert missing == (said and said.format(here=template.parent))
    assert sorted(template.parent.iterdir()) == [template]


# --- captured changes -------------------------------------------------------------------------------------------


def edit(path: Path) -> None:
    (path / "src" / "app.py").write_text("def total(a, b):\n    return a + b\n")
    (path / "tests").mkdir()
    (path / "tests" / "test_app.py").write_text("import app\n")
    (path / "run.sh").unlink()
    (path / "logo.bin").write_bytes(bytes(range(255, -1, -1)))
    (path / "README.md").rename(path / "READ ME.md")


EDITED = """\
diff --git a/README.md b/READ ME.md
similarity index 100%
rename from README.md
rename to READ ME.md
diff --git a/logo.bin b/logo.bin
Binary files a/logo.bin and b/logo.bin differ
diff --git a/run.sh b/run.sh
deleted file mode 100644
--- a/run.sh
+++ /dev/null
@@ -1 +0,0 @@
-echo hello
diff --git a/src/app.py b/src/app.py
--- a/src/app.py
+++ b/src/app.py
@@ -1,2 +1,2 @@
 def total(a, b):
-    return a - b
+    return a + b
diff --git a/tests/test_app.py b/tests/test_app.py
new file mode 100644
--- /dev/null
+++ b/tests/test_app.py
@@ -0,0 +1 @@
+import app
"""


def test_what_an_agent_changed_is_listed_and_shown(template: Path) -> None:
    captured = captured_after(edit, template)
    assert captured.diff == EDITED
    assert [file.to_json() for file in captured.changed] == [
        {"path": "READ ME.md", "status": "renamed", "bytes": 8, "before": "README.md"},
        {"path": "logo.bin", "status": "modified", "bytes": 256, "binary": True},
        {"path": "run.sh", "status": "deleted"},
        {"path": "src/app.py", "status": "modified", "bytes": 34},
        {"path": "tests/test_app.py", "status": "added", "bytes": 11},
    ]


def test_nothing_changed_is_an_empty_diff(template: Path) -> None:
    assert captured_after(lambda _: None, template) == WorkspaceChanges()


def test_a_change_of_the_same_length_right_after_the_copy_is_seen(template: Path) -> None:
    captured = captured_after(lambda path: (path / "README.md").write_text("A shed.\n"), template)
    assert statuses(captured) == {"README.md": "modified"}


def test_a_mode_and_a_kind_that_changed_are_shown(template: Path) -> None:
    def work(path: Path) -> None:
        (path / "run.sh").chmod(0o755)
        (path / "README.md").unlink()
        (path / "README.md").symlink_to("src/app.py")

    captured = captured_after(work, template)

    assert captured.diff == (
        """\
diff --git a/README.md b/README.md
deleted file mode 100644
--- a/README.md
+++ /dev/null
@@ -1 +0,0 @@
-A shop.
diff --git a/README.md b/README.md
new file mode 120000
--- /dev/null
+++ b/README.md
@@ -0,0 +1 @@
+src/app.py
\\ No newline at end of file
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
"""
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_can_apply_a_captured_diff(template: Path, tmp_path: Path) -> None:
    def work(path: Path) -> None:
        edit(path)
        (path / "logo.bin").unlink()  # what is binary is named only
        shutil.copy(template / "logo.bin", path / "logo.bin")
        (path / 'odd "name"\twith\\all.txt').write_text("no line end")
        (path / "empty").touch()

    captured = captured_after(work, template)
    work_again = tmp_path / "expected"
    shutil.copytree(template, work_again)
    work(work_again)

    subprocess.run(["git", "apply", "-"], input=captured.diff.encode(), cwd=template, check=True)

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    assert contents(template) == contents(work_again)


def test_a_file_name_cannot_forge_lines_of_the_diff(template: Path) -> None:
    def work(path: Path) -> None:
        file = path / "x\n--- a/README.md\n+++ b/README.md"
        file.parent.mkdir(parents=True)
        file.write_text("1")

    captured = captured_after(work, template)

    assert not [line for line in captured.diff.split("\n") if line.startswith("--- a/README.md")]


def test_a_name_that_is_no_text_is_shown_in_escapes(template: Path) -> None:
    captured = captured_after(lambda path: Path(os.fsdecode(os.fsencode(path) + b"/\xff")).write_text("1"), template)
    assert '+++ "b/\\377"' in captured.diff


def test_a_large_file_is_named_not_shown(template: Path) -> None:
    captured = captured_after(lambda path: (path / "big.txt").write_text("line\n" * 300_000), template)
    assert captured.diff.endswith("Files /dev/null and b/big.txt differ; too large to show\n")
    assert statuses(captured) == {"big.txt": "added"}


def test_a_large_diff_says_what_it_leaves_out(template: Path) -> None:
    def flood(path: Path) -> None:
        for number in range(2_100):
            (path / f"{number:04}.txt").write_text("text\n" * 120)

    captured = captured_after(flood, template)

    assert len(captured.diff) < 1.01 * 2**20
    assert len(captured.changed) == 2_000
    assert captured.notes == (
        (
            "100 more changed files are not listed",
            "the diff is too large: 822 of 2100 changed files are left out",
        )
    )
    assert captured.diff.endswith(f"# {captured.notes[1]}\n")


# --- links and other traps ---------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("the owner's secret")
    return folder


@pytest.mark.parametrize("what", ["file", "folder", "replaced folder", "whole workspace"])
def test_a_link_that_an_agent_made_leads_no_capture_outside(template: Path, secret: Path, what: str) -> None:
    def work(path: Path) -> None:
        if what == "file":
            (path / "link").symlink_to(secret / "secret.txt")
        elif what == "folder":
            (path / "link").symlink_to(secret)
        elif what == "replaced folder":
            shutil.copy(path / "src" / "app.py", secret)
            (secret / "app.py").write_text("the owner's secret")
            shutil.rmtree(path / "src")
            (path / "src").symlink_to(secret)
        else:
            shutil.rmtree(path)
            path.symlink_to(secret)

    captured = captured_after(work, template)

    assert "the owner's secret" not in captured.diff
    assert "secret.txt" not in [file.path for file in captured.changed]
    assert max(file.name for file in secret.iterdir()) == "secret.txt"  # and nothing there was removed


def test_a_pipe_that_an_agent_left_holds_nothing_up(template: Path) -> None:
    def work(path: Path) -> None:
        (path / "README.md").unlink()
        os.mkfifo(path / "README.md")

    assert statuses(captured_after(work, template)) == {"README.md": "deleted"}


def test_a_folder_without_permissions_is_removed_all_the_same(template: Path) -> None:
    places = []

    async def lock(workspace: Workspace) -> None:
        places.append(workspace.path.parent)
        (workspace.path / "src").chmod(0o000)
        workspace.path.chmod(0o000)

    use(WorkspaceConfig(template="template"), template.parent, lock)

    assert not places[0].exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_what_an_agent_made_unreadable_is_named(template: Path) -> None:
    def work(path: Path) -> None:
        (path / "README.md").chmod(0o000)
        (path / "src").chmod(0o000)

    captured = captured_after(work, template)

    assert statuses(captured) == {"README.md": "modified"}
    assert "a/README.md and b/README.md differ; they cannot be read" in captured.diff


# --- setup and teardown ------------------------------------------------------------------------------------------


def test_what_setup_did_is_not_the_agents_change(template: Path) -> None:
    setup = "echo generated > made.txt; sed -i.bak s/a/b/ src/app.py; rm run.sh"

    captured = captured_after(lambda path: (path / "new.txt").write_text("1\n"), template, setup=setup)

    assert statuses(captured) == {"new.txt": "added"}


def test_an_agents_change_is_shown_against_what_setup_left(template: Path) -> None:
    setup = "echo broken > src/app.py; echo one > made.txt"

    def work(path: Path) -> None:
        shutil.copy(template / "src/app.py", path / "src/app.py")
        (path / "made.txt").write_text("two\n")

    captured = captured_after(work, template, setup=setup)

    assert captured.diff == (
        """\
diff --git a/made.txt b/made.txt
--- a/made.txt
+++ b/made.txt
@@ -1 +1 @@
-one
+two
diff --git a/src/app.py b/src/app.py
--- a/src/app.py
+++ b/src/app.py
@@ -1 +1,2 @@
-broken
+def total(a, b):
+    return a - b
"""
    )


def test_a_setup_that_fails_says_what_it_said(template: Path) -> None:
    failure = failure_of(WorkspaceConfig(template="template", setup="echo no network >&2; exit 3"), template.parent)
    assert (failure.kind, failure.details) == ("target_exit", {"exit_code": 3})
    assert failure.message == "workspace setup failed with exit code 3; output:\nno network"


def test_teardown_runs_in_the_workspace_and_its_failure_is_reported(template: Path) -> None:
    config = WorkspaceConfig(template="template", teardown=f"cp new.txt {template.parent}/seen; exit 4")

    async def work(workspace: Workspace) -> tuple[str, ...]:
        (workspace.path / "new.txt").write_text("made by the agent")
        return await workspace.finish(failed=False)

    assert use(config, template.parent, work) == ("workspace teardown failed with exit code 4",)
    assert (template.parent / "seen").read_text() == "made by the agent"


def test_teardown_runs_after_a_crash_too(template: Path) -> None:
    config = WorkspaceConfig(template="template", teardown=f"touch {template.parent}/seen")

    async def crash(_: Workspace) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        use(config, template.parent, crash)
    assert (template.parent / "seen").exists()


def test_a_reset_workspace_is_as_it_was_set_up(template: Path) -> None:
    setup = f"echo x >> {template.parent}/setups; echo made > made.txt; rm run.sh"

    async def work(workspace: Workspace) -> list[WorkspaceChanges]:
        shutil.rmtree(workspace.path / "src")
        (workspace.path / "new.txt").write_text("first attempt\n")
        (workspace.path / "made.txt").write_text("first attempt\n")
        await workspace.reset()
        untouched = await workspace.capture()
        (workspace.path / "made.txt").write_text("second attempt\n")
        return [untouched, await workspace.capture()]

    untouched, second = use(WorkspaceConfig(template="template", setup=setup), template.parent, work)

    assert untouched == WorkspaceChanges()
    assert "-made\n+second attempt\n" in second.diff
    assert statuses(second) == {"made.txt": "modified"}
    assert (template.parent / "setups").read_text() == "x\nx\n"


def test_a_reset_follows_no_link_in_the_place_of_the_folder(template: Path, secret: Path) -> None:
    async def work(workspace: Workspace) -> bytes:
        shutil.rmtree(workspace.path)
        workspace.path.symlink_to(secret)
        await workspace.reset()
        return (workspace.path / "README.md").read_bytes()

    assert use(WorkspaceConfig(template="template"), template.parent, work) == b"A shop.\n"
    assert (secret / "secret.txt").exists()


# --- keeping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "failed", "is_kept"),
    [
        ("never", True, False),
        ("failed", False, False),
        ("failed", True, True),
        ("always", False, True),
    ],
)
def test_a_workspace_is_saved_or_removed(template: Path, keep: str, *, failed: bool, is_kept: bool) -> None:
    places = []

    async def work(workspace: Workspace) -> Path | None:
        places.append(workspace.path.parent)
        (workspace.path / "new.txt").write_text("1")
        notes = await workspace.finish(failed=failed)
        assert notes == ((f"workspace: saved to {workspace.saved_path}",) if keep == "failed" and failed else ())
        return workspace.saved_path

    kept = use(WorkspaceConfig(template="template", keep=keep), template.parent, work)  # type: ignore[arg-type] # given

    assert not places[0].exists()
    assert (kept is not None and (kept / "new.txt").is_file()) is is_kept
    if is_kept:
        assert kept is not None
        assert kept.parent == template.parent / ".agentv" / "workspaces"


def test_a_row_that_was_cut_short_counts_as_failed(template: Path) -> None:
    async def stop(workspace: Workspace) -> None:
        (workspace.path / "half.txt").write_text("1")
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        use(WorkspaceConfig(template="template", keep="failed"), template.parent, stop)

    assert [path.name for path in (template.parent / ".agentv").glob("workspaces/*/half.txt")] == ["half.txt"]


@pytest.mark.parametrize(("keep", "kept"), [("never", []), ("failed", ["half.txt"])])
def test_an_interrupted_teardown_is_not_repeated_by_close(template: Path, keep: str, kept: list[str]) -> None:
    began = template.parent / "began"
    config = WorkspaceConfig(template="template", teardown=f"echo once >> {began}; tail -f /dev/null", keep=keep)  # type: ignore[arg-type] # given
    places = []

    async def run() -> None:
        async def work() -> None:
            async with opened(config, template.parent) as workspace:
                places.append(workspace.path.parent)
                (workspace.path / "half.txt").write_text("1")
                await workspace.finish(failed=False)

        task = asyncio.create_task(work())
        async with asyncio.timeout(60):
            while not began.exists():  # noqa: ASYNC110 - the start of a command is not signalled
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())

    assert began.read_text() == "once\n"
    assert not places[0].exists()
    assert [path.name for path in (template.parent / ".agentv").glob("workspaces/*/half.txt")] == kept


def test_a_kept_workspace_is_called_after_its_row_and_stays_in_its_folder(template: Path) -> None:
    async def kept(name: str) -> Path:
        config = WorkspaceConfig(template="template", keep="always")
        async with opened(config, template.parent, name=name) as workspace:
            assert workspace.saved_path is not None
            return workspace.saved_path

    path = asyncio.run(kept("../../etc/refunds #7 / trial 0"))

    assert path.parent == template.parent / ".agentv" / "workspaces"
    assert path.name.startswith("etc-refunds-7-trial-0-")
    assert path.is_dir()


def test_a_run_that_is_cancelled_while_copying_leaves_nothing_behind(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2_000):
        (template / f"{number}").write_text("x")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    async def run() -> None:
        async def open_it() -> None:
            async with opened(WorkspaceConfig(template="template"), template.parent):
                raise AssertionError

        task = asyncio.create_task(open_it())
        while not list(temporary.glob("*/source")):  # noqa: ASYNC110 - the start of the copying thread is not signalled
            await asyncio.sleep(0)  # lets the copying start
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert list(temporary.iterdir()) == []


# --- repositories ------------------------------------------------------------------------------------------------

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@needs_git
def test_a_repository_is_cloned_at_a_ref_and_commits_hide_nothing(template: Path) -> None:
    first = commit_all(template)
    (template / "README.md").write_text("A later text.\n")
    commit_all(template)

    def work(path: Path) -> None:
        assert (path / "README.md").read_text() == "A shop.\n"
        assert git("status", "--porcelain", cwd=path) == ""
        assert git("log", "--format=%H", "--all", cwd=path) == first  # what came later is not there to be looked up
        assert git("remote", cwd=path) == ""
        edit(path)
        commit_all(path)

    assert captured_after(work, template, git="template", ref=first).diff == EDITED


@needs_git
@pytest.mark.parametrize("ref", [None, "main", "v1", "HEAD"])
def test_a_ref_may_be_a_branch_a_tag_or_nothing(template: Path, ref: str | None) -> None:
    commit_all(template)
    git("tag", "--annotate", "v1", "--message", "one", cwd=template)

    captured = captured_after(
        lambda path: (path / "new").touch(), template, git="template", **({"ref": ref} if ref else {})
    )

    assert statuses(captured) == {"new": "added"}


@needs_git
def test_a_repository_at_a_url_is_fetched_once_and_brought_up_to_date(template: Path) -> None:
    first = commit_all(template)
    url = f"file://{template}"
    seen = []

    def look(path: Path) -> None:
        seen.append((path / "README.md").read_text())

    captured_after(look, template, git=url)
    (template / "README.md").write_text("A later text.\n")
    commit_all(template)
    captured_after(look, template, git=url)
    template.rename(template.parent / "gone")
    captured_after(look, template, git=url, ref=first)

    assert seen == ["A shop.\n", "A later text.\n", "A shop.\n"]
    assert len(list((template.parent / ".agentv" / "git").glob("*.git"))) == 1


@needs_git
def test_ignored_files_are_no_changes_unless_the_agent_ignores_them(template: Path) -> None:
    (template / ".gitignore").write_text("*.pyc\nnode_modules/\n")
    commit_all(template)

    def work(path: Path) -> None:
        (path / "node_modules" / "x").mkdir(parents=True)
        (path / "node_modules" / "x" / "y.js").write_text("1")
        (path / "app.pyc").write_text("1")
        (path / "answer.txt").write_text("1")
        (path / ".gitignore").write_text("*\n")

    assert statuses(captured_after(work, template, git="template")) == {".gitignore": "modified", "answer.txt": "added"}


@needs_git
def test_nothing_that_an_agent_configures_in_its_clone_is_run_by_us(template: Path) -> None:
    (template / ".gitignore").write_text("*.pyc\n")
    commit_all(template)
    trap = template.parent / "trap"

    def work(path: Path) -> None:
        git("config", "core.fsmonitor", f"touch {trap}; false", cwd=path)
        git("config", "core.excludesFile", "answer.txt", cwd=path)
        (path / "answer.txt").write_text("1")

    captured = captured_after(work, template, git="template")

    assert statuses(captured) == {"answer.txt": "added"}
    assert not trap.exists()


@needs_git
def test_inside_a_git_hook_the_owners_repository_is_left_alone(
    template: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit_all(template)
    owner = tmp_path / "owner"
    shutil.copytree(template, owner)
    monkeypatch.setenv("GIT_DIR", str(owner / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(owner / ".git" / "index"))
    before = (owner / ".git" / "index").read_bytes()
    setup = "git config user.name Agent; git -c user.email=a@b commit --quiet --allow-empty -m setup"

    captured = captured_after(lambda path: (path / "new").touch(), template, git="template", setup=setup)

    monkeypatch.undo()
    assert statuses(captured) == {"new": "added"}
    assert (owner / ".git" / "index").read_bytes() == before
    assert git("log", "--format=%s", cwd=owner) == "work"


@needs_git
@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"git": "nowhere"}, "config_error", "there is no repository"),
        ({"git": "template"}, "config_error", "template is not a git repository"),
        ({"git": "repository", "ref": "v9"}, "config_error", "repository has no commit called 'v9'"),
        ({"git": "file:///nowhere/at/all"}, "target_exit", "git clone failed: fatal:"),
    ],
)
def test_a_repository_that_cannot_be_cloned_is_a_failure_with_a_reason(
    template: Path, settings: dict[str, str], kind: str, said: str
) -> None:
    shutil.copytree(template, template.parent / "repository")
    commit_all(template.parent / "repository")

    failure = failure_of(workspace_from_json(settings), template.parent)

    assert failure.kind == kind
    assert said in failure.message


# --- configs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "workspace needs template"),
        ({"template": "a", "git": "b"}, "git cannot be combined with template"),
        ({"template": "a", "ref": "main"}, "ref needs git"),
        ({"git": "--upload-pack=x"}, "git must not start with a dash"),
        ({"git": "https://token@example.com/x.git"}, "git must not contain a user name or token"),
        ({"git": "a", "ref": "-x"}, "ref must not start with a dash"),
        ({"template": "a", "setup": " "}, "setup is empty"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        workspace_from_json(settings)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@needs_git
def test_repositories_are_added_to_a_template_at_their_commits(template: Path) -> None:
    library = template.parent / "library"
    for folder in ("src", "docs"):
        (library / folder).mkdir(parents=True)
        (library / folder / "a.txt").write_text("first\n")
    commit_all(library)
    (library / "src" / "a.txt").write_text("second\n")
    last = commit_all(library)
    config = WorkspaceConfig(
        template=template.name,
        repos=(
            WorkspaceRepo("./vendor/library", "library", f"{last}~1"),
            WorkspaceRepo("sparse", "library", sparse=("src",)),
        ),
    )

    async def look(workspace: Workspace) -> tuple[str, str, bool, bool]:
        first = (workspace.path / "vendor/library/src/a.txt").read_text()
        second = (workspace.path / "sparse/src/a.txt").read_text()
        return first, second, (workspace.path / "sparse/docs").exists(), (workspace.path / "src/app.py").exists()

    assert use(config, template.parent, look) == ("first\n", "second\n", False, True)


@needs_git
def test_changes_in_an_added_repository_are_captured(template: Path) -> None:
    library = template.parent / "library"
    library.mkdir()
    (library / "a.txt").write_text("first\n")
    commit_all(library)
    config = WorkspaceConfig(repos=(WorkspaceRepo("library", "library"),))

    async def change(workspace: Workspace) -> WorkspaceChanges:
        (workspace.path / "library" / "a.txt").write_text("changed\n")
        return await workspace.capture()

    assert statuses(use(config, template.parent, change)) == {"library/a.txt": "modified"}
    assert (library / "a.txt").read_text() == "first\n"


def test_a_workspace_with_only_a_setup_starts_empty(template: Path) -> None:
    async def look(workspace: Workspace) -> list[str]:
        return sorted(path.name for path in workspace.path.iterdir())

    assert use(WorkspaceConfig(setup="echo hi > made.txt"), template.parent, look) == ["made.txt"]


@pytest.mark.parametrize("path", ["../out", "/out", "a/../../out", "a/.git", "~/out"])
def test_a_repository_stays_in_the_workspace(path: str) -> None:
    with pytest.raises(ValueError, match="path must be a folder in the workspace"):
        WorkspaceRepo(path, "library")


# --- deep folders ------------------------------------------------------------------------------------------------


def nest(folder: Path, levels: int) -> None:
    """Make folders inside folders, with a file in the last one, as a program does that works in its own folder."""
    code = (
        f"import os\nfor _ in range({levels}):\n    os.mkdir('d')\n    os.chdir('d')\nopen('deep.txt', 'w').close()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def test_nested_folders_are_captured(template: Path) -> None:
    changes = captured_after(lambda folder: nest(folder, 300), template)
    assert [file.path for file in changes.changed] == ["d/" * 300 + "deep.txt"]


@pytest.mark.parametrize("levels", [600, 3_000])
def test_folders_nested_too_deeply_are_an_error(template: Path, levels: int) -> None:
    places = set[Path]()

    async def work(workspace: Workspace) -> None:
        places.add(workspace.path.parent)
        nest(workspace.path, levels)
        await workspace.capture()

    with pytest.raises(ProviderError, match="nested more than 500 levels") as raised:
        use(WorkspaceConfig(template="template"), template.parent, work)
    assert raised.value.failure.kind == "too_large"
    assert not any(place.exists() for place in places)


def test_a_workspace_with_deep_folders_is_reset(template: Path) -> None:
    async def work(workspace: Workspace) -> list[str]:
        nest(workspace.path, 3_000)
        await workspace.reset()
        return sorted(path.name for path in workspace.path.iterdir())

    assert "d" not in use(WorkspaceConfig(template="template"), template.parent, work)


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_tree_of_any_shape_is_removed(tmp_path: Path, is_locked: bool) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    for name in ("a/b", "a/a", "b", ".git/x"):
        (root / name).mkdir(parents=True)
        (root / name / "f.txt").write_text("f")
        (root / name / "link").symlink_to(outside)
    os.mkfifo(root / "pipe")
    nest(root, 3_000)
    if is_locked:
        for name in ("a/b", "a", "b", "d/d", "d"):
            (root / name).chmod(0)
    assert remove_tree(root)
    assert not root.exists()
    assert (outside / "kept.txt").read_text() == "kept"


def test_a_link_is_removed_without_its_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    assert remove_tree(tmp_path / "link")
    assert remove_tree(tmp_path / "lost")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert remove_tree(tmp_path / "missing")


# --- submodules --------------------------------------------------------------------------------------------------

GITMODULES = (
    '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../lib\n[submodule "x"]\n\tpath = vendor/x\n\turl = ../x\n'
)


def notes_of(base_dir: Path, **settings: object) -> tuple[str, ...]:
    async def read_notes(workspace: Workspace) -> tuple[str, ...]:
        return workspace.source_notes

    return use(workspace_from_json(settings), base_dir, read_notes)  # type: ignore[arg-type] # JSON


def test_submodules_that_are_not_fetched_are_named(template: Path) -> None:
    assert notes_of(template.parent, template="template") == ()
    (template / ".gitmodules").write_text(GITMODULES)
    commit_all(template)
    (note,) = notes_of(template.parent, git=template.as_uri())
    assert "submodules of" in note
    assert "are not fetched: vendor/lib, vendor/x; add those that are needed under `repos`" in note


def test_repos_in_the_places_of_submodules_replace_them(template: Path, tmp_path: Path) -> None:
    commit_all(template)
    other = tmp_path / "other"
    other.mkdir()
    (other / ".gitmodules").write_text(GITMODULES)
    commit_all(other)
    added = [{"path": "vendor/lib", "git": "template"}, {"path": "vendor/x", "git": "template"}]
    assert notes_of(template.parent, git="other", repos=added) == ()
    (note,) = notes_of(template.parent, git="template", repos=[{"path": "o", "git": "other"}])
    assert "o/vendor/lib" in note
