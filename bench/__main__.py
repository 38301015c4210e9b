"""Run benchmarks and print a table: `./run python -m bench [NAME …] [--quick] [--peers] [--write]`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.benchmarks import BENCHMARKS, COMPARING
from bench.environments import PEERS, PeerMissingError, cache_folder, version_of, with_environment
from bench.harness import Harness
from bench.machine import description
from bench.measuring import FULL, QUICK, Effort
from bench.rows import table

README = Path(__file__).parent / "README.md"
TABLE, PEERS_TABLE, END = "<!-- table -->", "<!-- peers -->", "<!-- end -->"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named benchmarks, or all. A missed target is shown in the table and is not an error."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the CPU and memory use of agentv.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="run everything once, to check that it works")
    parser.add_argument(
        "--peers", action="store_true", help="compare with other tools, and run long jobs: half an hour"
    )
    parser.add_argument("--peer", action="append", choices=PEERS, help="compare with this tool only; may be repeated")
    parser.add_argument("--write", action="store_true", help="write the table to bench/README.md")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark named {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    effort, mark, names = QUICK if options.quick else FULL, TABLE, list(BENCHMARKS)
    if options.peers or options.peer:
        peers = present([PEERS[name] for name in options.peer or PEERS])
        effort, mark, names = replace(effort, peers=peers, everything=not options.quick), PEERS_TABLE, list(COMPARING)
    text = measured(options.names or names, effort)
    print(text)
    if options.write:
        README.write_text(with_table(README.read_text(encoding="utf-8"), text, mark=mark), encoding="utf-8")


def present(peers: Sequence[Harness]) -> tuple[Harness, ...]:
    """Return the peers whose environments exist or can be created, and print why others are skipped."""
    found: list[Harness] = []
    for peer in peers:
        try:
            found.append(with_environment(peer, cache_folder()))
        except PeerMissingError as error:
            print(f"{peer.name} is skipped: {error}", file=sys.stderr)
    return tuple(found)


def measured(names: Sequence[str], effort: Effort) -> str:
    """Return the table of the named benchmarks, with a description of the machine."""
    found = [(name, row) for name in names for row in BENCHMARKS[name](effort)]
    versions = "".join(f", {peer.name} {version_of(peer)}" for peer in effort.peers)
    return f"{table(found)}\n\n{description(versions)}"


def with_table(page: str, text: str, *, mark: str = TABLE) -> str:
    """Return a page with the table after its mark replaced."""
    before, _, rest = page.partition(mark)
    _, _, after = rest.partition(END)
    return f"{before}{mark}\n\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    main()
