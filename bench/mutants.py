"""Change the source at random and see whether the tests notice: `./run --group=mutants python -m bench.mutants FILES`.

Each mutant has one mutation of one statement (`code_mutations.py`), in a copy of the checkout. Its tests are those that
run the changed line: they are known from one run of all given tests (`covered_lines.py`). A mutant is killed if one of
them fails or is too slow; one that survives shows behaviour without a test, or code without an effect.
"""

import argparse
import difflib
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import covered_lines
from bench.code_mutations import Mutation, Statement, statements

ROOT = Path(__file__).parents[1]
SHARE_OF_TIME = 0.4
"""How much of its time a mutant's tests took when they were recorded; the rest is for the start and a busy machine."""


@dataclass(frozen=True)
class Mutant:
    """A mutation of one file; `file` is relative to the checkout."""

    number: int
    file: str
    statement: Statement
    mutation: Mutation
    source: str

    def __str__(self) -> str:
        changed = self.mutation.of(self.source)
        lines = list(difflib.unified_diff(self.source.splitlines(), changed.splitlines(), lineterm="", n=0))[3:]
        return "\n".join((f"{self.number}  {self.file}:{self.mutation.line}  {self.mutation.kind}", *lines))


@dataclass(frozen=True)
class Outcome:
    """What the tests of a mutant did: `survived`, `killed` by the named test, or `timed out`."""

    verdict: str
    tests: Sequence[str]
    killer: str = ""


# --- which mutants ----------------------------------------------------------------------------------------------------


def draw(root: Path, files: Iterable[Path], count: int, seed: int) -> list[Mutant]:
    """Return mutants of different statements, in random order.

    A statement's place in the order follows from its text, so that a change of the source leaves other mutants alone.
    """
    places: list[tuple[str, str, Statement, str]] = []
    for path in sorted(files):
        file, source = str(path.relative_to(root)), path.read_text("utf-8")
        seen: Counter[str] = Counter()
        for statement in statements(source):
            seen[statement.text] += 1
            key = f"{seed} {file} {seen[statement.text]} {statement.text}"
            places.append((hashlib.sha256(key.encode()).hexdigest(), file, statement, source))
    places.sort(key=lambda place: place[0])
    return [
        Mutant(number, file, statement, _choice(statement, random.Random(key)), source)  # noqa: S311 - not for security
        for number, (key, file, statement, source) in enumerate(places[:count], 1)
    ]


def _choice(statement: Statement, chance: random.Random) -> Mutation:
    """Choose a kind first: most mutations are of constants."""
    kind = chance.choice(sorted({mutation.kind for mutation in statement.mutations}))
    return chance.choice([mutation for mutation in statement.mutations if mutation.kind == kind])


# --- which tests ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tests:
    """The tests that passed, with their seconds, and which of them run which line of which file."""

    root: Path
    seconds: Mapping[str, float]
    of_lines: Mapping[str, Mapping[int, set[str]]]

    def of(self, mutant: Mutant, *, seconds: float) -> list[str]:
        """Return tests that run the mutated line, of many files and functions in turn, the fast ones of each first."""
        by_file: dict[str, list[tuple[int, str]]] = defaultdict(list)
        seen: Counter[str] = Counter()
        for test in sorted(self._all_of(mutant), key=lambda test: (self.seconds[test], test)):
            function = test.partition("[")[0]
            by_file[test.partition("::")[0]].append((seen[function], test))
            seen[function] += 1
        nearest = sorted(by_file, key=lambda file: (self._distance(file, mutant), file))
        in_turn = zip_longest(*(sorted(by_file[file], key=itemgetter(0)) for file in nearest), fillvalue=(0, ""))
        chosen: list[str] = []
        for _, test in chain.from_iterable(in_turn):
            if test and self.seconds[test] <= seconds:
                seconds -= self.seconds[test]
                chosen.append(test)
        return chosen

    def _all_of(self, mutant: Mutant) -> set[str]:
        """Return the tests of the line; if it runs at import only, those of what it defines, or of the file."""
        lines, statement = self.of_lines[mutant.file], mutant.statement
        return (
            lines.get(mutant.mutation.line)
            or lines.get(statement.line)
            or set().union(*(lines.get(line, ()) for line in statement.body))
            or set().union(*(self._of_word(name) for name in statement.names))
            or set().union(*lines.values())
        )

    def _of_word(self, word: str) -> set[str]:
        """Return the tests of all lines that contain a word."""
        found: set[str] = set()
        for file, lines in self.of_lines.items():
            for number, line in enumerate((self.root / file).read_text("utf-8").splitlines(), 1):
                if number in lines and re.search(rf"\b{word}\b", line):
                    found |= lines[number]
        return found

    def _distance(self, file: str, mutant: Mutant) -> int:
        """Return 0 for a file of tests that names what the statement defines or the mutated file is about, else 1."""
        words = {*mutant.statement.names, Path(mutant.file).stem}
        text = (self.root / file).read_text("utf-8")
        return 0 if any(re.search(rf"(\b|_){word}\b", text) for word in words) else 1


# --- one mutant -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """A copy of a checkout, in which pytest runs, and the folder of the lines that the tests cover."""

    root: Path
    lines: Path

    @classmethod
    def make(cls, checkout: Path, work: Path) -> "Copy":
        """Copy the files that git knows or would add."""
        root = work / "copy"
        shutil.rmtree(root, ignore_errors=True)
        command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, check=True).stdout.decode()  # noqa: S603
        for name in filter(None, listed.split("\0")):
            if (checkout / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, root / name, follow_symlinks=False)
        return cls(root, work / "lines")

    def pytest(self, *arguments: str, seconds: float | None = None) -> tuple[int | None, str]:
        """Return the exit code and output of pytest; None if it took too long."""
        path = os.pathsep.join((str(self.root / "src"), str(self.root), str(ROOT)))
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments)
        with subprocess.Popen(  # noqa: S603
            command,
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": path, covered_lines.FOLDER: str(self.lines)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, output

    def record(self, tests: Sequence[str], *, processes: int) -> Tests:
        """Run the tests and return what they cover, or read what an earlier call recorded."""
        if not self.lines.exists():
            self.lines.mkdir()
            _, output = self.pytest("-p", "bench.covered_lines", "-n", str(processes), *tests)
            print(output.rstrip().rpartition("\n")[2], flush=True)
        return Tests(self.root, *covered_lines.read(self.lines, self.root))

    def attempt(self, mutant: Mutant, tests: Sequence[str], *, seconds: float) -> Outcome:
        """Run tests on a mutant."""
        if not tests:
            return Outcome("survived", ())
        path = self.root / mutant.file
        before = path.stat()
        path.write_text(mutant.mutation.of(mutant.source), "utf-8")
        os.utime(path, (mutant.number, mutant.number))  # another time than before: bytecode is not read again
        try:
            code, output = self.pytest("-x", "-n", "0", *tests, seconds=seconds)
        finally:
            path.write_text(mutant.source, "utf-8")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if code is None:
            return Outcome("timed out", tests)
        return Outcome("killed" if code else "survived", tests, next(_failed(output), ""))

    def failing(self, tests: Iterable[str]) -> list[str]:
        """Return the tests that fail without a mutant."""
        return list(_failed(self.pytest("-n", "0", *tests)[1]))


def _failed(output: str) -> Iterator[str]:
    yield from re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)


# --- the program ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants, and print each with its outcome."""
    options = _options(arguments)
    with TemporaryDirectory() as temporary:
        scratch = Copy.make(Path.cwd(), (options.work or Path(temporary)).resolve())
        tests = scratch.record(options.tests, processes=options.processes)
        print(f"{len(tests.seconds)} tests recorded", flush=True)
        files = chain.from_iterable(_python_files(scratch.root / file) for file in options.files)
        mutants = draw(scratch.root, files, options.count, options.seed)
        if options.only:
            mutants = [mutant for mutant in mutants if mutant.number in options.only]
        outcomes = dict(_tried(mutants, scratch, tests, seconds=options.seconds))
        for test in scratch.failing(sorted({outcome.killer for outcome in outcomes.values()} - {""})):
            print(f"{test} fails without a mutant, too: {[n for n, each in outcomes.items() if each.killer == test]}")
    counts = Counter(outcome.verdict for outcome in outcomes.values())
    killed = len(outcomes) - counts["survived"]
    print(f"{killed} of {len(outcomes)} killed, {counts['timed out']} of them because they took too long")
    print("survived:", *(number for number, outcome in outcomes.items() if outcome.verdict == "survived"))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", help="files and folders to mutate")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="tests to record (default: tests)")
    parser.add_argument("--count", type=int, default=100, help="number of mutants (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="which mutants (default: 1)")
    parser.add_argument("--only", type=int, nargs="+", help="try the mutants with these numbers")
    parser.add_argument("--seconds", type=float, default=60, help="limit for each mutant (default: 60)")
    parser.add_argument("--processes", type=int, default=1, help="processes that record (default: 1)")
    parser.add_argument("--work", type=Path, help="folder that keeps the recorded lines for the next call")
    return parser.parse_args(arguments)


def _python_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _tried(mutants: Sequence[Mutant], scratch: Copy, tests: Tests, *, seconds: float) -> Iterator[tuple[int, Outcome]]:
    """Try mutants, print and yield each outcome."""
    for mutant in mutants:
        chosen = tests.of(mutant, seconds=seconds * SHARE_OF_TIME)
        started = time.perf_counter()
        outcome = scratch.attempt(mutant, chosen, seconds=seconds)
        took = time.perf_counter() - started
        print(f"{mutant}\n    {outcome.verdict} in {took:.0f} s: {len(chosen)} tests {outcome.killer}", flush=True)
        if outcome.verdict == "survived":
            files = Counter(test.partition("::")[0] for test in chosen)
            print("".join(f"      {number} in {file}\n" for file, number in files.items()), end="", flush=True)
        yield mutant.number, outcome


if __name__ == "__main__":
    raise SystemExit(main())
