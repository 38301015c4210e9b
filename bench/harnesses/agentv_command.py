"""One command of agentv, given as arguments, in a process of its own: prints what it used, start-up included."""

import json
import sys
import time
from dataclasses import asdict

from agentv.cli.main import main as command_line
from bench.harnesses.job import Used, peak_mb

if __name__ == "__main__":
    begin = time.perf_counter()
    code: object = 0
    try:
        command_line(sys.argv[1:])
    except SystemExit as ended:
        code = ended.code
    if code:
        sys.exit(f"exit code {code}")
    used = Used(time.process_time(), time.perf_counter() - begin, peak_mb())
    print("\n" + json.dumps(asdict(used)), flush=True)
