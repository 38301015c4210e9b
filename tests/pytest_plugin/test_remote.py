"""The messages between the workers of pytest-xdist and their controller."""

import subprocess
import sys

FIRST_REQUEST = """
import sys
from agentv.pytest_plugin import remote
from agentv.types.errors import AgentvError

def rows():
    raise AgentvError("no rows")

called = set()
sys.setprofile(lambda frame, event, arg: called.add(frame.f_code.co_name))
remote.handle_request(b'{"all_wanted": []}', rows)
sys.setprofile(None)
print("handle_request" in called, "get_class_annotations" in called)
"""


def test_the_first_request_reads_no_type() -> None:
    """A type that two threads read for the first time at the same moment crashes the process, in msgspec."""
    done = subprocess.run([sys.executable, "-c", FIRST_REQUEST], capture_output=True, text=True, check=False)
    assert done.stdout == "True False\n", done.stderr
