import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from agentv.cli.evals.init import TEMPLATES, own_source, recorded_source


def agentv(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(cwd)}
    command = [sys.executable, "-m", "agentv", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_template_writes_is_valid_and_runs_with_no_key(template: str, tmp_path: Path) -> None:
    assert agentv("init", "--template", template, cwd=tmp_path).returncode == 0
    checked = agentv("check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = agentv("run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob(".agentv/runs/*/results.jsonl"))) == 1


def test_yaml_files_point_editors_to_a_schema_that_is_there(tmp_path: Path) -> None:
    agentv("init", cwd=tmp_path)
    for path in [tmp_path / "evals" / "first.yaml", tmp_path / ".agentv" / "targets.yaml"]:
        head = path.read_text("utf-8").split("\n")[0]
        schema = path.parent / head.removeprefix("# yaml-language-server: $schema=")
        assert json.loads(schema.read_text("utf-8"))["type"] == "object"


def test_files_that_exist_are_kept_and_named(tmp_path: Path) -> None:
    mine = tmp_path / "evals" / "first.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = agentv("init", cwd=tmp_path)
    assert mine.read_text() == "mine"
    assert "exists  evals/first.yaml" in done.stdout
    assert "wrote   .agentv/targets.yaml" in done.stdout


def test_a_second_init_changes_nothing(tmp_path: Path) -> None:
    agentv("init", cwd=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    report = json.loads(agentv("init", "--json", cwd=tmp_path).stdout)
    assert report["written"] == []
    assert len(report["kept"]) >= 6
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_another_folder_is_made_and_the_next_step_leads_there(tmp_path: Path) -> None:
    done = agentv("init", "new/project", cwd=tmp_path)
    assert (tmp_path / "new" / "project" / ".env.template").is_file()
    assert (tmp_path / "new" / "project" / ".github" / "workflows" / "agentv.yml").is_file()
    assert done.stdout.endswith("Next: cd new/project && agentv run\n")


def test_an_unknown_template_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    done = agentv("init", "--template", "agents", cwd=tmp_path)
    assert done.returncode == 4
    assert "'agent', 'rag', 'chat', 'python', 'evaluator-plugin'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def everything_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_file_in_place_of_a_folder_is_refused_before_writing(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "evals").write_text("mine")
    done = agentv("init", "sub", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "error: cannot write sub/evals: File exists; nothing was written\n"
    assert everything_in(tmp_path) == {"sub", "sub/evals"}


def test_a_disk_that_refuses_leaves_nothing_half_done(tmp_path: Path) -> None:
    command = f"ulimit -f 1; exec {sys.executable} -m agentv init sub"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot write sub")
    assert done.stderr.endswith("File too large; nothing was written\n")
    assert everything_in(tmp_path) == set()


def test_the_next_step_can_be_pasted(tmp_path: Path) -> None:
    done = agentv("init", "my evals; ls", cwd=tmp_path)
    assert done.stdout.endswith("\nNext: cd 'my evals; ls' && agentv run\n")


def test_keys_are_kept_out_of_git(tmp_path: Path) -> None:
    advice = "add the line `.env` to .gitignore"
    assert advice not in agentv("init", "new", cwd=tmp_path).stdout
    assert ".env" in (tmp_path / "new" / ".gitignore").read_text().splitlines()
    (tmp_path / ".gitignore").write_text("build/\n")
    assert advice in agentv("init", cwd=tmp_path).stdout
    (tmp_path / ".gitignore").write_text("build/\n.env\n")
    assert advice not in agentv("init", cwd=tmp_path).stdout


def test_a_plugin_package_is_named_throughout(tmp_path: Path) -> None:
    done = agentv("init", "--template", "evaluator-plugin", "--name", "Plain-Words", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "p"
    assert (folder / "src" / "plain_words" / "__init__.py").is_file()
    assert (folder / "tests" / "test_plain_words.py").is_file()
    texts = [path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()]
    assert not [text for text in texts if "my-evaluator" in text or "my_evaluator" in text]
    assert 'plain_words = "plain_words:plain_words"' in (folder / "pyproject.toml").read_text("utf-8")
    assert agentv("run", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("contains", "'contains' conflicts with agentv's evaluator type 'contains'"),
        ("agentv", "'agentv' conflicts with the module 'agentv'"),
        ("json", "'json' conflicts with the module 'json'"),
        ("class", "'class' is not a valid package name"),
        ("7up", "'7up' is not a valid package name"),
        ("a--b", "'a--b' is not a valid package name"),
        ("../evil", "'../evil' is not a valid package name"),
        ("", "'' is not a valid package name"),
    ],
)
def test_a_name_that_no_package_can_have_is_refused(name: str, message: str, tmp_path: Path) -> None:
    done = agentv("init", "--template", "evaluator-plugin", "--name", name, cwd=tmp_path)
    assert done.returncode == 4
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_name_goes_with_the_package_alone(tmp_path: Path) -> None:
    done = agentv("init", "--name", "plain-words", cwd=tmp_path)
    assert done.returncode == 4
    assert "--name requires --template evaluator-plugin" in done.stderr


def test_schemas_are_for_this_machine_and_stay_out_of_git(tmp_path: Path) -> None:
    agentv("init", cwd=tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    added = subprocess.run(["git", "ls-files"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert ".agentv/targets.yaml" in added
    assert [name for name in added if "schema" in name] == []
    assert sum(len((tmp_path / name).read_text("utf-8").splitlines()) for name in added) < 200


def sources(folder: Path) -> list[str]:
    """Return what the two CI jobs of a project install."""
    github = yaml.safe_load((folder / ".github" / "workflows" / "agentv.yml").read_text("utf-8"))
    gitlab = yaml.safe_load((folder / ".gitlab-ci.yml").read_text("utf-8"))
    return [github["env"]["AGENTV_SOURCE"], gitlab["evals"]["variables"]["AGENTV_SOURCE"]]


@pytest.mark.parametrize("template", ["agent", "evaluator-plugin"])
def test_ci_jobs_install_agentv_from_the_given_place(template: str, tmp_path: Path) -> None:
    source = tmp_path / "my-evaluator agentv"
    source.mkdir()
    (source / "pyproject.toml").touch()
    name = ["--name", "plain-words"] if template == "evaluator-plugin" else []
    done = agentv("init", "--from", "my-evaluator agentv", "--template", template, *name, "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    url = source.as_uri()
    assert sources(tmp_path / "p") == [url] * 2
    assert f"CI jobs install agentv from {url}, which exists only on this machine" in done.stdout
    readme = tmp_path / "p" / "README.md"
    assert not readme.exists() or f"pip install {url} -e '.[test]'" in readme.read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "installed"),
    [
        ("https://example.org/me/agentv@c0ffee", "git+https://example.org/me/agentv@c0ffee"),
        ("git+ssh://git@example.org/me/agentv@v1", "git+ssh://git@example.org/me/agentv@v1"),
        ("https://example.org/agentv-0.1.0-py3-none-any.whl", "https://example.org/agentv-0.1.0-py3-none-any.whl"),
        ("https://example.org/a.git@1?x=1&y=2#egg", "git+https://example.org/a.git@1?x=1&y=2#egg"),
    ],
)
def test_ci_jobs_install_agentv_from_the_given_url(given: str, installed: str, tmp_path: Path) -> None:
    done = agentv("init", "--from", given, cwd=tmp_path)
    assert sources(tmp_path) == [installed] * 2
    assert "CI jobs" not in done.stdout


@pytest.fixture
def served_repository(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A repository on a web server of this machine: its URL and its commit."""
    folder = tmp_path / "served" / "agentv.git"
    folder.mkdir(parents=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "first"], ["update-server-info"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder.parent)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/agentv.git/.git", found.stdout.strip()
    server.shutdown()
    thread.join()
    server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Print nothing."""


def test_ci_jobs_install_the_commit_that_a_repository_has_now(
    served_repository: tuple[str, str], tmp_path: Path
) -> None:
    url, commit = served_repository
    assert agentv("init", "--from", url, "a", cwd=tmp_path).returncode == 0
    assert sources(tmp_path / "a") == [f"git+{url}@{commit}"] * 2
    assert agentv("init", "--from", f"git+{url}#subdirectory=py", "b", cwd=tmp_path).returncode == 0
    assert sources(tmp_path / "b") == [f"git+{url}@{commit}#subdirectory=py"] * 2


def test_a_repository_that_git_cannot_read_is_refused(served_repository: tuple[str, str], tmp_path: Path) -> None:
    url, _ = served_repository
    done = agentv("init", "--from", f"{url}-not", "a", cwd=tmp_path)
    assert done.returncode == 4
    assert f"--from {url}-not: cannot read its latest commit: " in done.stderr
    assert "give a commit, as URL@COMMIT" in done.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere", "--from nowhere: no such file or folder"),
        (".", "--from .: no pyproject.toml in this folder"),
        ("https://me:secret@example.org/a.git", "--from: the URL contains a password or token"),
        ("https://token@example.org/a.git", "--from: the URL contains a password or token"),
        ("https://example.org/a b", "--from https://example.org/a b: not a valid URL"),
        ("https://[example/a", "--from https://[example/a: not a valid URL"),
    ],
)
def test_a_place_that_cannot_be_installed_from_is_refused(given: str, message: str, tmp_path: Path) -> None:
    done = agentv("init", "--from", given, cwd=tmp_path)
    assert done.returncode == 4
    assert message in done.stderr
    assert "secret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("recorded", "source"),
    [
        (None, "agentv"),
        ({"url": "file:///src/agentv", "dir_info": {"editable": True}}, "file:///src/agentv"),
        ({"url": "file:///a/agentv-0.1.0.whl", "archive_info": {}}, "file:///a/agentv-0.1.0.whl"),
        (
            {"url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "git+https://example.org/a.git@c0ffee",
        ),
        (
            {"url": "https://e.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "c"}, "subdirectory": "py"},
            "git+https://e.org/a.git@c#subdirectory=py",
        ),
    ],
)
def test_agentv_is_installed_from_where_this_one_came(recorded: object, source: str) -> None:
    assert recorded_source(None if recorded is None else json.dumps(recorded)) == source


def test_without_from_ci_jobs_of_a_local_clone_have_a_line_to_fill_in(tmp_path: Path) -> None:
    assert own_source().startswith("file://")
    done = agentv("init", cwd=tmp_path)
    assert sources(tmp_path) == ["", ""]
    assert "CI jobs fail until AGENTV_SOURCE in .github/workflows/agentv.yml and .gitlab-ci.yml says" in done.stdout
    assert json.loads(agentv("init", "--json", "other", cwd=tmp_path).stdout)["agentv"] == ""
