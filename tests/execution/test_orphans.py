import asyncio
import os
import sys
import threading

import pytest
from tests.support.hostile import Family, hostile
from tests.support.own_process import in_own_process

from agentv.execution.processes.process import Command, run_process
from agentv.execution.processes.tree import adopt_orphans, possible_orphans

MORE_THAN_A_PAGE_LISTS = 1_100


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
def test_orphans_are_found_among_a_thousand_children() -> None:
    in_own_process(have_many_children)


def have_many_children() -> None:
    adopt_orphans(True)
    children = set()
    for _ in range(MORE_THAN_A_PAGE_LISTS):
        child = os.fork()
        if child == 0:
            os._exit(0)
        children.add(child)  # not waited for, so that it stays in the list

    assert set(possible_orphans()) == children


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
def test_children_with_long_numbers_are_found_beyond_the_first_page() -> None:
    in_own_process(have_children_with_long_numbers)


def have_children_with_long_numbers() -> None:
    """Find orphans in several pages of pids, in which the kernel never fills a page to its last byte."""
    children = list(range(1_000_000, 1_000_000 + MORE_THAN_A_PAGE_LISTS))
    record = len("1000000 ")

    def pread(_: int, size: int, offset: int) -> bytes:
        count = (size - 1) // record
        return b"".join(b"%d " % child for child in children[offset // record :][:count])

    adopt_orphans(True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "pread", pread)
        assert possible_orphans() == children


def test_what_a_command_left_behind_is_ended_whichever_thread_started_it(family: Family) -> None:
    command = Command(argv=hostile("daemon"), env=family.env)
    thread = threading.Thread(target=lambda: asyncio.run(run_process(command, timeout_s=30)))

    thread.start()
    thread.join()

    assert family.alive() == []
