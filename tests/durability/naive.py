"""A naive runner: call case by case, append rows to a file, and skip what the file has at the next start.

No lock, no line that is written when it is true. The tests show that they would notice what it loses.
"""

import json
import resource
import sys
import urllib.request
from pathlib import Path


def main(url: str, rows: Path, count: int, limit: int) -> None:
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    done = set()
    for line in rows.read_text().splitlines() if rows.exists() else []:
        try:
            done.add(json.loads(line)["id"])
        except ValueError:
            continue
    with rows.open("a") as file:
        for number in range(count):
            case = f"case-{number}"
            if case not in done:
                body = json.dumps({"messages": [{"role": "user", "content": case}]}).encode()
                with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body)) as reply:
                    answer = json.load(reply)["choices"][0]["message"]["content"]
                file.write(json.dumps({"id": case, "answer": answer}) + "\n")


main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
