"""A book of leases whose process is killed at any moment: what it granted counts in the one that is started again."""

import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.quotas import most_in_a_window

from agentv.execution.quota_journal import MAX_EXCHANGES, JournaledBook
from agentv.types.protocols import NODE_LEASE_S, WINDOW_S, Amounts, LeaseUse, QuotaGrant, QuotaLimits, QuotaRequest


class Machine:
    """A machine with a clock, on which processes with the same journal follow each other."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal"
        self.now = 1000.0
        self.leases = (f"lease-{number}" for number in range(1_000_000))
        self.book = JournaledBook(self.journal, lambda: self.now)

    def start(self) -> None:
        """Start a process; the one before is gone."""
        self.book.close()
        self.book = JournaledBook(self.journal, lambda: self.now)

    def draw(
        self, limits: QuotaLimits, wanted: Amounts, *, lease: str = "", uses: tuple[LeaseUse, ...] = ()
    ) -> Amounts:
        return self.exchange(
            limits, Amounts(min(1, wanted.requests), 0.0, min(0.1, wanted.usd)), wanted, lease, uses
        ).granted

    def exchange(
        self,
        limits: QuotaLimits,
        least: Amounts,
        wanted: Amounts,
        lease: str = "",
        uses: tuple[LeaseUse, ...] = (),
        *,
        hold_s: float = 0.0,
    ) -> QuotaGrant:
        request = QuotaRequest(
            account="account",
            holder="node",
            lease=lease or next(self.leases),
            limits=limits,
            least=least,
            wanted=wanted,
            uses=uses,
            hold_s=hold_s,
        )
        return self.book.exchange(request)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.book.close()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("per_minute", [7, 300])
def test_no_minute_has_more_than_its_permits_when_the_book_is_killed(
    machine: Machine, per_minute: int, seed: int
) -> None:
    rng = random.Random(seed)
    limits, used, kills = QuotaLimits(requests=per_minute), list[float](), 0
    while machine.now < 1300:
        granted = machine.draw(limits, Amounts(per_minute)).requests
        used += [machine.now + rng.uniform(0, NODE_LEASE_S) for _ in range(granted)]
        machine.now += rng.uniform(0, 2)
        if rng.random() < 0.1:
            machine.start()
            kills += 1
    assert kills > 5
    assert most_in_a_window(used) <= per_minute
    assert len(used) > per_minute, "the limit is what bounds them"


def test_a_budget_is_not_exceeded_when_the_book_is_killed(machine: Machine) -> None:
    limits, granted = QuotaLimits(usd=1.0), 0.0
    for _ in range(30):
        granted += machine.draw(limits, Amounts(usd=0.1)).usd
        machine.start()
        machine.now += WINDOW_S
    assert granted == pytest.approx(1.0)


def test_what_was_given_back_before_a_kill_stays_free(machine: Machine) -> None:
    limits = QuotaLimits(usd=1.0)
    assert machine.draw(limits, Amounts(usd=1.0), lease="node").usd == 1.0
    machine.exchange(limits, Amounts(), Amounts(), "", (LeaseUse("node", Amounts(usd=0.25)),))
    machine.start()
    assert machine.draw(limits, Amounts(usd=1.0)).usd == 0.75


def test_a_refusal_before_a_kill_holds_after_it(machine: Machine) -> None:
    limits = QuotaLimits(requests=600)
    machine.exchange(limits, Amounts(), Amounts(), hold_s=5.0)
    machine.start()
    assert machine.draw(limits, Amounts(1)) == Amounts()
    machine.now += 5.1
    assert machine.draw(limits, Amounts(1)) == Amounts(1)


def test_an_exchange_that_was_not_written_whole_was_not_answered(machine: Machine) -> None:
    limits = QuotaLimits(usd=1.0)
    machine.draw(limits, Amounts(usd=0.5))
    before = machine.journal.read_bytes()
    machine.draw(limits, Amounts(usd=0.25))
    after = machine.journal.read_bytes()
    for cut in range(len(before), len(after)):
        machine.journal.write_bytes(after[:cut])
        machine.start()
        assert machine.draw(limits, Amounts(usd=1.0)).usd == 0.5
        machine.start()
        assert machine.draw(limits, Amounts(usd=1.0)).usd == 0.0, "the journal after it can be read"


def test_a_long_journal_begins_anew_and_nothing_is_forgotten(machine: Machine) -> None:
    limits = QuotaLimits(usd=1.0)
    assert machine.draw(limits, Amounts(usd=0.6), lease="dead").usd == 0.6
    for _ in range(MAX_EXCHANGES + 10):
        machine.exchange(limits, Amounts(), Amounts(), "", (LeaseUse("alive", Amounts(usd=0.1), is_over=False),))
        machine.now += 0.7
    assert machine.journal.stat().st_size < 10_000
    machine.start()
    assert machine.draw(limits, Amounts(usd=1.0)).usd == pytest.approx(0.3)


def test_a_journal_of_a_machine_that_was_started_anew_is_not_read(machine: Machine) -> None:
    limits = QuotaLimits(requests=1)
    assert machine.draw(limits, Amounts(1)) == Amounts(1)
    machine.now = 3.0
    machine.start()
    assert machine.draw(limits, Amounts(1)) == Amounts(1)


def test_nothing_is_granted_that_cannot_be_written(machine: Machine, tmp_path: Path) -> None:
    limits = QuotaLimits(usd=1.0)
    machine.draw(limits, Amounts(usd=0.5))
    machine.start()
    (tmp_path / "journal.new").mkdir()
    with pytest.raises(OSError, match=r"journal.new"):
        machine.draw(limits, Amounts(usd=0.5))
    (tmp_path / "journal.new").rmdir()
    assert machine.draw(limits, Amounts(usd=1.0)).usd == 0.5


def test_an_exchange_that_fills_the_disk_grants_nothing_and_damages_nothing(machine: Machine) -> None:
    limits = QuotaLimits(usd=1.0)
    machine.draw(limits, Amounts(usd=0.5))
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (machine.journal.stat().st_size + 10, unlimited[1]))
    try:
        with pytest.raises(OSError, match=r"No space left"):
            machine.draw(limits, Amounts(usd=0.25))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert machine.draw(limits, Amounts(usd=0.25)).usd == 0.25
    machine.start()
    assert machine.draw(limits, Amounts(usd=1.0)).usd == 0.25
