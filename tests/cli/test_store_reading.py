"""`--store` of the commands that read runs, and the filters of `agentv store pull`."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.cli.test_store import write_suite, write_target
from tests.support.command_line import Call, command_line
from tests.support.postgres_server import upgraded_database


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return command_line(capsys)


@pytest.fixture
def url() -> str:
    return upgraded_database()


@pytest.fixture
def colleague(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call, url: str) -> Iterator[Path]:
    """The folder of a colleague, after a project has stored three runs in the database: pass, fail, pass."""
    project, colleague = tmp_path / "project", tmp_path / "colleague"
    for folder in (project, colleague):
        (folder / ".agentv").mkdir(parents=True)
        (folder / ".git").mkdir()
    monkeypatch.delenv("AGENTV_STORE", raising=False)
    monkeypatch.chdir(project)
    write_suite(project, 3)
    for number, answer in enumerate(("done", "not yet", "all done")):
        write_target(project, f"echo {answer}")
        call("run", "suite.yaml", "--name", f"night-{number}", "--store", url)
    call("runs", "tag", "night-1", "broken")
    call("store", "push", "night-1", "--store", url)
    monkeypatch.chdir(colleague)
    yield colleague
    assert list((colleague / ".agentv").rglob("*")) == []


@pytest.mark.usefixtures("colleague")
def test_show_reads_a_run_of_the_store(call: Call, url: str) -> None:
    code, out, _ = call("show", "night-1", "--store", url)
    assert (code, "3 fail" in out) == (0, True)
    assert f"CASE --store postgresql://postgres@/{url.partition('@/')[2]}" in out
    code, out, _ = call("show", "--store", url, "--json", "--failed", "night-1")
    assert (code, len(json.loads(out)["rows"])) == (0, 3)
    code, out, _ = call("show", "latest", "case-1", "--store", url)
    assert (code, "all done" in out) == (0, True)
    assert call("show", "night-1")[0] == 4


def test_report_reads_a_run_of_the_store(call: Call, url: str, colleague: Path) -> None:
    code, out, _ = call("report", "latest~1", "--store", url, "--exit-code")
    assert (code, "0 of 3" in out or "3 fail" in out, "Saved to" in out) == (1, True, False)
    code, _, _ = call("report", "night-0", "--store", url, "-o", "night.jsonl")
    assert (code, len((colleague / "night.jsonl").read_text().splitlines())) == (0, 3)


@pytest.mark.usefixtures("colleague")
def test_compare_reads_runs_of_the_store(call: Call, url: str) -> None:
    code, out, _ = call("compare", "night-0", "night-1", "--store", url, "--json")
    assert code == 0
    shown = json.loads(out)
    code, out, _ = call("compare", "latest~2", "broken", "--store", url, "--json")
    assert (code, json.loads(out)) == (0, shown)
    code, _, err = call("compare", "latest", "latest~7", "--store", url)
    assert (code, "there is no run 'latest~7'" in err) == (4, True)


@pytest.mark.usefixtures("colleague")
def test_trend_reads_runs_of_the_store(call: Call, url: str) -> None:
    code, out, _ = call("trend", "--store", url, "--json", "--metric", "pass_rate")
    (series,) = json.loads(out)["series"]
    assert [point["value"] for point in series["points"]] == [1.0, 0.0, 1.0]
    assert code == 0
    code, _, err = call("trend", "--store", url, "--suite", "swite")
    assert (code, "'suite'" in err) == (4, True)


@pytest.mark.usefixtures("colleague")
def test_a_trend_of_a_store_that_lacks_lines_is_an_error_and_no_gap(call: Call, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM agentv.results WHERE seq = 1")
    code, out, err = call("trend", "--store", url)
    assert (code, out, "lacks line 2 of results.jsonl; push the run again" in err) == (3, "", True)


def test_reading_a_store_imports_no_plugin_of_the_project(call: Call, url: str, colleague: Path) -> None:
    (colleague / "plugin.py").write_text("raise SystemExit('imported')")
    (colleague / ".agentv.yaml").write_text("plugins: [plugin.py]\n")
    assert call("show", "latest", "--store", url)[0] == 0


@pytest.mark.usefixtures("colleague")
def test_the_store_without_a_url_is_the_configured_one(call: Call, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call("show", "--store")
    assert (code, "no store is configured" in err) == (4, True)
    monkeypatch.setenv("AGENTV_STORE", url)
    code, out, _ = call("show", "latest", "--store")
    assert (code, out.rstrip().endswith("CASE --store")) == (0, True)
    assert call("show", "latest")[0] == call("show", "latest", "--store", "none")[0] == 4
    code, _, err = call("show", "--store", "latest")
    assert (code, "--store is followed by 'latest', which is not the URL of a store" in err) == (4, True)


def edit_scores(url: str, name: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE agentv.results SET line = convert_to(replace(replace(convert_from(line, 'UTF8'), "
            "'\"score\":0.0', '\"score\":0.5'), '\"score\":1.0', '\"score\":0.5'), 'UTF8') "
            "WHERE run_id = (SELECT run_id FROM agentv.runs WHERE name = %s)",
            [name],
        )


@pytest.fixture
def segmented(colleague: Path, call: Call, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a run of the store that has segments in its project."""
    with monkeypatch.context() as there:
        there.chdir(colleague.with_name("project"))
        assert call("run", "suite.yaml", "--name", "moved", "--segments", "place", "--store", url)[0] == 0
    return "moved"


@pytest.mark.usefixtures("puller", "segmented")
@pytest.mark.parametrize("command", ["show", "report", "trend", "compare night-0", "store pull"])
@pytest.mark.parametrize("name", ["night-1", "moved"])
def test_rows_that_were_edited_in_the_database_are_named(call: Call, url: str, name: str, command: str) -> None:
    run = () if command == "trend" else (name,)
    _, out, err = call(*command.split(), *run, "--store", url)
    assert "after it was written" not in out + err
    shutil.rmtree(Path(".agentv", "runs"), ignore_errors=True)
    edit_scores(url, name)
    code, out, err = call(*command.split(), *run, "--store", url)
    assert "results.jsonl was changed after it was written: its first 3 lines are not as recorded" in out + err
    assert code == (3 if command == "store pull" else 0)


@pytest.mark.usefixtures("colleague")
def test_no_gate_passes_on_rows_that_were_edited_in_the_database(call: Call, url: str) -> None:
    command = ("compare", "night-2", "night-1", "--gate", "regressions <= 9", "--store", url)
    assert call(*command)[0] == 0
    edit_scores(url, "night-1")
    code, out, _ = call(*command)
    assert (code, "results.jsonl was changed after it was written" in out) == (3, True)


def pulled(call: Call, *arguments: str) -> list[str]:
    code, out, err = call("store", "pull", *arguments, "--json")
    assert code == 0, err
    runs = [json.loads((Path(each["folder"]) / "run.json").read_bytes()) for each in json.loads(out)["pulled"]]
    return [run["name"] for run in runs]


@pytest.fixture
def puller(colleague: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder, into which runs are pulled."""
    folder = colleague.with_name("puller")
    (folder / ".agentv").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_pull_takes_several_runs_and_filters(call: Call, url: str, puller: Path) -> None:
    store = ("--store", url)
    assert pulled(call, "night-0", "latest", "latest", *store) == ["night-0", "night-2"]
    assert pulled(call, "--tag", "broken", *store) == ["night-1"]
    assert pulled(call, "--suite", "suite", "--target", "agent", "--last", "2", *store) == ["night-1", "night-2"]
    assert pulled(call, "--since", "1d", *store) == ["night-0", "night-1", "night-2"]
    assert len(list((puller / ".agentv" / "runs").iterdir())) == 3


@pytest.mark.usefixtures("puller")
def test_pull_with_filters_names_the_runs_that_it_cannot_read(call: Call, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE agentv.runs SET record = convert_to(replace(convert_from(record, 'UTF8'), 'agentv-run-1', "
            "'agentv-run-9'), 'UTF8') WHERE name = 'night-1'"
        )
    code, out, err = call("store", "pull", "--since", "1d", "--store", url)
    assert (code, out.count("lines pulled into")) == (0, 2)
    (skipped,) = err.splitlines()
    assert skipped.startswith("skipped: run.json of run ")
    assert "cannot be read in the store: " in skipped
    assert "agentv-run-9" in skipped
    code, _, err = call("store", "pull", "night-1", "night-2", "--store", url)
    assert (code, "agentv-run-9" in err) == (3, True)


@pytest.mark.usefixtures("puller")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ((), 4, "name the runs to pull, or select them with"),
        (("latest", "--last", "1"), 4, "but not both"),
        (("--tag", "brocken"), 4, "'broken'"),
        (("--target", "agnt"), 4, "'agent'"),
        (("--since", "0.001s"), 5, "none of the 3 runs in the store matches these options"),
        (("--since", "yesterday"), 4, "not a time span"),
    ],
)
def test_a_selection_that_pulls_nothing_is_refused(
    call: Call, url: str, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    code, _, err = call("store", "pull", *arguments, "--store", url)
    assert (code, message in err) == (exit_code, True), err
    assert not Path(".agentv", "runs").exists()
