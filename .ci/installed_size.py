"""Print what a plain installation weighs, and fail when it is more than users were promised."""

import sys
import sysconfig
from pathlib import Path

MAX_MEGABYTES = 55
MAX_DISTRIBUTIONS = 32


def main() -> None:
    """Measure the environment of the interpreter that runs this."""
    packages = Path(sysconfig.get_path("purelib"))
    files = (path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc")
    megabytes = sum(path.stat().st_size for path in files) / 1_000_000
    distributions = len(list(packages.glob("*.dist-info")))
    print(f"installed: {megabytes:.1f} of {MAX_MEGABYTES} MB, {distributions} of {MAX_DISTRIBUTIONS} distributions")
    sys.exit(megabytes > MAX_MEGABYTES or distributions > MAX_DISTRIBUTIONS)


if __name__ == "__main__":
    main()
