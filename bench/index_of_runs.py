"""The index of stored runs: index a run of 100,000 rows, then query it page by page."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agentv.storage.index.index import RunIndex
from agentv.storage.index.row_query import RowQuery
from agentv.storage.records.encode import encodable_result, encodable_run
from agentv.storage.records.json_line import encode, pretty
from agentv.storage.run.find import runs_folder
from agentv.storage.run.stored import StoredRun
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from bench.measuring import Effort, seconds_per_call
from bench.rows import AtMost, Row, row_of

ROWS = 100_000
WORD = "Thirty days from delivery, unopened and in the box it came in. "

QUERIES: tuple[tuple[str, RowQuery], ...] = (
    ("first page", RowQuery()),
    ("page 1,000", RowQuery(page=1000)),
    ("by score, page 1,000", RowQuery(sort="score", is_descending=True, page=1000)),
    ("failed with a tag, by cost", RowQuery(states=("fail", "error"), tags=("group-3",), sort="cost")),
    ("text in id, metadata", RowQuery(text="99", metadata={"level": "1"})),
    ("one case", RowQuery(case="case-777")),
)


def measure(effort: Effort) -> Iterator[Row]:
    """Yield the CPU time to build the index and read its first page, and of each kind of page, with its rows."""
    count = effort.calls(ROWS)
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".agentv"
        stored = write_run(home, count)
        (first,) = seconds_per_call(partial(_build_and_read, home, stored), calls=1, effort=effort)
        yield row_of(f"open and index {ROWS:,} rows, first page", first, target=AtMost(3.0))
        with closing(RunIndex(home, note=_refuse)) as index:
            for name, query in QUERIES:
                (each,) = seconds_per_call(partial(_read_page, index, stored, query), calls=5, effort=effort)
                yield row_of(f"{name} of {ROWS:,} rows", each, target=AtMost(0.1))


def write_run(home: Path, count: int) -> StoredRun:
    """Write the folder of a run with `count` rows of 1.2 kB."""
    run = RunRecord(
        run_id="20260131T120000.000-000000", created_at=datetime(2026, 1, 31, tzinfo=UTC), agentv_version="0", plan={}
    )
    folder = runs_folder(home) / run.run_id
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(pretty(encodable_run(run)))
    with (folder / "results.jsonl").open("wb") as file:
        for number in range(count):
            file.write(encode(encodable_result(_row(run, number))) + b"\n")
    return StoredRun(folder)


def _row(run: RunRecord, number: int) -> CaseResult:
    passed = number % 4 != 0
    found = EvaluatorResult(name="contains", type="contains", score=float(passed), verdict="pass" if passed else "fail")
    return CaseResult(
        run_id=run.run_id,
        timestamp=run.created_at,
        slot=ResultKey("evals/refunds.yaml", f"case-{number}", f"target-{number % 3}"),
        dataset="refunds",
        status="pass" if passed else "fail",
        score=number * 31 % 1000 / 1000,
        verdict="pass" if passed else "fail",
        tags=("refund", f"group-{number % 10}"),
        metadata={"level": number % 5},
        candidate_answer=WORD * 8,
        evaluator_results=(found,),
        cost_usd=number * 17 % 1000 / 1e6,
        duration_ms=float(number * 13 % 5000),
        seq=number,
    )


def _build_and_read(home: Path, stored: StoredRun) -> None:
    for file in home.glob("index.db*"):
        file.unlink()
    with closing(RunIndex(home, note=_refuse)) as index:
        _read_page(index, stored, RowQuery())


def _read_page(index: RunIndex, stored: StoredRun, query: RowQuery) -> None:
    page = index.page(stored, query)
    list(stored.results_at((row.line, row.offset, row.size) for row in page.rows))


def _refuse(message: str) -> None:
    raise RuntimeError(message)
