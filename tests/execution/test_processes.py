import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from tests.support.hostile import Family, hostile
from tests.support.own_process import in_own_process

from agentv.execution.processes.live_trees import kill_all
from agentv.execution.processes.process import Command, Outcome, run_process
from agentv.execution.processes.tree import ZOMBIE_S, reap_unclaimed

T = TypeVar("T")
PATIENCE_S = 30.0


def run(argv: tuple[str, ...], family: Family, *, timeout_s: float = PATIENCE_S, stdin: bytes = b"") -> Outcome:
    command = Command(argv=argv, env=family.env, stdin=stdin)
    return asyncio.run(run_process(command, timeout_s=timeout_s))


async def within_patience(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        return await work


async def appears(path: Path) -> str:
    """Wait until a named pipe is written to, which is when the command under test is where we want it."""
    return await asyncio.to_thread(path.read_text)


def test_a_command_that_ends_well_gives_its_output_and_exit_code(family: Family) -> None:
    outcome = run(("sh", "-c", "cat; echo problem >&2"), family, stdin=b"hello")

    assert outcome.stdout == b"hello"
    assert outcome.stderr == "problem\n"
    assert outcome.exit_code == 0
    assert not outcome.timed_out
    assert not outcome.too_large


def test_a_shell_text_runs_in_sh(tmp_path: Path) -> None:
    outcome = asyncio.run(
        run_process(Command(shell="echo $((6*7)) | cat; pwd", cwd=str(tmp_path)), timeout_s=PATIENCE_S)
    )

    assert outcome.stdout.decode().splitlines() == ["42", str(tmp_path)]


def test_a_command_has_our_environment_as_it_is_now_and_what_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[str]:
        command = Command(shell='echo "$OURS" "${GONE-unset}" "$ADDED"', env={"ADDED": "é"})
        return asyncio.run(run_process(command, timeout_s=PATIENCE_S)).stdout.decode().split()

    monkeypatch.setenv("OURS", "first")
    monkeypatch.setenv("GONE", "here")
    assert seen() == ["first", "here", "é"]
    monkeypatch.setenv("OURS", "second")
    monkeypatch.delenv("GONE")
    assert seen() == ["second", "unset", "é"]


def test_a_failing_command_has_its_exit_code_and_its_last_errors(family: Family) -> None:
    outcome = run(hostile("fail"), family)

    assert outcome.exit_code == 1
    assert outcome.stderr == "cannot reach the order service\n"


def test_a_command_ended_by_a_signal_has_its_negative_number(family: Family) -> None:
    assert run(hostile("crash"), family).exit_code == -signal.SIGKILL


def test_a_hanging_command_is_ended_with_its_whole_family(family: Family, tmp_path: Path) -> None:
    reached = tmp_path / "reached"

    outcome = run(hostile("hang-with-family", str(reached)), family, timeout_s=2)

    assert outcome.timed_out
    assert outcome.exit_code is None
    assert reached.exists()
    assert family.alive() == []


def test_the_naive_time_out_leaves_a_family_behind(family: Family, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)
    argv = hostile("hang-with-family", str(reached))
    process = subprocess.Popen(argv, env={**os.environ, **family.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reached.read_text()

    process.kill()
    process.wait()

    assert len(family.alive()) == 2
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.2)
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_a_command_that_ignores_sigterm_is_killed(family: Family, tmp_path: Path) -> None:
    outcome = run(hostile("hang-stubborn", str(tmp_path / "reached")), family, timeout_s=1)

    assert outcome.timed_out
    assert outcome.duration_s < 10
    assert family.alive() == []


@pytest.mark.parametrize("mode", ["fork", "daemon", "daemon-stubborn"])
def test_a_grandchild_that_holds_the_pipe_delays_nothing_and_is_ended(family: Family, mode: str) -> None:
    outcome = run(hostile(mode), family)

    assert outcome.stdout == b"answer\n"
    assert outcome.exit_code == 0
    assert not outcome.timed_out
    assert family.alive() == []


@pytest.mark.parametrize("mode", ["fork", "daemon"])
def test_the_naive_wait_hangs_on_a_grandchild_that_holds_the_pipe(family: Family, mode: str) -> None:
    env = {**os.environ, **family.env}

    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(hostile(mode), env=env, capture_output=True, check=False, timeout=1)

    assert family.alive() != []


def test_a_command_that_closes_its_output_and_hangs_is_ended(family: Family) -> None:
    assert run(hostile("early"), family, timeout_s=1).timed_out
    assert family.alive() == []


def test_a_command_that_never_reads_its_input_is_no_problem(family: Family) -> None:
    outcome = run(hostile("deaf"), family, stdin=b"x" * 2**20)

    assert outcome.stdout == b"answer\n"
    assert outcome.exit_code == 0


def test_the_naive_write_breaks_on_a_command_that_never_reads() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE, bufsize=0) as process:
        process.wait()
        assert process.stdin is not None
        with pytest.raises(BrokenPipeError):
            process.stdin.write(b"x" * 2**20)


def test_large_input_and_output_flow_at_the_same_time(family: Family) -> None:
    sent = os.urandom(2**20) * 4

    assert run(hostile("echo"), family, stdin=sent).stdout == sent


def test_output_over_the_limit_ends_the_command(family: Family) -> None:
    outcome = run(hostile("flood"), family)

    assert outcome.too_large
    assert outcome.exit_code is None
    assert len(outcome.stdout) == 10 * 2**20
    assert family.alive() == []


def test_output_of_exactly_the_limit_is_whole() -> None:
    command = Command(shell="printf 12345")

    assert not asyncio.run(run_process(command, timeout_s=PATIENCE_S, max_output_bytes=5)).too_large
    assert asyncio.run(run_process(command, timeout_s=PATIENCE_S, max_output_bytes=4)).too_large


def test_of_standard_error_only_the_end_is_kept(family: Family) -> None:
    outcome = run(("sh", "-c", "seq 1 100000 >&2; printf 'the \\303\\251nd' >&2"), family)

    assert len(outcome.stderr) == 2_000
    assert outcome.stderr.endswith("100000\nthe énd")


def test_standard_error_with_bad_utf8_is_readable(family: Family) -> None:
    assert run(("sh", "-c", "printf 'caf\\351' >&2"), family).stderr == "caf\ufffd"


def test_a_deadline_that_is_over_at_once_ends_the_command(family: Family) -> None:
    assert run(("sleep", "100"), family, timeout_s=0).timed_out
    assert family.alive() == []


def test_cancelling_ends_the_family(family: Family, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)

    async def start_and_cancel() -> None:
        command = Command(argv=hostile("hang-with-family", str(reached)), env=family.env)
        task = asyncio.create_task(run_process(command, timeout_s=None))
        await within_patience(appears(reached))
        assert len(family.alive()) == 3
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within_patience(task)

    asyncio.run(start_and_cancel())

    assert family.alive() == []


def test_cancelling_ends_a_command_that_is_about_to_start(family: Family) -> None:
    async def start_and_cancel() -> None:
        command = Command(argv=("sleep", "100"), env=family.env)
        task = asyncio.create_task(run_process(command, timeout_s=None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within_patience(task)

    asyncio.run(start_and_cancel())

    assert family.alive() == []


def test_kill_all_ends_a_command_that_is_about_to_start(family: Family) -> None:
    async def start_and_kill() -> Outcome:
        command = Command(argv=("sleep", "100"), env=family.env)
        task = asyncio.create_task(run_process(command, timeout_s=None))
        await asyncio.sleep(0)
        kill_all()
        return await within_patience(task)

    assert asyncio.run(start_and_kill()).exit_code == -signal.SIGKILL
    assert family.alive() == []


def test_kill_all_ends_everything_that_runs_at_once(family: Family, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)

    async def start_and_kill() -> Outcome:
        command = Command(argv=hostile("hang-stubborn", str(reached)), env=family.env)
        task = asyncio.create_task(run_process(command, timeout_s=None))
        await within_patience(appears(reached))
        kill_all()
        assert family.alive() == []
        return await within_patience(task)

    assert asyncio.run(start_and_kill()).exit_code == -signal.SIGKILL


def test_ending_one_command_leaves_another_alone(family: Family, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    os.mkfifo(reached)
    neighbour = Family()

    async def side_by_side() -> None:
        long = Command(argv=hostile("hang-with-family", str(reached)), env=neighbour.env)
        task = asyncio.create_task(run_process(long, timeout_s=None))
        await within_patience(appears(reached))
        outcome = await run_process(Command(argv=hostile("daemon"), env=family.env), timeout_s=PATIENCE_S)
        assert outcome.exit_code == 0
        assert family.alive() == []
        assert len(neighbour.alive()) == 3
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(side_by_side())

    assert neighbour.alive() == []


def test_children_of_the_host_program_are_left_alone(family: Family) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as own:
        run(hostile("daemon"), family)

        assert own.poll() is None
        assert own.stdin is not None
        own.stdin.close()
        assert own.wait(PATIENCE_S) == 0


def test_a_command_inherits_no_open_file(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        program = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
        command = Command(argv=(sys.executable, "-S", "-c", program))
        outcome = asyncio.run(run_process(command, timeout_s=PATIENCE_S))

    assert outcome.stdout == b"[0, 1, 2, 3]\n"  # 3 is the folder that is being listed


def test_many_commands_leave_no_file_open_and_no_zombie() -> None:
    in_own_process(run_many_commands)


def run_many_commands() -> None:
    family = Family()

    async def many() -> None:
        command = Command(shell="sleep 100 & echo x", env=family.env)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(run_process(command, timeout_s=PATIENCE_S))

    run(("true",), family)  # it starts the watcher
    open_before = psutil.Process().num_fds()
    asyncio.run(many())

    assert psutil.Process().num_fds() <= open_before
    assert family.alive() == []
    assert psutil.Process().children() == []


def test_an_unclaimed_zombie_is_reaped_after_a_while() -> None:
    in_own_process(leave_an_orphan)


def leave_an_orphan() -> None:
    def zombies() -> int:
        return sum(child.status() == psutil.STATUS_ZOMBIE for child in psutil.Process().children())

    run(hostile("daemon"), Family())  # the first of its two forks left the session, and died unclaimed

    assert zombies() == 1
    reap_unclaimed(time.monotonic())
    assert zombies() == 1
    reap_unclaimed(time.monotonic() + 2 * ZOMBIE_S)
    assert zombies() == 0


def test_a_host_program_that_forks_can_run_commands_in_its_child() -> None:
    in_own_process(run_a_command_and_fork)


def run_a_command_and_fork() -> None:
    def printed() -> bytes:
        return asyncio.run(run_process(Command(argv=("echo", "x")), timeout_s=PATIENCE_S)).stdout

    assert printed() == b"x\n"
    child = os.fork()
    if child == 0:
        os._exit(printed() != b"x\n")
    assert os.waitpid(child, 0)[1] == 0


def test_a_missing_program_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(run_process(Command(argv=("no-such-program",)), timeout_s=PATIENCE_S))


def test_a_command_has_exactly_one_program() -> None:
    with pytest.raises(ValueError, match="exactly one of argv and shell"):
        Command(argv=("x",), shell="x")
    with pytest.raises(ValueError, match="exactly one of argv and shell"):
        Command()


def test_a_listener_hears_the_output_while_the_command_runs(family: Family, tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    os.mkfifo(answer)
    heard = bytearray()

    def listen(chunk: bytes) -> bool:
        heard.extend(chunk)
        if b"ready\n" in heard and answer.exists():
            answer.write_text("go on\n")
            answer.unlink()
        return True

    command = Command(shell=f"echo ready; cat {answer}", env=family.env)
    outcome = asyncio.run(run_process(command, timeout_s=PATIENCE_S, listener=listen))

    assert bytes(heard) == b"ready\ngo on\n"
    assert (outcome.stdout, outcome.exit_code) == (b"", 0)


def test_a_listener_that_has_heard_enough_ends_the_command(family: Family) -> None:
    command = Command(argv=hostile("flood"), env=family.env)

    outcome = asyncio.run(run_process(command, timeout_s=PATIENCE_S, listener=lambda _: False))

    assert (outcome.too_large, outcome.exit_code, outcome.stdout) == (True, None, b"")
    assert family.alive() == []
