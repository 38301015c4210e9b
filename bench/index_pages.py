"""Pages by cursor: index a run of 100,000 rows while its first rows are listed, then filter, sort, page and compare."""

import random
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TypeVar

from msgspec.structs import replace

from agentv.storage.index.file import pages_file
from agentv.storage.index.indexer import Indexer
from agentv.storage.index.pages import RunPages
from agentv.storage.index.pairs import RunPairs
from agentv.storage.index.row_query import SORT_KEYS, RowQuery
from agentv.storage.records.encode import encodable_result, encodable_run
from agentv.storage.records.json_line import BlobReference, encode, pretty
from agentv.storage.run.find import runs_folder
from agentv.types.evaluation import EvaluatorResult
from agentv.types.messages import Message
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord
from bench.measuring import Effort
from bench.rows import AtMost, Row, row_of

ROWS, MANY_ROWS = 100_000, 1_000_000
PAGE = 100
REQUESTS = 200
TARGETS = ("small", "large")
EVALUATORS = ("contains", "tone", "grounded")
BLOB_BYTES = 1_000_000
_BLOBS = 16
A_PAGE = AtMost(0.025)
_SUITE = "evals/refunds.yaml"
_WORDS = 20_000


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the wall time to the first rows, the CPU time of indexing a run, and that of pages of it.

    With `everything`, also of pages of a million rows.
    """
    with TemporaryDirectory() as folder:
        home, count = Path(folder) / ".agentv", effort.calls(ROWS)
        first, second = (write_run(home, count, seed=seed) for seed in (1, 2))
        yield from _indexing(home, first)
        Indexer(pages_file(home, second.name), second).run()
        yield from _requests(home, first, f"{ROWS:,}")
        yield from _compared(home, (first, second))
    if effort.everything:
        with TemporaryDirectory() as folder:
            home = Path(folder) / ".agentv"
            run = write_run(home, effort.calls(MANY_ROWS), seed=1, with_texts=False)
            Indexer(pages_file(home, run.name), run, with_words=False).run()
            yield from _orders(home, run, f"{MANY_ROWS:,}")
            yield from _requests(home, run, f"{MANY_ROWS:,}", None)


def _indexing(home: Path, folder: Path) -> Iterator[Row]:
    file, begin = pages_file(home, folder.name), time.perf_counter()
    indexer = Indexer(file, folder)
    thread = Thread(target=indexer.run)
    before = time.process_time()
    thread.start()
    with closing(RunPages(file, folder)) as pages:
        while not pages.page(RowQuery(page_size=PAGE)).rows:
            time.sleep(0.005)
        listed = time.perf_counter() - begin
        while not pages.progress().is_complete:
            time.sleep(0.02)
        complete = time.process_time() - before
        thread.join()
        assert pages.progress().words_ready  # noqa: S101 - a check of the benchmark
        yield row_of(f"wall time to the first of {ROWS:,} rows, indexing goes on", [listed], target=AtMost(0.5))
        yield row_of(f"index {ROWS:,} rows of 2 kB", [complete], target=AtMost(8.0))
        yield row_of("the same with words", [time.process_time() - before], target=AtMost(10.0))
        yield row_of("size of the index", [file.stat().st_size / 1e6], shown=lambda size: f"{size:.0f} MB")


def _requests(home: Path, folder: Path, rows: str, target: AtMost | None = A_PAGE) -> Iterator[Row]:
    with closing(RunPages(pages_file(home, folder.name), folder)) as pages:
        found = [_timed(pages.page, query) for query in random_queries(pages, REQUESTS, seed=7)]
        spent = [seconds for seconds, _ in found]
        yield row_of(f"random page of {rows} rows, 95th percentile", [_percentile(spent, 95)], target=target)
        yield row_of(f"random page of {rows} rows, median", [_percentile(spent, 50)])
        texts = [_timed(pages.texts, page.rows)[0] for _, page in found if page.rows]
        yield row_of("question, answer and reasons of its rows, 95th percentile", [_percentile(texts, 95)])


def _orders(home: Path, folder: Path, rows: str) -> Iterator[Row]:
    with closing(RunPages(pages_file(home, folder.name), folder)) as pages:
        queries = random_queries(pages, REQUESTS, seed=7, with_filters=False)
        slowest = max(_timed(pages.page, query)[0] for query in queries)
        yield row_of(f"any page of {rows} rows, slowest of {REQUESTS}", [slowest], target=A_PAGE)


def _compared(home: Path, runs: tuple[Path, Path]) -> Iterator[Row]:
    with ExitStack() as stack:
        before, after = (stack.enter_context(closing(RunPages(pages_file(home, run.name), run))) for run in runs)
        pairs = RunPairs(before, after)
        spent, _ = _timed(partial(pairs.changed, "lost", None, most=PAGE))
        yield row_of(f"first {PAGE} lost of {ROWS:,} pairs", [spent])


def _percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


R = TypeVar("R")


def _timed(call: Callable[..., R], *arguments: object) -> tuple[float, R]:
    begin = time.process_time()
    result = call(*arguments)
    return time.process_time() - begin, result


def random_queries(pages: RunPages, count: int, *, seed: int, with_filters: bool = True) -> Iterator[RowQuery]:
    """Yield random orders and filters, half of them with a cursor from somewhere in the results."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    vocabulary = make_vocabulary()
    filters: tuple[Callable[[], dict[str, object]], ...] = (
        lambda: {"states": tuple(rng.sample(["pass", "fail", "error", "borderline"], rng.randint(1, 2)))},
        lambda: {"targets": (rng.choice(TARGETS),)},
        lambda: {"tags": (f"group-{rng.randrange(10)}",)},
        lambda: {"evaluators": ((rng.choice(EVALUATORS), rng.choice(["pass", "fail", "error"])),)},
        lambda: {"score": _range(rng, 1.0)},
        lambda: {"cost": _range(rng, 0.01)},
        lambda: {"duration": _range(rng, 5000.0)},
        lambda: {"trial": rng.randrange(2)},
        lambda: {"q": " ".join(vocabulary[int(len(vocabulary) ** rng.random()) - 1] for _ in range(rng.randint(1, 2)))},
    )
    for _ in range(count):
        chosen = rng.sample(filters, rng.randint(0, 3)) if with_filters else ()
        values = {key: value for each in chosen for key, value in each().items()}
        query = RowQuery(sort=rng.choice(SORT_KEYS), is_descending=_is_drawn(rng, 0.5), page_size=PAGE, **values)  # type: ignore[arg-type]
        yield _moved(pages, query, rng) if _is_drawn(rng, 0.5) else query


def _is_drawn(rng: random.Random, share: float) -> bool:
    return rng.random() < share


def _range(rng: random.Random, most: float) -> tuple[float | None, float | None]:
    low, high = sorted(rng.random() * most for _ in range(2))
    return rng.choice([(low, high), (None, high), (low, None)])


def _moved(pages: RunPages, query: RowQuery, rng: random.Random) -> RowQuery:
    """Return the query with the cursor of a result from anywhere in the order, found through another order."""
    elsewhere = pages.page(
        replace(query, page_size=1, q="", score=None, cost=None, duration=None, trial=rng.randrange(2))
    )
    return query if elsewhere.after is None else replace(query, after=elsewhere.after)


def make_vocabulary() -> list[str]:
    """Return words of which the first are frequent in the texts."""
    rng = random.Random(3)  # noqa: S311 - reproducible
    return list(dict.fromkeys("".join(rng.choices("abcdefghilmnoprstuvw", k=rng.randint(3, 9))) for _ in range(_WORDS)))


class _Texts:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._vocabulary = make_vocabulary()
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._vocabulary))))

    def of(self, size: int) -> str:
        """Return a text of about `size` characters."""
        total, weights, words = self._weights[-1], self._weights, self._vocabulary
        count = size // 7
        return " ".join(words[bisect(weights, self._rng.random() * total)] for _ in range(count))


def write_run(home: Path, count: int, *, seed: int, with_texts: bool = True) -> Path:
    """Write the folder of a run with rows of 2 kB, two for each case, and 1 MB in blobs for each hundredth."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    run = RunRecord(
        run_id=f"202601{seed:02}T120000.000-000000",
        created_at=datetime(2026, 1, 31, tzinfo=UTC),
        agentv_version="0",
        plan={},
    )
    folder = runs_folder(home) / run.run_id
    (folder / "blobs").mkdir(parents=True)
    (folder / "run.json").write_bytes(pretty(encodable_run(run)))
    texts = _Texts(rng)
    pool = [texts.of(400) for _ in range(2_000)] if with_texts else ["short"]
    blobs = [_write_blob(folder, " ".join(rng.choices(pool, k=BLOB_BYTES // 400))) for _ in range(_BLOBS)]
    with (
        (folder / "cases.jsonl").open("wb") as cases,
        (folder / "answers.jsonl").open("wb") as answers,
        (folder / "results.jsonl").open("wb") as results,
    ):
        for number in range(count):
            slot = ResultKey(_SUITE, f"case-{number // 2:06}", TARGETS[number % 2])
            if number % 2 == 0:
                case = CaseRecord(case_key="v1:0", suite=_SUITE, eval_id=slot.eval_id, question=rng.choice(pool))
                cases.write(encode(case) + b"\n")
            text = " ".join(rng.choices(pool, k=3)) if with_texts else "short"
            result = encode(encodable_result(_row(run, number, slot, text, rng)))
            answer = encode(_answer(slot, text))
            if number % 100 == 0 and with_texts:
                reference, quoted = encode(rng.choice(blobs)), encode(text)
                result, answer = result.replace(quoted, reference), answer.replace(quoted, reference)
            answers.write(answer + b"\n")
            results.write(result + b"\n")
    return folder


def _write_blob(folder: Path, text: str) -> BlobReference:
    data = text.encode()
    name = sha256(data).hexdigest()
    (folder / "blobs" / f"sha256-{name}").write_bytes(data)
    return BlobReference.to(name, size=len(data), media_type="text/plain; charset=utf-8")


def _answer(slot: ResultKey, text: str) -> Answer:
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    return Answer(
        slot=slot,
        answer_key="v1:0",
        text=text,
        started_at=moment,
        ended_at=moment,
        duration_ms=1.0,
        output_messages=(Message("assistant", text),),
    )


def _row(run: RunRecord, number: int, slot: ResultKey, text: str, rng: random.Random) -> CaseResult:
    passed = {name: _is_drawn(rng, 0.8) for name in EVALUATORS}
    found = tuple(
        EvaluatorResult(
            name=name,
            type="contains",
            score=float(passed[name]),
            verdict="pass" if passed[name] else "fail",
            reasoning="The answer says what was expected, in the words of the policy.",
        )
        for name in EVALUATORS
    )
    score = sum(passed.values()) / len(passed)
    is_error, is_priced = _is_drawn(rng, 0.01), _is_drawn(rng, 0.95)
    state = "error" if is_error else "pass" if score == 1.0 else "fail"
    return CaseResult(
        run_id=run.run_id,
        timestamp=run.created_at,
        slot=slot,
        dataset="refunds",
        status=state,  # type: ignore[arg-type]
        score=None if is_error else round(score + rng.random() * 1e-3 * (score < 1.0), 6),
        verdict=None if is_error else state,  # type: ignore[arg-type]
        tags=("refund", f"group-{number % 10}"),
        metadata={"level": number % 5},
        candidate_answer=text,
        answer_ref=AnswerRef(number),
        evaluator_results=found,
        cost_usd=round(rng.random() * 0.01, 6) if is_priced else None,
        duration_ms=round(rng.expovariate(1 / 900), 3),
        seq=number,
    )
