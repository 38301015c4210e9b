"""Runs of eval files with several prompts from the command line: what is sent, and what a run finds again."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_server import serving_fake

from agentv.storage.run.find import find_run
from agentv.storage.run.stored import open_run

TARGETS = "targets:\n  - {name: echo, provider: python, callable: 'agent.py:answer'}\n"
AGENT = """
import pathlib


def answer(request):
    with pathlib.Path("calls.txt").open("a") as file:
        file.write(request.question.replace("\\n", "|") + "\\n")
    if "Shout" in request.question:
        return request.question.upper()
    return request.question
"""
SUITE = """
prompts:
  - {id: plain, text: "Say {{ question }}"}
  - {id: loud, text: "Shout {{ question }}"}
execution: {evaluators: [{name: right, type: contains, value: "{{ expected }}"}]}
evalcases: {file: q.csv}
"""
CSV = "id,question,expected\na,one,ONE\nb,two,TWO\nc,three,THREE\n"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".agentv").mkdir()
    write({"targets.yaml": TARGETS, "agent.py": AGENT, "evals/suite.yaml": SUITE, "evals/q.csv": CSV})
    write({"evals/agent.py": AGENT})


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def agentv(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = agentv("run", "--display", "plain", *arguments)
    assert done.returncode == 1, done.stderr + done.stdout
    return done


def calls() -> list[str]:
    return Path("calls.txt").read_text().splitlines() if Path("calls.txt").exists() else []


def rows(run: str = "latest") -> set[tuple[str, str | None, str | None]]:
    """Return case, prompt and verdict of each row."""
    stored = open_run(find_run(Path(".agentv"), run))
    return {(row.eval_id, row.prompt, row.verdict) for row in stored.results()}


ALL = {(case, prompt, "fail" if prompt == "plain" else "pass") for case in "abc" for prompt in ("plain", "loud")}


def test_each_case_is_sent_with_each_prompt() -> None:
    run()
    assert sorted(calls()) == sorted(f"{word} {text}" for word in ("Say", "Shout") for text in ("one", "two", "three"))
    assert rows() == ALL


def test_the_head_of_a_run_counts_prompts() -> None:
    assert "suite · 3 cases × 2 prompts = 6" in run().stdout  # noqa: RUF001 - the sign of multiplication


def test_trials_are_counted_for_each_prompt() -> None:
    text = run("--trials", "3").stdout
    assert "3 cases × 2 prompts × 3 trials = 18" in text  # noqa: RUF001 - the sign of multiplication
    lines = text.splitlines()
    assert [line.split()[0] for line in lines if "a · plain" in line or " a  3 of 6 passed (plain)" in line] == [
        "FAIL",
        "✗",
    ]
    assert all("0 of 3 passed" in line for line in lines if "a · plain" in line)
    assert "; passed with plain 0 of 9, loud 9 of 9" in text


def test_rows_of_a_long_table_are_counted_with_their_prompts() -> None:
    write({"evals/q.csv": "question,expected\n" + "".join(f"q{n},Q{n}\n" for n in range(1200))})
    text = run().stdout
    assert "2,400/2,400 (100 %)" in text


def test_dry_run_counts_and_writes_each_prompt() -> None:
    done = agentv("run", "--dry-run", "--dump-prompts", "dumped")
    assert done.returncode == 0, done.stderr
    assert "3 cases, each with 2 prompts" in done.stdout
    assert "target calls: 6" in done.stdout
    assert len(list(Path("dumped").iterdir())) == 6
    assert calls() == []


def test_the_end_of_a_run_shows_the_matrix() -> None:
    write({"evals/q.csv": "question,expected\n" + "".join(f"q{n},Q{n}\n" for n in range(20))})
    text = run().stdout
    assert "prompt (20 each)" in text
    assert "100 %  83.9 to 100 % *" in text
    assert "* best: loud, above plain by +1.00" in text


def test_resume_sends_only_the_prompts_that_are_missing() -> None:
    done = run("--fail-fast", "1")
    assert "agentv resume" in done.stdout
    before = calls()
    resumed = agentv("resume", "latest", "--display", "plain")
    assert resumed.returncode == 1, resumed.stderr
    assert len(calls()) == 6 > len(before)
    assert rows() == ALL


def test_resume_repeats_only_the_prompt_that_was_changed() -> None:
    run()
    write({"evals/suite.yaml": SUITE.replace("Say {{", "Tell {{")})
    resumed = agentv("resume", "latest", "--display", "plain")
    assert resumed.returncode == 1, resumed.stderr
    assert sorted(calls()[6:]) == ["Tell one", "Tell three", "Tell two"]
    assert rows() == ALL


def test_retry_repeats_only_the_failed_prompts() -> None:
    run()
    done = agentv("retry", "latest", "--failed", "--display", "plain")
    assert done.returncode == 1, done.stderr
    assert sorted(calls()[6:]) == ["Say one", "Say three", "Say two"]
    assert rows() == ALL


def test_rescore_judges_each_prompt_again_without_a_call() -> None:
    run()
    write({"evals/suite.yaml": SUITE.replace('value: "{{ expected }}"', 'value: "{{ expected }}", negate: true')})
    done = agentv("rescore", "latest", "--display", "plain")
    assert done.returncode == 1, done.stderr
    assert len(calls()) == 6
    assert rows() == {(case, prompt, "pass" if verdict == "fail" else "fail") for case, prompt, verdict in ALL}


def test_exports_name_the_prompt_of_each_row() -> None:
    run("-o", "out.jsonl", "-o", "out.csv", "-o", "out.json", "-o", "out.md", "-o", "out.html", "-o", "out.xml")
    exported = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert sorted((row["eval_id"], row["prompt"]) for row in exported) == sorted((c, p) for c, p, _ in ALL)
    assert "prompt" in Path("out.csv").read_text().splitlines()[0]
    report = json.loads(Path("out.json").read_text())
    assert report["matrix"]["prompts"] == ["plain", "loud"]
    assert "; passed with plain 0 of 3, loud 3 of 3" in Path("out.md").read_text().replace("`", "")
    assert "Prompts and targets" in Path("out.html").read_text()
    assert "plain" in Path("out.xml").read_text()


def test_failed_cases_are_exported_with_the_prompts_of_their_suite() -> None:
    run()
    done = agentv("runs", "export", "latest", "--failed", "-o", "evals/failed.yaml")
    assert done.returncode == 0, done.stderr
    checked = agentv("check", "evals/failed.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = run("evals/failed.yaml")
    assert {case for case, _, _ in rows()} == {"a", "b", "c"}
    assert sorted(calls()[6:]) == ["Say one", "Say three", "Say two"], done.stdout


@pytest.mark.parametrize("option", ["--limit", "--sample"])
def test_selected_cases_keep_all_prompts(option: str) -> None:
    run(option, "2")
    found = rows()
    assert len({case for case, _, _ in found}) == 2
    assert len(found) == 4


def test_shards_have_whole_cases_and_merge_to_all() -> None:
    shards = []
    for number in (1, 2):
        run("--shard", f"{number}/2", "--name", f"part-{number}")
        shards.append(rows())
    assert shards[0] | shards[1] == ALL
    assert not {case for case, _, _ in shards[0]} & {case for case, _, _ in shards[1]}
    merged = agentv("merge", "part-1", "part-2", "--name", "all")
    assert merged.returncode in (0, 1), merged.stderr
    assert rows("all") == ALL


def test_replay_answers_each_prompt_with_its_own_answer() -> None:
    run("--name", "first")
    write({"targets.yaml": "targets:\n  - {name: echo, provider: replay, run: first}\n"})
    run()
    assert len(calls()) == 6
    assert rows() == ALL


def test_command_batch_gets_each_prompt_of_a_case() -> None:
    program = (
        "import json, sys\n"
        "for line in open(sys.argv[1]):\n"
        "    case = json.loads(line)\n"
        "    with open('calls.txt', 'a') as file: file.write(case['prompt'] + '\\n')\n"
        "    text = case['prompt']\n"
        "    text = text.upper() if 'Shout' in text else text\n"
        "    print(json.dumps({'id': case['id'], 'text': text}))\n"
    )
    write({"batch.py": program})
    write(
        {
            "targets.yaml": f"targets:\n  - name: echo\n    provider: cli\n    provider_batching: true\n"
            f"    command_template: {sys.executable} {Path('batch.py').resolve()} {{CASES_FILE}}\n"
        }
    )
    done = run()
    assert rows() == ALL, done.stdout


def test_compare_pairs_the_prompts_of_two_runs() -> None:
    run("--name", "one")
    run("--name", "two")
    done = agentv("compare", "one", "two", "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    assert len(json.loads(done.stdout)["cases"]) in (0, 6)


def test_show_puts_the_answers_of_a_case_side_by_side() -> None:
    run()
    done = agentv("show", "--side-by-side", "latest", "b")
    assert done.returncode == 0, done.stderr
    assert "✗ plain  0.00" in done.stdout
    assert "│ Say two                                │ SHOUT TWO" in done.stdout
    assert "case a" not in done.stdout


def test_show_side_by_side_keeps_passing_answers_of_failed_cases() -> None:
    run()
    text = agentv("show", "--side-by-side", "--failed").stdout
    assert text.count("✓ loud  1.00") == text.count("✗ plain  0.00") == 3


def test_show_side_by_side_of_one_prompt() -> None:
    run()
    text = agentv("show", "--side-by-side", "--prompt", "loud", "latest", "a").stdout
    assert "✓ loud" in text
    assert "plain" not in text


def test_show_side_by_side_refuses_pages() -> None:
    run()
    done = agentv("show", "--side-by-side", "--page", "2")
    assert done.returncode == 4
    assert "--side-by-side cannot be combined with" in done.stderr


def test_the_html_report_puts_the_answers_of_a_case_side_by_side() -> None:
    run("-o", "out.html")
    page = Path("out.html").read_text()
    section = page[page.index('id="side-by-side"') :].split("</section><section><h2>Results")[0]
    assert section.count('class="case-answers"') == 3
    assert "SHOUT TWO" in section


def test_gates_may_name_a_prompt() -> None:
    done = agentv("run", "--display", "plain", "--gate", "prompt(loud).pass_rate >= 90%")
    assert done.returncode == 0, done.stdout


def test_two_hundred_questions_two_prompts_and_two_models_from_an_empty_folder(tmp_path: Path) -> None:
    with serving_fake() as server:
        suite = (
            "execution:\n"
            "  targets: [small, large]\n"
            "  workers: 8\n"
            '  evaluators: [{name: right, type: contains, value: "{{ expected }}"}]\n'
            "prompts:\n"
            '  - "{{ question }}"\n'
            '  - {id: hinted, text: "{{ question }} I think it is {{ expected }}."}\n'
            "evalcases: {file: questions.csv}\n"
        )
        targets = "targets:\n" + "".join(
            f'  - {{name: {name}, provider: openai, base_url: "{server.url}/v1", model: {name}}}\n'
            for name in ("small", "large")
        )
        assert len((suite + targets).splitlines()) <= 12
        folder = tmp_path / "empty"
        folder.mkdir()
        questions = "question,expected\n" + "".join(f"What is {n} plus {n + 1}?,={2 * n + 1}\n" for n in range(200))
        (folder / "questions.csv").write_text(questions)
        (folder / "suite.yaml").write_text(suite)
        (folder / "targets.yaml").write_text(targets)
        command = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--display", "plain", "-o", "report.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    cells = {(each["prompt"], each["target"]): each for each in report["matrix"]["cells"]}
    assert {name: (cell["judged"], cell["pass_rate"]) for name, cell in cells.items()} == {
        ("prompt-1", "small"): (200, 0.0),
        ("prompt-1", "large"): (200, 0.0),
        ("hinted", "small"): (200, 1.0),
        ("hinted", "large"): (200, 1.0),
    }
    matrix = done.stdout[done.stdout.index("prompt (200 each)") :].split("\n\n")[0].splitlines()
    assert max(map(len, matrix[:-1])) <= 80
    assert matrix[0].split() == ["prompt", "(200", "each)", "small", "large"]
    assert matrix[-1].startswith("no significant best: small · hinted and large · hinted differ by")
