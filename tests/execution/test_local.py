import asyncio
from collections.abc import Iterator

import pytest

from agentv.execution.backends.local import LocalBackend


def test_every_item_is_worked_on_and_emitted_once() -> None:
    emitted: list[int] = []

    async def square(number: int) -> int:
        return number * number

    asyncio.run(LocalBackend(3).run(square, range(100), emitted.append))

    assert sorted(emitted) == [number * number for number in range(100)]


def test_at_most_as_many_items_as_workers_are_taken_from_the_source() -> None:
    taken, finished, most_ahead = 0, 0, 0

    def source() -> Iterator[int]:
        nonlocal taken, most_ahead
        for number in range(50):
            taken += 1
            most_ahead = max(most_ahead, taken - finished)
            yield number

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        return number

    def emit(_: int) -> None:
        nonlocal finished
        finished += 1

    asyncio.run(LocalBackend(4).run(work, source(), emit))

    assert finished == 50
    assert most_ahead == 4


def test_the_first_items_are_on_their_way_before_the_last_are_begun() -> None:
    events: list[str] = []

    async def work(number: int) -> None:
        events.append(f"begun {number}")
        await asyncio.sleep(0)
        events.append(f"on its way {number}")

    asyncio.run(LocalBackend(50).run(work, range(50), lambda _: None))

    assert events.index("on its way 0") < events.index("begun 49")


def test_the_naive_gather_takes_every_item_before_the_first_is_finished() -> None:
    taken = 0

    async def work() -> int:
        await asyncio.sleep(0)
        return taken

    async def naive() -> list[int]:
        nonlocal taken
        tasks = []
        for _ in range(50):
            taken += 1
            tasks.append(asyncio.create_task(work()))
        return await asyncio.gather(*tasks)

    assert asyncio.run(naive())[0] == 50


def test_results_are_emitted_one_at_a_time() -> None:
    inside = 0

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def emit(_: int) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0)
        inside -= 1

    asyncio.run(LocalBackend(8).run(work, range(40), emit))


def test_an_exception_of_the_work_ends_the_others_and_is_raised_as_it_is() -> None:
    cancelled: list[int] = []

    async def run() -> None:
        others_wait = asyncio.Event()

        async def work(number: int) -> int:
            if number == 0:
                await others_wait.wait()
                raise KeyError("ours")
            try:
                others_wait.set()
                return await asyncio.Future()
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        await LocalBackend(2).run(work, range(10), lambda _: None)

    with pytest.raises(KeyError, match="ours"):
        asyncio.run(run())

    assert cancelled == [1]


@pytest.mark.parametrize("place", ["source", "emit"])
def test_an_exception_of_the_source_or_of_emit_is_raised_as_it_is(place: str) -> None:
    def source() -> Iterator[int]:
        yield 1
        if place == "source":
            raise KeyError("ours")

    async def work(number: int) -> int:
        return number

    def emit(_: int) -> None:
        if place == "emit":
            raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        asyncio.run(LocalBackend(2).run(work, source(), emit))


def test_work_that_never_waits_lets_others_have_a_turn() -> None:
    async def run() -> int:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, stop.set)

        def until_stopped() -> Iterator[int]:
            number = 0
            while not stop.is_set():
                yield number
                number += 1

        async def work(number: int) -> int:
            return number

        last = 0

        def emit(number: int) -> None:
            nonlocal last
            last = number

        await LocalBackend(1).run(work, until_stopped(), emit)
        return last

    assert asyncio.run(run()) > 0


def test_there_is_at_least_one_worker() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        LocalBackend(0)


def test_workers_are_added_and_removed_while_it_runs() -> None:
    in_progress: list[int] = []

    async def run() -> None:
        backend = LocalBackend(2)
        waiting: list[asyncio.Future[None]] = []

        async def work(number: int) -> int:
            waiting.append(asyncio.get_running_loop().create_future())
            await waiting[-1]
            return number

        running = asyncio.create_task(backend.run(work, range(30), lambda _: None))
        for workers in (2, 5, 5, 1, 3):
            backend.resize(workers)
            for _ in range(20):
                await asyncio.sleep(0)
            in_progress.append(len(waiting))
            for each in waiting:
                each.set_result(None)
            waiting.clear()
        while not running.done():
            await asyncio.sleep(0)
            for each in waiting:
                each.set_result(None)
            waiting.clear()
        await running

    asyncio.run(run())
    assert in_progress == [2, 5, 5, 1, 3]


def test_a_worker_that_is_added_when_no_item_is_left_does_nothing() -> None:
    async def run() -> list[int]:
        backend, emitted = LocalBackend(1), list[int]()

        async def work(number: int) -> int:
            backend.resize(number + 1)
            return number

        await backend.run(work, range(3), emitted.append)
        backend.resize(9)
        return emitted

    assert asyncio.run(run()) == [0, 1, 2]
