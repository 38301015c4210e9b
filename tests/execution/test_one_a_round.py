import asyncio
from collections.abc import Awaitable, Callable

from agentv.execution.sharing import WAITING_PER_EXTRA_TASK, TurnQueue


async def _woken_together(number: int, turn: Callable[[], Awaitable[None]]) -> list[str]:
    """Return the order of events of tasks that wait for one event and then pass a request to a sender task."""
    events: list[str] = []
    begun, sending = asyncio.Event(), []

    async def send(task: int) -> None:
        events.append(f"sent {task}")

    async def work(task: int) -> None:
        await begun.wait()
        await turn()
        events.append(f"goes on {task}")
        sending.append(asyncio.create_task(send(task)))

    async with asyncio.TaskGroup() as group:
        for task in range(number):
            group.create_task(work(task))
        await asyncio.sleep(0)
        begun.set()
    await asyncio.gather(*sending)
    return events


async def _no_turn() -> None:
    pass


def test_what_a_task_sends_is_on_its_way_before_the_next_but_one_goes_on() -> None:
    events = asyncio.run(_woken_together(8, TurnQueue().turn))

    assert all(events.index(f"sent {task}") < events.index(f"goes on {task + 2}") for task in range(6))


def test_without_turns_nothing_is_sent_before_all_have_gone_on() -> None:
    events = asyncio.run(_woken_together(8, _no_turn))

    assert events.index("sent 0") > events.index("goes on 7")


def test_tasks_go_on_in_the_order_in_which_they_came() -> None:
    events = asyncio.run(_woken_together(100, TurnQueue().turn))

    assert [event for event in events if event.startswith("goes on")] == [f"goes on {task}" for task in range(100)]


def test_of_a_crowd_a_tenth_goes_on_at_once() -> None:
    events = asyncio.run(_woken_together(10 * WAITING_PER_EXTRA_TASK, TurnQueue().turn))

    before = events[: events.index("sent 1")]
    assert (
        1 + WAITING_PER_EXTRA_TASK <= sum(event.startswith("goes on") for event in before) <= 3 * WAITING_PER_EXTRA_TASK
    )


def test_who_comes_alone_does_not_wait() -> None:
    async def alone() -> bool:
        waiting = TurnQueue().turn()
        try:
            waiting.send(None)
        except StopIteration:
            return True
        return False

    assert asyncio.run(alone())


def test_a_cancelled_task_does_not_block_the_queue() -> None:
    async def run() -> list[int]:
        turns, gone_on = TurnQueue(), list[int]()

        async def work(task: int) -> None:
            await turns.turn()
            gone_on.append(task)

        tasks = [asyncio.create_task(work(task)) for task in range(5)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await turns.turn()
        return gone_on

    assert asyncio.run(run()) == [0, 3, 4]
