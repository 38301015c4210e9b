"""`agentv generate evals`: an eval file from documents and questions, whole or not at all."""

import json
from pathlib import Path

import pytest
from tests.support.command_line import Call, call_agentv
from tests.support.fake_server import serving_fake

from agentv.cli.main import main
from agentv.engine.plugins.loading import load_specs
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase

CASE = {"id": "opening", "input": "When do you open?", "expected_outcome": "At nine", "rubrics": ["Says nine"]}
WRITTEN = """\
dialect: agentv
description: "Cases generated from faq.md"
evalcases:
  - id: opening
    input: When do you open?
    expected_outcome: At nine
    rubrics:
      - id: says-nine
        description: Says nine
    metadata:
      source: "faq.md:1"
"""


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    Path("faq.md").write_text("# Hours\n\nWe open at nine.\n")
    Path("log.jsonl").write_text("".join(f'{{"q": "question {n}"}}\n' for n in range(3)))
    Path("model.py").write_text("""
import json, re
def answer(request):
    said = re.search(r'"q": "(.*)"', request.question)
    text = said[1] if said else "When do you open?"
    case = {"id": "generated", "input": text, "expected_outcome": "Answers " + text}
    return "?" if text.endswith("1") else json.dumps({"cases": [case, {**case, "input": text + " again"}]})
""")

    def call(target: dict[str, object] | None, *arguments: str) -> tuple[int, str, str]:
        target = target or {"provider": "python", "callable": "model.py:answer"}
        Path("targets.yaml").write_text(json.dumps({"targets": [{"name": "writer", **target}]}))
        return call_agentv(capsys, "generate", "evals", *arguments)

    return call


def mock(*cases: object) -> dict[str, object]:
    return {"provider": "mock", "response": json.dumps({"cases": cases})}


def ids_of(path: str) -> list[str]:
    return [case.id for case in load_suite(path, specs=load_specs()).cases]


def test_a_document_becomes_an_eval_file(agentv: Call) -> None:
    code, out, err = agentv(mock(CASE), "--in", "faq.md", "--out", "cases.yaml")
    assert (code, err, out) == (0, "", "faq.md:1  1 case\nWrote cases.yaml\n")
    assert Path("cases.yaml").read_text() == WRITTEN
    with pytest.raises(SystemExit) as left:
        main(("check", "cases.yaml"))
    assert left.value.code == 0


def test_in_a_project_with_schemas_the_first_line_names_its_own(agentv: Call) -> None:
    with pytest.raises(SystemExit):
        main(("init",))
    assert agentv(mock(CASE), "--in", "faq.md", "--out", "evals/cases.yaml", "--targets", "targets.yaml")[0] == 0
    first = Path("evals/cases.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../.agentv/schemas/eval.schema.json"


def test_ids_are_unique_and_duplicates_are_skipped(agentv: Call) -> None:
    again = {**CASE, "input": "  when do you OPEN? "}
    other = {**CASE, "input": "And on Sundays?"}
    code, out, _ = agentv(mock(CASE, again, other), "--in", "faq.md", "--out", "cases.yaml")
    assert (code, ids_of("cases.yaml")) == (0, ["opening", "opening-2"])
    assert out.splitlines() == [
        "faq.md:1  2 cases",
        "1 case skipped as duplicates",
        "Wrote cases.yaml",
    ]


@pytest.mark.parametrize("name", ["cases.yaml", "cases.jsonl"])
def test_an_existing_file_is_appended_to_only_with_append(agentv: Call, name: str) -> None:
    case = '{"id": "opening", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}'
    before = f"# mine\nevalcases:\n- {case}   # first\n\n# end\n" if name.endswith("yaml") else case
    Path(name).write_text(before)
    code, _, err = agentv(mock(CASE), "--in", "faq.md", "--out", name)
    assert (code, Path(name).read_text()) == (4, before)
    assert f"{name} exists already; --append adds the new cases to it" in err
    assert agentv(mock(CASE), "--in", "faq.md", "--out", name, "--append")[0] == 0
    assert ids_of(name) == ["opening", "opening-2"]
    after = Path(name).read_text()
    assert after.startswith(before.partition("\n\n# end")[0])
    assert after.endswith(before.partition("# first\n")[2] if name.endswith("yaml") else "\n")
    code, out, _ = agentv(mock(CASE), "--in", "faq.md", "--out", name, "--append")
    assert (code, Path(name).read_text()) == (0, after), "the same questions again bring nothing"
    assert out.splitlines()[-1] == f"nothing to do: {name} is unchanged"


def test_one_failed_record_leaves_no_file(agentv: Call) -> None:
    code, _, err = agentv(None, "--in", "log.jsonl", "--out", "cases.yaml", "--concurrency", "1")
    assert (code, Path("cases.yaml").exists()) == (3, False)
    assert err.splitlines()[-1] == (
        "1 of 3 failed (log.jsonl:2), 1 not attempted: nothing was written; "
        "use --keep-going to write the rest. Exit code 3."
    )


def test_keep_going_writes_the_others_in_the_order_of_the_records(agentv: Call) -> None:
    code, out, _ = agentv(None, "--in", "log.jsonl", "--out", "cases.jsonl", "--keep-going", "--json")
    output = json.loads(out)
    assert (code, output["written"], [each["id"] for each in output["failed"]]) == (3, True, ["log.jsonl:2"])
    cases = [case for case in load_suite("cases.jsonl", specs=load_specs()).cases if isinstance(case, EvalCase)]
    assert [(case.id, case.metadata["source"]) for case in cases] == [
        ("generated", "log.jsonl:1"),
        ("generated-2", "log.jsonl:1"),
        ("generated-3", "log.jsonl:3"),
        ("generated-4", "log.jsonl:3"),
    ]
    assert [case["id"] for each in output["cases"] for case in each["cases"]] == [case.id for case in cases]


def test_count_and_limit_bound_the_requests(agentv: Call) -> None:
    code, out, _ = agentv(None, "--in", "log.jsonl", "--out", "c.yaml", "--limit", "1", "--count", "1")
    assert (code, out.splitlines()) == (0, ["log.jsonl:1  1 case", "Wrote c.yaml"])
    _, out, _ = agentv(
        None, "--in", "log.jsonl", "--out", "d.yaml", "--limit", "2", "--count", "7", "--dry-run", "--json"
    )
    requests = json.loads(out)["requests"]
    assert [request["id"] for request in requests] == ["log.jsonl:1", "log.jsonl:2"]
    assert "How many cases: at most 7." in requests[0]["user"]
    assert '<<<record NONCE>>>\n{\n  "q": "question 0"\n}\n<<<end of record NONCE>>>' in requests[0]["user"]


@pytest.mark.parametrize(
    "text",
    [
        "*alias",
        "!!python/x",
        "- a\n- b: c\n",
        "\x00\x1b]0;x\x07",
        "\u2028\u0085",
        "a: b #c",
        "'\"\\",
        "😀 退款",
        "${{ X }}",
    ],
)
@pytest.mark.parametrize("name", ["c.yaml", "c.jsonl"])
def test_whatever_a_model_writes_reads_back_as_it_was(agentv: Call, name: str, text: str) -> None:
    case = {"id": text, "input": f"q {text}.", "expected_outcome": f"x {text} x", "rubrics": [f"r {text}!"]}
    Path("reply.json").write_text(json.dumps({"cases": [case]}))
    Path("model.py").write_text("from pathlib import Path\ndef answer(_): return Path('reply.json').read_text()")
    code, _, err = agentv(None, "--in", "faq.md", "--out", name)
    assert code == 0, err
    [read] = [case for case in load_suite(name, specs=load_specs()).cases if isinstance(case, EvalCase)]
    assert (read.input_messages[0].content, read.expected_outcome) == (case["input"], case["expected_outcome"])
    assert read.rubrics[0].description == f"r {text}!"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--in", "faq.md", "--out", "c.txt"), 4, "its name must end in .yaml, .yml, .jsonl"),
        (("--in", "faq.md", "--out", "no/c.yaml"), 4, "folder no does not exist"),
        (("--in", "log.jsonl", "--out", "log.jsonl", "--append"), 4, "--in and --out are the same file"),
        (("--in", "empty.md", "--out", "c.yaml"), 5, "empty.md has no records"),
        (("--in", "faq.md", "--out", "c.yaml", "--prompt-path", "empty.md"), 4, "the prompt must use {{ record }}"),
        (("--in", "faq.md", "--out", "broken.yaml", "--append"), 4, "broken.yaml:1:1"),
        (
            ("--in", "faq.md", "--out", "flow.yaml", "--append"),
            4,
            "flow.yaml:1:12  $.evalcases  cases can be added only",
        ),
        (("--in", "bytes.md", "--out", "c.yaml"), 4, "bytes.md:1:1"),
    ],
)
def test_invalid_input_is_refused_before_any_call(
    agentv: Call, arguments: tuple[str, ...], code: int, message: str
) -> None:
    Path("empty.md").write_text("\n")
    Path("bytes.md").write_bytes(b"\xff")
    Path("broken.yaml").write_text("evalcase: []\n")
    case = "{id: a, expected_outcome: x, input_messages: [{role: user, content: hi}]}"
    Path("flow.yaml").write_text(f"evalcases: [{case}]\n")
    Path("model.py").write_text("def answer(request): open('called', 'w')")
    got, _, err = agentv(None, *arguments)
    assert got == code, err
    assert message in err
    assert not Path("called").exists()


def test_the_fake_server_makes_cases_of_a_document(agentv: Call) -> None:
    with serving_fake() as server:
        target: dict[str, object] = {"provider": "openai", "base_url": f"{server.url}/v1", "model": "fake"}
        code, _, err = agentv(target, "--in", "faq.md", "--out", "c.yaml")
    assert code == 0, err
    assert ids_of("c.yaml") == ["tell-me-about-hours", "tell-me-about-we-open-at-nine"]
