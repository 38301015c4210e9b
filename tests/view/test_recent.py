"""Values made from the files of runs are made again only when the files change."""

import threading

from agentv.view.recent import RecentValues


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counting(made: list[int]) -> int:
    made.append(len(made))
    return len(made)


def test_a_value_is_kept_until_its_files_change() -> None:
    values, made = RecentValues[int](2, Clock()), list[int]()
    for stamp in ("a", "a", "b"):
        values.get("run", stamp, lambda: counting(made), is_running=False)
    assert len(made) == 2


def test_a_run_that_goes_on_is_counted_again_after_a_rest() -> None:
    clock, made = Clock(), list[int]()
    values = RecentValues[int](2, clock)

    def slowly() -> int:
        clock.now += 1.0
        return counting(made)

    for stamp, passed in (("a", 0.0), ("b", 5.0), ("c", 16.0)):
        clock.now += passed
        values.get("run", stamp, slowly, is_running=True)
    assert len(made) == 2


def test_the_oldest_values_are_dropped() -> None:
    values, made = RecentValues[int](2, Clock()), list[int]()
    for key in ("one", "two", "one", "three", "one", "two"):
        values.get(key, "a", lambda: counting(made), is_running=False)
    assert len(made) == 4


def test_several_requests_at_once_make_a_value_once() -> None:
    values, made = RecentValues[int](2, Clock()), list[int]()
    together = threading.Barrier(4)

    def ask() -> None:
        together.wait(timeout=10)
        values.get("run", "a", lambda: counting(made), is_running=False)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(made) == 1


def test_a_value_that_cannot_be_made_is_tried_again() -> None:
    values, made = RecentValues[int](2, Clock()), list[int]()

    def failing() -> int:
        counting(made)
        raise OSError("unreadable")

    for _ in range(2):
        try:
            values.get("run", "a", failing, is_running=False)
        except OSError:
            continue
    assert len(made) == 2
