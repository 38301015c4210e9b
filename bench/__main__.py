"""Measures and prints a table: `./run python -m bench [NAME …] [--quick] [--write]`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.benchmarks import BENCHMARKS
from bench.machine import description
from bench.measuring import FULL, QUICK
from bench.rows import table

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- table -->", "<!-- end -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named benchmarks, or all. A target that is missed is told in the table and ends nothing."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what agentv costs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="everything once: whether it works, not how fast")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark named {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    text = measured(asked.names or list(BENCHMARKS), quick=asked.quick)
    print(text)
    if asked.write:
        README.write_text(with_table(README.read_text(encoding="utf-8"), text), encoding="utf-8")


def measured(names: Sequence[str], *, quick: bool = False) -> str:
    """Return the table of the named benchmarks, and what it was measured on."""
    effort = QUICK if quick else FULL
    found = [(name, row) for name in names for row in BENCHMARKS[name](effort)]
    return f"{table(found)}\n\n{description()}"


def with_table(page: str, text: str) -> str:
    """Return a page with another table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    main()
