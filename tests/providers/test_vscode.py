import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider

from agentv.providers.editors.vscode import VscodeProvider, VscodeSettings
from agentv.types.failures import Failure
from agentv.types.provider import CheckedProvider, Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

EDITOR = Path(__file__).parent.parent / "fixtures" / "editor.py"
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "agents"


def editor(mode: str) -> str:
    return f"{sys.executable} -S -E {EDITOR} {mode}"


def target_at(root: Path, mode: str = "answer", *, kind: str = "vscode", **settings: object) -> ResolvedTarget:
    given = {"command": editor(mode), "subagent_root": str(root), **settings}
    return make_target(kind, VscodeSettings(**given), base_dir=root.parent)  # type: ignore[arg-type] # a test's own


def provision(root: Path, count: int) -> None:
    for number in range(1, count + 1):
        (root / f"subagent-{number}").mkdir(parents=True)


def calls_in(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


def ask_all(
    target: ResolvedTarget, questions: list[str], *, timeout_s: float = 20.0
) -> Mapping[str, ProviderResponse | Failure]:
    async def use(provider: Provider) -> Mapping[str, ProviderResponse | Failure]:
        assert isinstance(provider, VscodeProvider)
        requests = [make_request(text, eval_case_id=f"case-{text}", timeout_s=timeout_s) for text in questions]
        return await provider.invoke_batch(requests)

    return with_provider(target, use)


def ask_at_once(target: ResolvedTarget, questions: list[str]) -> list[str]:
    async def use(provider: Provider) -> list[ProviderResponse]:
        return await asyncio.gather(*(provider.invoke(make_request(text)) for text in questions))

    return [response.text for response in with_provider(target, use)]


# --- one request -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vscode", "vscode-insiders"])
def test_the_answer_is_what_the_agent_wrote(root: Path, kind: str) -> None:
    request = make_request("Review it.", guideline_files=("/repo/style.md",), input_files=("/repo/a b.json",))

    response = ask(target_at(root, kind=kind), request)

    assert response.text == "Answer to: Review it."
    request_file, answer = map(Path, response.log_paths)
    assert request_file.parent == root / "subagent-1" / "messages"
    assert answer.name == request_file.name.replace("_req.md", "_res.md")
    assert request_file.read_text().startswith(
        "Read all guideline files:\n"
        "* [style.md](file:///repo/style.md)\n\n"
        "Read all input files:\n"
        "* [a b.json](file:///repo/a%20b.json)\n\n"
    )
    assert "[[ ## user_query ## ]]\n\nReview it.\n\n[[ ## answer_file ## ]]" in request_file.read_text()


def test_a_window_is_opened_and_its_agent_gets_the_request_file(root: Path) -> None:
    response = ask(target_at(root))

    folder = root / "subagent-1"
    opened, chat = calls_in(folder)
    request = response.log_paths[0]
    assert opened == [str(folder / "subagent-1.code-workspace")]
    assert chat[:-1] == ["chat", "--reuse-window", "--mode", "agent", "--add-file", request]
    assert "Where is my order?" not in chat[-1]
    assert json.loads((folder / "subagent-1.code-workspace").read_text()) == {"folders": [{"path": "."}]}


def test_the_request_is_stored_with_the_answer(root: Path) -> None:
    request = ask(target_at(root)).request
    assert request is not None
    assert request["subagent"] == "subagent-1"
    assert str(request["prompt"]).endswith("[[ ## user_query ## ]]\n\nWhere is my order?")


def test_the_editor_inherits_only_the_variables_of_env_allow(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("UNWANTED", "secret")
    shown = root.parent / "environment"
    program = root.parent / "editor.sh"
    program.write_text(f'#!/bin/sh\nenv >> {shown}\nexec {editor("answer")} "$@"\n')
    program.chmod(0o700)
    ask(target_at(root, command=str(program), env_allow=("WANTED",)), make_request("Hi"))
    assert "WANTED=yes" in shown.read_text().splitlines()
    assert "UNWANTED" not in shown.read_text()


def test_a_system_prompt_comes_first(root: Path) -> None:
    response = ask(target_at(root), make_request(system_prompt="Be brief."))
    assert Path(response.log_paths[0]).read_text().startswith("[[ ## instructions ## ]]\n\nBe brief.\n\n")


def test_an_editor_that_goes_on_in_the_background_is_left_alone(root: Path) -> None:
    # With `run_process`, which ends all descendants of a command, there would be no answer.
    assert ask(target_at(root, "background")).text == "Answer to: Where is my order?"


def test_a_dry_run_starts_and_writes_nothing(root: Path) -> None:
    target = target_at(root, command="no-such-editor", dry_run=True)

    response = ask(target)
    with_provider(target, check)

    assert response.text == ""
    assert response.request is not None
    assert response.request["dry_run"] is True
    assert str(response.request["request_file"]).startswith(f"{root}/subagent-1/messages/")
    assert not root.exists()


def test_without_waiting_the_request_is_handed_over_and_no_more(root: Path) -> None:
    response = ask(target_at(root, "silent", wait=False))
    assert response.text == ""
    assert response.request is not None
    assert Path(str(response.request["request_file"])).is_file()
    assert failure_of(target_at(root, "crash-chat", wait=False)).kind == "target_exit"


def test_an_answer_that_is_no_utf_8_is_noted(root: Path) -> None:
    response = ask(target_at(root, "binary"))
    assert response.text == "caf\ufffd"
    assert "is not UTF-8" in response.notes[0]


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kind", "said"),
    [
        ("crash-open", "target_exit", "failed with exit code 3; the end of"),
        ("crash-chat", "target_exit", "no display"),
        ("silent", "target_timeout", "no answer within 1 s"),
        ("half", "target_timeout", "partial answer: "),
        ("large", "too_large", "the answer file is larger than 10 MiB"),
        ("link", "malformed_reply", "is not a regular file"),
    ],
)
def test_every_fault_of_the_editor_has_its_kind(root: Path, mode: str, kind: str, said: str) -> None:
    failure = failure_of(target_at(root, mode), make_request(timeout_s=1.0 if kind == "target_timeout" else 20.0))
    assert failure.kind == kind
    assert said in failure.message


def test_an_answer_that_was_not_finished_in_time_is_kept(root: Path) -> None:
    with pytest.raises(ProviderError) as raised:
        ask(target_at(root, "half"), make_request("Where is it?", timeout_s=1.0))
    partial = raised.value.partial
    assert partial is not None
    assert partial.text == "Answer to: Where is it?"
    with pytest.raises(ProviderError) as raised:
        ask(target_at(root, "silent"), make_request(timeout_s=1.0))
    assert raised.value.partial is None


async def check(provider: Provider) -> None:
    assert isinstance(provider, CheckedProvider)
    await provider.healthcheck()


@pytest.mark.parametrize("command", ["no-such-editor --flag", "./no/editor", f"{EDITOR}"])
def test_a_missing_editor_is_reported_before_the_run(root: Path, command: str) -> None:
    target = target_at(root, command=command)
    with pytest.raises(ProviderError) as raised:
        with_provider(target, check)
    assert raised.value.failure.kind == "target_missing"
    assert "set `command` to its path" in raised.value.failure.message
    assert failure_of(target).kind == "target_missing"


def test_a_root_that_is_no_folder_is_a_config_error(root: Path) -> None:
    root.write_text("")
    assert failure_of(target_at(root)).kind == "config_error"


@pytest.mark.parametrize(("command", "said"), [("code 'x", "command cannot be parsed"), ("", "command is empty")])
def test_a_command_that_cannot_be_read_is_refused(command: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        VscodeSettings(command)


# --- locks -------------------------------------------------------------------------------------------------------


def test_one_subagent_has_one_request_at_a_time(root: Path) -> None:
    # Without the lock, the editor would find several unanswered requests in one folder.
    assert ask_at_once(target_at(root), ["a", "b", "c"]) == ["Answer to: a", "Answer to: b", "Answer to: c"]


def test_several_subagents_answer_at_once(root: Path) -> None:
    # None of them answers before all three have a request.
    provision(root, 3)
    assert ask_at_once(target_at(root, "meet3"), ["a", "b", "c"]) == ["Answer to: a", "Answer to: b", "Answer to: c"]


def test_as_many_workers_as_subagents(root: Path) -> None:
    async def count(provider: Provider) -> int:
        assert isinstance(provider, VscodeProvider)
        return provider.max_workers

    assert with_provider(target_at(root), count) == 1
    provision(root, 3)
    (root / "subagent-x").mkdir()
    assert with_provider(target_at(root), count) == 3


def test_a_folder_of_another_process_is_not_used_until_it_ends(root: Path) -> None:
    provision(root, 1)
    lock = root / "subagent-1" / "subagent.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        failure = failure_of(target_at(root), make_request(timeout_s=0.5))
        holder.kill()

    assert (failure.kind, failure.message) == ("target_timeout", f"no subagent under {root} was free within 0.5 s")
    assert ask(target_at(root)).text == "Answer to: Where is my order?"


def test_a_lock_file_of_a_process_that_is_dead_locks_nothing(root: Path) -> None:
    provision(root, 1)
    (root / "subagent-1" / "subagent.lock").write_text('{"pid": 999999999}')
    assert ask(target_at(root)).text == "Answer to: Where is my order?"


def test_a_request_that_is_cancelled_or_late_frees_its_subagent(root: Path) -> None:
    async def use(provider: Provider) -> str:
        task = asyncio.create_task(provider.invoke(make_request("never answered")))
        calls = root / "subagent-1" / "calls.jsonl"
        while not calls.exists():  # noqa: ASYNC110 - the start of the editor is not signalled
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProviderError):
            await provider.invoke(make_request("never answered", timeout_s=0.5))
        return (await provider.invoke(make_request("again"))).text

    assert with_provider(target_at(root), use).startswith("Answer to: again")


# --- batches -----------------------------------------------------------------------------------------------------


def test_a_batch_is_distributed_with_one_message_per_subagent(root: Path) -> None:
    provision(root, 2)
    questions = ["a", "b", "c", "d", "e"]

    answers = ask_all(target_at(root), questions)

    texts = {case_id: answer.text for case_id, answer in answers.items() if isinstance(answer, ProviderResponse)}
    assert {case_id: text.split(" (")[0] for case_id, text in texts.items()} == {
        f"case-{text}": f"Answer to: {text}" for text in questions
    }
    for folder, share in ((root / "subagent-1", 3), (root / "subagent-2", 2)):
        assert [call[0] == "chat" for call in calls_in(folder)] == [False, True]
        assert len(list((folder / "messages").glob("*_res.md"))) == share


def test_a_case_of_a_batch_that_gets_no_answer_costs_no_other(root: Path) -> None:
    answers = ask_all(target_at(root), ["a", "never", "b"], timeout_s=2.0)
    assert isinstance(answers["case-a"], ProviderResponse)
    assert isinstance(answers["case-b"], ProviderResponse)
    assert isinstance(answers["case-never"], Failure)
    assert answers["case-never"].kind == "target_timeout"


# --- workspaces --------------------------------------------------------------------------------------------------


def folders_seen(root: Path, template: str, request: ProviderRequest | None = None) -> list[dict[str, str]]:
    ask(target_at(root, workspace_template=template), request)
    workspace = json.loads((root / "subagent-1" / "subagent-1.code-workspace").read_text())
    folders: list[dict[str, str]] = workspace["folders"]
    return folders


def test_agents_see_the_folder_of_the_template_and_that_of_the_row(root: Path) -> None:
    (root.parent / "app").mkdir()
    seen = folders_seen(root, "app", make_request(workspace="/rows/7"))
    assert seen == [{"path": "."}, {"path": "/rows/7"}, {"path": str(root.parent / "app")}]


def test_a_workspace_file_is_taken_over_with_its_folders_where_they_were(root: Path) -> None:
    template = root.parent / "config" / "team.code-workspace"
    template.parent.mkdir()
    folders = [{"path": "../app", "name": "App"}, {"uri": "vscode-remote://x"}]
    template.write_text(json.dumps({"folders": folders, "settings": {"a": 1}}))

    seen = folders_seen(root, "config/team.code-workspace")

    assert seen == [{"path": "."}, {"path": str(root.parent / "app"), "name": "App"}, {"uri": "vscode-remote://x"}]
    assert json.loads((root / "subagent-1" / "subagent-1.code-workspace").read_text())["settings"] == {"a": 1}


def test_a_workspace_that_stays_the_same_is_not_written_again(root: Path) -> None:
    ask(target_at(root))
    workspace = root / "subagent-1" / "subagent-1.code-workspace"
    before = workspace.stat().st_mtime_ns
    ask(target_at(root))
    assert workspace.stat().st_mtime_ns == before


@pytest.mark.parametrize("content", [None, "{", "[]", '{"folders": 1}', "// a comment\n{}"])
def test_an_invalid_template_is_reported_before_the_run(root: Path, content: str | None) -> None:
    if content is not None:
        (root.parent / "x.code-workspace").write_text(content)
    with pytest.raises(ProviderError) as raised:
        with_provider(target_at(root, workspace_template="x.code-workspace"), check)
    assert raised.value.failure.kind == "config_error"
    assert "workspace_template" in raised.value.failure.message
