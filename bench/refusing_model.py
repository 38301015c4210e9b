"""Cases that call a model which refuses one request in a hundred, at random: the wall time beside that without."""

from collections.abc import Iterator

from bench.harness import AGENTV
from bench.harnesses.job import Job
from bench.measuring import Effort
from bench.model_server import serving
from bench.rows import AtMostTimes, Row, row_of

CASES = 1500
AT_ONCE = 50
DELAY_S = 0.2
SHARE = 0.01
TARGET = AtMostTimes(1.1)
ROUNDS = 3


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the wall time of a run with refusals, compared with one without."""
    refused: list[float] = []
    smooth: list[float] = []
    with serving(delay_s=DELAY_S, refused_share=SHARE) as refusing, serving(delay_s=DELAY_S) as willing:
        for _ in range(min(ROUNDS, effort.rounds)):
            for server, found in ((refusing, refused), (willing, smooth)):
                job = Job(kind="ask", cases=effort.calls(CASES), at_once=AT_ONCE, url=server.url)
                found.append(AGENTV.run(job).wall_s)
    work = f"wall time of {CASES:,} at 200 ms, {AT_ONCE} at once, a random 1 % refused with HTTP 429"
    yield row_of(work, refused, beside="none refused", theirs=smooth, target=TARGET)
