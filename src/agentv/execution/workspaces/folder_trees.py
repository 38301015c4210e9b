"""Folders as values: what lies in one, a copy of it, its removal. No link is ever followed out of one.

An agent may have left anything in its folder: links to the whole machine, named pipes, folders without permissions.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

_FICLONE = 0x40049409
_RACY_NS = 2_000_000_000
"""A file that was touched this shortly before it was looked at may change again without showing it in its times."""

_NOT_TO_BE_READ = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES)


class StoppedError(Exception):
    """Whoever had asked for a copy does not want it any more."""


class Entry(Struct, frozen=True):
    """A regular file or a link, as it was when its folder was scanned."""

    mode: int
    size: int
    stamp: tuple[int, int, int]
    is_racy: bool = False

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def git_mode(self) -> str:
        """Its mode as git writes it."""
        return "120000" if self.is_link else "100755" if self.mode & stat.S_IXUSR else "100644"


Entries = Mapping[str, Entry]
"""What lies in a folder, by path with slashes."""


def scan(root: Path) -> Entries:
    """Return all files and links below `root`, except what git keeps for itself (`.git`)."""
    now_ns = time.time_ns()
    found: dict[str, Entry] = {}
    if root.is_symlink():  # it was a folder when we made it: whoever put a link there wants us to look elsewhere
        return found
    for folder, inner in _walk(root):
        for item in inner:
            with contextlib.suppress(OSError):
                status = item.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    stamp = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
                    is_racy = status.st_ctime_ns >= now_ns - _RACY_NS
                    found[f"{folder}{item.name}"] = Entry(status.st_mode, status.st_size, stamp, is_racy)
    return found


def _walk(root: Path) -> Iterator[tuple[str, list["os.DirEntry[str]"]]]:
    """Yield every folder below `root` as a prefix, with what is in it; `.git` and what cannot be read is left out."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            inner = _listed(root / folder)
        except OSError:
            continue
        waiting += [f"{folder}{item.name}/" for item in inner if item.is_dir(follow_symlinks=False)]
        yield folder, inner


def _listed(folder: Path) -> list["os.DirEntry[str]"]:
    """Return what is in a folder, even in one that somebody took our permissions for."""
    try:
        listing = os.scandir(folder)
    except PermissionError:
        folder.chmod(stat.S_IRWXU)
        listing = os.scandir(folder)
    with listing:
        return [item for item in listing if item.name != ".git"]


def read_link(path: Path) -> str:
    """Return where a link leads, letter by letter: a Path would make another text of `./a`."""
    return os.readlink(path)  # noqa: PTH115 - see above


def open_beneath(root: Path, path: str) -> int | None:
    """Return a descriptor of the regular file at `path` below `root`; None when there is none that may be read.

    A link on the way is not followed, whoever put it there and whenever; a named pipe does not hold us up.
    """
    *folders, name = path.split("/")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except OSError as error:
        if error.errno in _NOT_TO_BE_READ:
            return None
        raise
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def copy_tree(source: Path, target: Path, stop: threading.Event) -> None:
    """Copy a folder to `target`, which must not exist: blocks are shared where the file system can, links stay links.

    Pipes, sockets and devices are left out. Raises OSError, and StoppedError when `stop` is set meanwhile.
    """
    target.mkdir(mode=0o700, parents=True)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(source / folder) as listing:
            for item in listing:
                if stop.is_set():
                    raise StoppedError
                path = f"{folder}{item.name}"
                if item.is_dir(follow_symlinks=False):
                    (target / path).mkdir(mode=stat.S_IMODE(item.stat().st_mode) | stat.S_IRWXU)
                    waiting.append(f"{path}/")
                elif item.is_symlink() or item.is_file():
                    copy_file(source / path, target / path)


def fix_links(copy: Path, source: Path) -> None:
    """Make the links of a copy lead where they did in `source`: into the copy, or to the same place outside of it."""
    for path in [path for path, entry in scan(copy).items() if entry.is_link]:
        written = read_link(copy / path)
        leads_to = os.path.normpath(source / Path(path).parent / written)
        if Path(leads_to).is_relative_to(source):
            mended = os.path.relpath(leads_to, (source / path).parent) if Path(written).is_absolute() else written
        else:
            mended = leads_to
        if mended != written:
            (copy / path).unlink()
            (copy / path).symlink_to(mended)


def copy_file(source: Path, target: Path) -> None:
    """Copy one file with its mode and times; its blocks are shared where the file system can (btrfs, XFS)."""
    if source.is_symlink():
        os.symlink(read_link(source), target)  # noqa: PTH211 - letter by letter
        return
    with source.open("rb") as given, target.open("wb") as made:
        if not _shared_blocks(given.fileno(), made.fileno()):
            shutil.copyfileobj(given, made)
    shutil.copystat(source, target)


def _shared_blocks(given: int, made: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(made, _FICLONE, given)
    except OSError:
        return False
    return True


def remove_tree(root: Path) -> bool:
    """Remove a folder and all in it, also what somebody took the permissions from; a link is only unlinked.

    Returns whether it is gone.
    """
    if root.is_symlink():
        root.unlink()
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():
        _permit(root)
        shutil.rmtree(root, ignore_errors=True)
    return not root.exists()


def _permit(root: Path) -> None:
    """Make every folder one that we may empty, from the top down."""
    with contextlib.suppress(OSError):
        root.chmod(stat.S_IRWXU)
    for folder, folders, _ in os.walk(root):
        for path in (Path(folder, name) for name in folders):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(stat.S_IRWXU)
