"""How far a model that judges by the ready-made judges agrees with labelled answers, in bench/calibration.

    ./run python -m bench.judge_agreement --url http://127.0.0.1:8922/v1 --model NAME
    ./run python -m bench.judge_agreement --url … --model … faithfulness tone --first 20

Each set has at least sixty answers with the label 1, 0.5 or 0. A row of the table has the share of answers that the
judge scored at all, the share of those whose score is nearest to the label, and the kappa with quadratic weights of
both (1 is full agreement, 0 is chance).
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentv import weighted_kappa

SETS = Path(__file__).parent / "calibration"
LABELS = (0.0, 0.5, 1.0)


def main() -> None:
    """Score the sets with the judge, and print a row for each."""
    names = sorted(path.stem for path in SETS.glob("*.jsonl"))
    parser = argparse.ArgumentParser(prog="python -m bench.judge_agreement")
    parser.add_argument("names", nargs="*", metavar="SET", help=f"of: {', '.join(names)} (default: all)")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--first", type=int, help="only so many answers of each set, spread over it")
    parser.add_argument("--max-output-tokens", type=int, default=400)
    options = parser.parse_args()
    print("| judge | answers | scored | nearest label | weighted kappa |")
    print("| --- | --- | --- | --- | --- |")
    for name in options.names or names:
        lines = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text("utf-8").splitlines()]
        number = min(options.first or len(lines), len(lines))
        lines = [lines[place * len(lines) // number] for place in range(number)]  # the sets are sorted by label
        given = scores(name, lines, options)
        both = ((each["metadata"]["label"], given.get(each["id"])) for each in lines)
        pairs = [(label, score) for label, score in both if score is not None]
        print(f"| `{name}` | {len(lines)} | {len(pairs) / len(lines):.0%} | {row(pairs)} |", flush=True)


def scores(name: str, lines: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, float | None]:
    """Return the judge's score for each answer by its id, None where it gave none."""
    judge = {"name": "judge", "provider": "openai", "base_url": options.url, "model": options.model, "api_key": "any"}
    judge |= {"timeout_seconds": 300, "unsigned": "accept", "structured_output": True}
    evaluator = {"name": name, "type": name, "max_output_tokens": options.max_output_tokens, "timeout_seconds": 700}
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        (place / "targets.yaml").write_text(json.dumps({"targets": [judge]}), "utf-8")
        config = {"evaluators": [evaluator], "judge": "judge"}
        (place / "config.json").write_text(json.dumps(config), "utf-8")
        command = [sys.executable, "-m", "agentv", "score", "answers.jsonl", "--config", "config.json"]
        command += ["-o", "scores.jsonl", "--workers", "2", "--judge-failures", str(len(lines) + 1)]
        command += ["--display", "none"]
        subprocess.run(command, cwd=folder, check=False)  # noqa: S603 - ours
        found = [json.loads(line) for line in (place / "scores.jsonl").read_text("utf-8").splitlines()]
    return {each["inputSnapshot"]["id"]: score_of(each) for each in found}


def score_of(line: dict[str, Any]) -> float | None:
    """Return the score of a stored judgement from 0 to 1, None for an error."""
    (result,) = line["results"]
    return None if result.get("error") else float(result["value"])


def row(pairs: list[tuple[float, float]]) -> str:
    """Return the last two cells of a row."""
    if not pairs:
        return "- | -"
    nearest = [(label, min(LABELS, key=lambda mark: abs(mark - score))) for label, score in pairs]
    share = sum(label == mark for label, mark in nearest) / len(nearest)
    kappa = weighted_kappa([label for label, _ in nearest], [mark for _, mark in nearest], order=LABELS)
    return f"{share:.0%} | {'-' if kappa is None else f'{kappa:.2f}'}"


if __name__ == "__main__":
    main()
