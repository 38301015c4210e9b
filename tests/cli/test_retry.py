"""`agentv retry` and `agentv rescore`: rows are done again into the same run; first answers count."""

import socket
import sys
from threading import Thread

import pytest
from tests.support.carrying import Project

from agentv.storage.run.stored import open_run

BROKEN_JUDGE = "import sys; sys.exit('no judge today')"


def rows(project: Project) -> dict[str, tuple[str, int]]:
    return {row.eval_id: (row.status, row.generation) for row in open_run(project.run).results()}


def reruns(project: Project) -> list[tuple[str, int, str | None]]:
    return [(row.eval_id, row.generation, row.rerun) for row in open_run(project.run).reruns()]


def test_errors_are_retried_and_every_attempt_is_stored(project: Project) -> None:
    (project.folder / "broken").write_text("b")
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 3
    project.calls()
    assert project.call("retry")[0] == 3
    (project.folder / "broken").unlink()
    code, said = project.call("retry")
    assert (code, project.calls()) == (0, ["b", "b"])
    assert "PASS: 3 of 3 judged results passed" in said
    assert rows(project) == {"a": ("pass", 0), "b": ("pass", 2), "c": ("pass", 0)}
    attempts = [(row["slot"]["eval_id"], row["status"]) for row in project.stored("results.jsonl")]
    assert sorted(attempts) == [("a", "pass"), ("b", "error"), ("b", "error"), ("b", "pass"), ("c", "pass")]
    assert [answer.generation for answer in open_run(project.run).answers()] == [0, 0, 2]
    assert open_run(project.run).counts() == {"pass": 3}
    assert "b" in project.call("show", "latest", "b")[1]


def test_failed_and_case_choose_other_rows(project: Project) -> None:
    project.evaluators = "{name: has, type: contains, value: question a}"
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 1
    project.calls()
    assert project.call("retry", "--failed")[0] == 1
    assert project.calls() == ["b", "c"]
    assert project.call("retry", "latest", "--case", "[ab]")[0] == 1
    assert project.calls() == ["a", "b"]
    assert rows(project) == {"a": ("pass", 0), "b": ("fail", 0), "c": ("fail", 0)}
    expected = [("a", 1, "case"), ("b", 1, "failed"), ("b", 2, "case"), ("c", 1, "failed")]
    assert sorted(reruns(project)) == expected


def test_where_there_is_nothing_to_do_again_it_is_said(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    code, said = project.call("retry")
    assert (code, "nothing to retry" in said) == (4, True)
    assert project.call("retry", "--errors", "--failed")[0] == 4
    project.forget("events.jsonl", [1, 2])
    code, said = project.call("retry")
    assert (code, "is not finished; first run: agentv resume" in said) == (4, True)


def test_an_answer_with_a_broken_judge_is_judged_again_without_its_target(project: Project) -> None:
    judge = project.folder / "judge.py"
    working = judge.read_text()
    judge.write_text(BROKEN_JUDGE)
    project.evaluators = f"{project.evaluators}, {{name: code, type: code_judge, script: [{sys.executable}, judge.py]}}"
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 3
    project.calls()
    judge.write_text(working)
    assert project.call("retry")[0] == 0
    assert project.calls() == []
    assert set(rows(project).values()) == {("pass", 1)}


def test_rescore_judges_stored_answers_and_asks_no_target(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    project.cases["d"] = "one that was not called"
    project.cases["a"] = "one that was edited"
    project.evaluators = "{name: has, type: contains, value: question b}"
    code, said = project.call("rescore", "latest")
    assert (code, project.calls()) == (1, [])
    assert "2 stored answers rescored" in said
    assert rows(project) == {"a": ("pass", 0), "b": ("pass", 1), "c": ("fail", 1)}


TOGETHER = """
import pathlib, socket
with socket.create_connection(("127.0.0.1", int(pathlib.Path("port").read_text())), timeout=20) as met:
    met.settimeout(20)
    print('{"score": 1}' if met.recv(1) else "")
"""


def test_rescore_judges_answers_concurrently(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        (project.folder / "port").write_text(str(server.getsockname()[1]))
        (project.folder / "together.py").write_text(f"{TOGETHER.rstrip()}\n")
        script = f"{{name: met, type: code_judge, script: [{sys.executable}, together.py]}}"

        def let_go_when_all_are_here() -> None:
            met = [server.accept()[0] for _ in "abc"]
            for one in met:
                one.sendall(b".")
                one.close()

        project.evaluators = script
        meeting = Thread(target=let_go_when_all_are_here, daemon=True)
        meeting.start()
        assert project.call("rescore", "latest")[0] == 0
        meeting.join()


def test_rescore_takes_evaluators_from_a_file_and_reuses_valid_scores(project: Project) -> None:
    judge = f"{{name: code, type: code_judge, script: [{sys.executable}, judge.py]}}"
    project.evaluators = judge
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    (project.folder / "new.yaml").write_text(
        f"evaluators: [{judge}, {{name: short, type: length, max: 3, unit: words}}]"
    )
    code, said = project.call("rescore", "latest", "--evaluators", "new.yaml")
    assert (code, project.calls()) == (1, []), said
    assert (project.folder / "judged").read_text() == "xxx"
    (first, *_) = open_run(project.run).results()
    assert [(each.name, each.score) for each in first.evaluator_results] == [("code", 1.0), ("short", 0.0)]
    started = [event for event in project.stored("events.jsonl") if event["type"] == "generation_started"]
    assert [(event["purpose"], event["evaluators"]) for event in started] == [("rescore", "new.yaml")]


def cut_short(project: Project, keep: int) -> None:
    """Leave the run's last generation as a kill would have, with so many of its rows."""
    events = project.stored("events.jsonl")
    begun = max(number for number, event in enumerate(events) if event["type"] == "generation_started")
    project.forget("events.jsonl", range(begun + 2, len(events)))
    project.forget("results.jsonl", range(len(project.cases) + keep, len(project.stored("results.jsonl"))))


def test_a_rescore_that_was_cut_short_goes_on_with_its_evaluators(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    (project.folder / "new.yaml").write_text("evaluators: [{name: short, type: length, max: 3, unit: words}]")
    assert project.call("rescore", "latest", "--evaluators", "new.yaml")[0] == 1
    cut_short(project, 1)
    project.cases["d"] = "one that was not called"
    code, said = project.call("resume")
    assert (code, project.calls()) == (1, [])
    assert "continuing the unfinished rescore of this run" in said
    assert rows(project) == {"a": ("fail", 1), "b": ("fail", 1), "c": ("fail", 1)}
    assert {each.evaluator_results[0].name for each in open_run(project.run).results()} == {"short"}
    assert project.call("resume", "latest")[0] == 0  # it has finished: the suite's own evaluators judge again
    assert project.calls() == ["d"]


def test_the_evaluators_of_a_rescore_are_found_from_another_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    (project.folder / "sub").mkdir()
    (project.folder / "sub" / "new.yaml").write_text("evaluators: [{name: short, type: length, max: 3, unit: words}]")
    monkeypatch.chdir(project.folder / "sub")
    assert project.call("rescore", "latest", "--evaluators", "new.yaml")[0] == 1
    cut_short(project, 1)
    monkeypatch.chdir(project.folder)
    assert project.call("resume")[0] == 1
    assert {each.evaluator_results[0].name for each in open_run(project.run).results()} == {"short"}
    cut_short(project, 1)
    (project.folder / "sub" / "new.yaml").unlink()
    code, said = project.call("resume")
    assert (code, "new.yaml" in said) == (4, True)


def test_an_interrupted_retry_continues_with_the_remaining_cases(project: Project) -> None:
    assert project.call("run", "suite.yaml", "--display", "none")[0] == 0
    project.calls()
    assert project.call("retry", "--case", "[ab]")[0] == 0
    assert project.calls() == ["a", "b"]
    cut_short(project, 1)
    project.forget("answers.jsonl", [4])
    code, said = project.call("resume")
    assert (code, project.calls()) == (0, ["b"])
    assert "continuing the unfinished retry of this run" in said
    assert rows(project) == {"a": ("pass", 0), "b": ("pass", 0), "c": ("pass", 0)}
    assert sorted(reruns(project)) == [("a", 1, "case"), ("b", 1, "case")]
    assert project.call("resume", "latest")[0] == 0
    assert project.calls() == []
