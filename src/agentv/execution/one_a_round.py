"""Tasks that were woken together go on one after another, so that what each does next is on its way at once."""

import asyncio
from collections import deque

CROWD = 10
"""Of so many who wait one more goes on in a round: where work never pauses, a round for each costs a tenth more."""


class OneARound:
    """Lets tasks go on in the order in which they came, one in a round of the event loop, or a tenth of a crowd.

    A round of the loop takes up all replies that are there, then goes on with all who waited for them, and only in
    the next one sends what these ask now. Without turns, nobody's question leaves before everybody's last answer is
    judged; so all of them come back together, and so it goes on, however idle the machine is. For one event loop.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_going = False

    async def turn(self) -> None:
        """Wait for one's turn; who comes first in a round does not wait."""
        loop = asyncio.get_running_loop()
        if not self._is_going:
            self._is_going = True
            loop.call_soon(self._go_on, loop)
            return
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        self._is_going = bool(waiting)
        if not waiting:
            return
        for _ in range(1 + len(waiting) // CROWD):
            first = waiting.popleft()
            if not first.done():  # it was cancelled meanwhile
                first.set_result(None)
        loop.call_soon(self._go_on, loop)
