"""Record what the agent of each page returns: `./run python -m tests.frameworks.record [NAME …]`.

Writes tests/fixtures/results/NAME.json, one entry per question of orders.yaml, for the tests without the framework.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from tests.frameworks.environments import FOLDER, NAMES, PAGES, prepare, variables
from tests.support.fake_server import serving_fake
from tests.test_readme import blocks_of

RECORDED = FOLDER.parent / "fixtures" / "results"


def record(name: str) -> None:
    """Run the agent of a page in its environment and store what it returns."""
    cases = yaml.safe_load((FOLDER / "orders.yaml").read_text("utf-8"))["evalcases"]
    questions = [case["input_messages"][0]["content"] for case in cases]
    with TemporaryDirectory() as folder, serving_fake() as server:
        for block in blocks_of(PAGES[name]):
            Path(folder, block.file).write_text(block.text, "utf-8")
        python = prepare(name, Path(folder)).with_name("python")
        environment = variables(server.url, Path(folder))
        (target,) = yaml.safe_load(Path(folder, "targets.yaml").read_text("utf-8"))["targets"]
        if "callable" in target:
            dump = [str(python), str(FOLDER / "dump.py"), target["callable"], json.dumps(questions)]
            printed = run(dump, folder, environment)
            dumped = json.loads(printed[printed.index("[{") :])  # CrewAI prints a line of its own
        else:
            dumped = []
            for question in questions:
                Path(folder, "question.txt").write_text(question, "utf-8")
                words = target["command_template"].replace("{PROMPT_FILE}", "question.txt").split()
                dumped.append({"value": json.loads(run(words, folder, environment))})
    RECORDED.mkdir(exist_ok=True)
    text = json.dumps(dumped, indent=1, ensure_ascii=False)
    (RECORDED / f"{name}.json").write_text(f"{text}\n", "utf-8")


def run(command: list[str], folder: str, environment: Mapping[str, str]) -> str:
    """Return what a program prints; exit with its errors if it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        record(each)
