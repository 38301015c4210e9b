import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.asking import ask, failure_of, make_request, make_target, with_provider
from tests.support.hostile import Family, hostile
from tests.support.loopback import reply, serving

from agentv.providers.healthchecks import CommandHealthcheck, HttpHealthcheck
from agentv.providers.local.cli_settings import CliSettings
from agentv.types.failures import Failure
from agentv.types.provider import Provider, ProviderError, ProviderResponse
from agentv.types.targets import ResolvedTarget


def target_of(command: str, *, base_dir: Path | str = ".", **settings: object) -> ResolvedTarget:
    made = CliSettings(command_template=command, **settings)  # type: ignore[arg-type] # a test's own
    return make_target("cli", made, base_dir=base_dir)


def show(*placeholders: str) -> str:
    """Return a template whose command writes its arguments to {OUTPUT_FILE}, as JSON under `text`."""
    program = "import json, sys; json.dump({'text': json.dumps(sys.argv[2:])}, open(sys.argv[1], 'w'))"
    return " ".join([sys.executable, "-S", "-c", shlex.quote(program), "{OUTPUT_FILE}", *placeholders])


def seen(response: ProviderResponse) -> list[str]:
    arguments: list[str] = json.loads(response.text)
    return arguments


def test_the_output_file_is_the_answer_and_is_removed() -> None:
    response = ask(target_of("printf hello > {OUTPUT_FILE}; echo ignored; echo {OUTPUT_FILE} >&2"))

    assert (response.text, response.exit_code) == ("hello", 0)


def test_without_an_output_file_standard_output_is_the_answer() -> None:
    assert ask(target_of("echo {EVAL_ID}: {PROMPT}"), make_request("$(id)", eval_case_id="a b")).text == "a b: $(id)"


def test_every_placeholder_is_filled(tmp_path: Path) -> None:
    files = (str(tmp_path / "an order.json"), str(tmp_path / "b.txt"))
    request = make_request("Why?\n'quoted'", guidelines="Be kind.", attempt=2, input_files=files)

    given = seen(ask(target_of(show("{PROMPT}", "{GUIDELINES}", "{EVAL_ID}", "{ATTEMPT}", "{FILES}")), request))

    assert given == ["Why?\n'quoted'", "Be kind.", "case-1", "2", *files]


def test_the_prompt_file_takes_a_prompt_of_any_length() -> None:
    request = make_request("é\n" + "x" * 300_000)

    assert ask(target_of("cat {PROMPT_FILE}"), request).text == request.question
    too_long = failure_of(target_of("echo {PROMPT}"), request)
    assert too_long.kind == "bad_request"
    assert "{PROMPT_FILE}" in too_long.message


def test_files_stand_as_the_format_says() -> None:
    target = target_of(show("{FILES}"), files_format="--file {path} --name={basename}")

    assert seen(ask(target, make_request(input_files=("/d/a b.txt",)))) == ["--file", "/d/a b.txt", "--name=a b.txt"]


def test_the_environment_is_added_to_ours() -> None:
    target = target_of('printf "%s %s" "$SHOP" "$HOME"', env={"SHOP": "7"})

    assert ask(target).text == f"7 {os.environ['HOME']}"


@pytest.mark.parametrize(
    ("cwd", "workspace", "expected"),
    [(None, None, "evals"), ("", None, "evals"), ("sub", None, "evals/sub"), ("sub", "work", "work")],
)
def test_the_command_runs_in_the_eval_files_folder_or_in_cwd(
    tmp_path: Path, cwd: str | None, workspace: str | None, expected: str
) -> None:
    (tmp_path / "evals" / "sub").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    request = make_request(
        eval_dir=str(tmp_path / "evals"), workspace=None if workspace is None else str(tmp_path / workspace)
    )

    assert ask(target_of("pwd", cwd=cwd), request).text == str(tmp_path / expected)


def test_temporary_files_are_kept_on_request_and_said() -> None:
    kept = ask(target_of("cp {PROMPT_FILE} {OUTPUT_FILE}", keep_temp_files=True))
    folder = Path(kept.log_paths[0])

    assert sorted(path.name for path in folder.iterdir()) == ["output", "prompt.txt"]
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_command_that_is_handed_no_file_needs_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there is none"))

    assert ask(target_of("echo {PROMPT}"), make_request("hello")).text == "hello"
    with pytest.raises(FileNotFoundError):
        ask(target_of("cat {PROMPT_FILE}"))


def test_temporary_files_are_removed_even_when_the_command_fails() -> None:
    failure = failure_of(target_of("echo {PROMPT_FILE} >&2; echo x > {OUTPUT_FILE}; exit 1"))
    left = re.search(r"\S+/prompt.txt", failure.message)

    assert left is not None
    assert left[0].startswith(tempfile.gettempdir())
    assert not Path(left[0]).parent.exists()


def test_a_verbose_target_notes_each_command_line() -> None:
    (note,) = ask(target_of("echo {EVAL_ID}", verbose=True)).notes

    assert re.fullmatch(r"ran in \d+\.\d s: echo case-1", note)


def test_notes_about_the_reply_are_kept_beside_those_about_the_command() -> None:
    command = """printf '%s' '{"text": "x", "txet": 1}'"""

    unread, ran = ask(target_of(command, verbose=True)).notes

    assert unread == "its responses have the unknown key 'txet', which is ignored; did you mean 'text'?"
    assert ran.startswith("ran in ")


def test_a_failing_command_says_exit_code_and_the_end_of_its_errors() -> None:
    failure = failure_of(target_of("seq 1 2000 >&2; exit 7"))

    assert failure.kind == "target_exit"
    assert failure.message.startswith("the command failed with exit code 7; standard error ends with:\n")
    assert failure.message.endswith("1999\n2000")
    assert len(failure.message) < 2_100
    assert (failure.details, failure.retryable) == ({"exit_code": 7}, False)


def test_a_program_that_is_not_there_is_said_by_name() -> None:
    assert failure_of(target_of("no-such-agent {PROMPT}")) == Failure(
        "target_missing", "cannot start 'no-such-agent': No such file or directory"
    )


def test_a_folder_that_is_not_there_is_said_by_name(tmp_path: Path) -> None:
    failure = failure_of(target_of("pwd", cwd="missing"), make_request(eval_dir=str(tmp_path)))

    assert failure == Failure("config_error", f"the command cannot run in {tmp_path / 'missing'}: no such folder")


def test_an_output_file_that_was_not_written_says_what_to_do() -> None:
    failure = failure_of(target_of("true {OUTPUT_FILE}"))

    assert failure.kind == "malformed_reply"
    assert "left no readable {OUTPUT_FILE} (No such file or directory); it must write" in failure.message


def mischief(mode: str, *, family: Family, output_file: bool = False) -> ResolvedTarget:
    command = shlex.join(hostile(mode)) + (" {OUTPUT_FILE}" if output_file else "")
    return target_of(command, env=family.env)


@pytest.mark.parametrize(
    ("mode", "kind", "said"),
    [
        ("fail", "target_exit", "exit code 1; standard error ends with:\ncannot reach the order service"),
        ("crash", "target_exit", "the command was ended by SIGKILL"),
        ("flood", "too_large", "standard output is larger than 10 MiB; the answer was discarded"),
    ],
)
def test_mischief_ends_as_one_failure_of_the_right_kind(family: Family, mode: str, kind: str, said: str) -> None:
    failure = failure_of(mischief(mode, family=family))

    assert failure.kind == kind
    assert said in failure.message
    assert family.alive() == []


def test_a_hanging_command_times_out_and_leaves_no_process(family: Family) -> None:
    failure = failure_of(mischief("hang-with-family", family=family), make_request(timeout_s=1))

    assert (failure.kind, failure.retryable) == ("target_timeout", True)
    assert failure.message == "no answer within 1 s; the command and all its child processes were ended"
    assert family.alive() == []


@pytest.mark.parametrize(
    ("mode", "kind", "said"),
    [
        ("flood-file", "too_large", "{OUTPUT_FILE} is larger than 10 MiB"),
        ("pipe-file", "malformed_reply", "is not a regular file after the command"),
    ],
)
def test_mischief_with_the_output_file_ends_as_one_failure(family: Family, mode: str, kind: str, said: str) -> None:
    failure = failure_of(mischief(mode, family=family, output_file=True))

    assert failure.kind == kind
    assert said in failure.message


def test_naively_reading_an_output_file_blocks_on_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "output")
    naive = [sys.executable, "-S", "-c", "import sys; open(sys.argv[1], 'rb').read()", str(tmp_path / "output")]

    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(naive, check=False, timeout=0.5)


@pytest.mark.parametrize("mode", ["deaf", "fork", "daemon", "flood-errors"])
def test_mischief_that_hides_no_answer_is_an_answer(family: Family, mode: str) -> None:
    assert ask(mischief(mode, family=family)).text == "answer"
    assert family.alive() == []


def test_bad_utf8_is_an_answer_with_a_note(family: Family) -> None:
    response = ask(mischief("bad-utf8", family=family))

    assert response.text == "caf\ufffd"
    assert response.notes == (
        "standard output is not UTF-8 (first invalid byte at offset 3); invalid bytes are replaced by U+FFFD",
    )


def check(target: ResolvedTarget) -> None:
    async def use(provider: Provider) -> None:
        await provider.healthcheck()  # type: ignore[attr-defined] # CheckedProvider; the contract suite holds it

    with_provider(target, use)


def test_a_target_without_a_healthcheck_is_taken_as_healthy() -> None:
    check(target_of("exit 1"))


def test_a_command_healthcheck_passes_with_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    probe = CommandHealthcheck("command", "test $(pwd) = " + str(tmp_path / "sub"), cwd="sub")

    check(target_of("x", base_dir=tmp_path, healthcheck=probe))


def test_a_failing_healthcheck_says_why() -> None:
    probe = CommandHealthcheck("command", "echo no database >&2; exit 3")

    with pytest.raises(ProviderError) as raised:
        check(target_of("x", healthcheck=probe))

    failure = raised.value.failure
    assert (failure.kind, failure.stage, failure.retryable) == ("healthcheck", "healthcheck", False)
    assert failure.message == (
        "the healthcheck of target 'support' failed: the command failed with exit code 3; "
        "standard error ends with:\nno database"
    )


def test_a_healthcheck_that_hangs_is_ended(family: Family) -> None:
    probe = CommandHealthcheck("command", shlex.join(hostile("hang")), timeout_seconds=0.5)

    with pytest.raises(ProviderError, match=r"no answer within 0\.5 s"):
        check(target_of("x", healthcheck=probe, env=family.env))

    assert family.alive() == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CliSettings(""), "command_template is empty"),
        (
            lambda: CliSettings("agent {NAME}"),
            "command_template has the unsupported placeholder {NAME}; supported: {PROMPT}",
        ),
        (lambda: CliSettings("agent", files_format="{file}"), "files_format has the unsupported placeholder {file}"),
        (lambda: HttpHealthcheck("http", "localhost:80"), "url must start with http:// or https://"),
        (lambda: HttpHealthcheck("http", "http://x", 0), "timeout_seconds must be more than 0"),
        (lambda: CommandHealthcheck("command", "a {PROMPT}"), "command_template has the unsupported placeholder"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_an_http_healthcheck_passes_only_with_success() -> None:
    with serving(reply("ok"), reply("", status="503 Busy")) as server:
        target = target_of("x", healthcheck=HttpHealthcheck("http", server.url))

        check(target)
        with pytest.raises(ProviderError) as raised:
            check(target)

    failure = raised.value.failure
    assert (failure.kind, failure.stage) == ("healthcheck", "healthcheck")
    assert failure.message == "the healthcheck of target 'support' failed: HTTP 503"
