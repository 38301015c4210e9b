"""Kill the server of a review while three reviewers label, and count the acknowledged labels that are lost.

    ./run python -m bench.review_kills --kills 40

Each kill comes after a random number of labels. The last line has the time from sending a label to the reply with the
next item, which the server writes after the label is on disk.
"""

import argparse
import random
import time
from collections import Counter
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.review_process import ReviewProcess, review_until_killed
from tests.support.reviewed import ScriptedReviewer, store_run

REVIEWERS = ("ada", "bob", "carl")


def main() -> None:
    """Kill, check, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.review_kills")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 - when to kill, not secrets
    with TemporaryDirectory() as name:
        folder = Path(name)
        run = store_run(folder / ".agentv", cases=20 * options.kills)
        named = [part for each in REVIEWERS for part in ("--reviewer", each)]
        options_of_review = ("--sample", str(20 * options.kills), *named, "--overlap", "30%")
        acknowledged: list[str] = []
        for _ in range(options.kills):
            with ReviewProcess(folder, *options_of_review) as process:
                acknowledged += review_until_killed(process, "helpful", REVIEWERS, labels=rng.randint(1, 25)).ids
        stored = Counter(label.label_id for label in run.all_labels())
        lost = set(acknowledged) - set(stored)
        twice = [label_id for label_id, count in stored.items() if count > 1]
        print(f"{options.kills} kills: {len(acknowledged):,} labels acknowledged, {len(stored):,} stored")
        print(f"lost: {len(lost)}, stored twice: {len(twice)}")
        with ReviewProcess(folder, *options_of_review) as process:
            took = _times(ScriptedReviewer(process.client("ada"), "helpful"))
        cuts = quantiles(took, n=20)
        print(f"{len(took):,} labels: median {cuts[9] * 1000:.0f} ms, 95th percentile {cuts[18] * 1000:.0f} ms")


def _times(reviewer: ScriptedReviewer) -> list[float]:
    took: list[float] = []
    item: dict[str, Any] | None = reviewer.next()
    while item is not None and item.get("item") is not None and len(took) < 200:  # noqa: PLR2004 - enough for a quantile
        started = time.perf_counter()
        item = reviewer.send(item, ("verdict", "pass")).json()["next"]
        took.append(time.perf_counter() - started)
    return took


if __name__ == "__main__":
    main()
