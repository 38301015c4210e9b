"""Scan, copy and remove folders. No link is followed out of a folder.

An agent may leave anything in its folder: links to any place, named pipes, folders without permissions.
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
"""A file changed this shortly before the scan may change again without a new timestamp."""

_UNREADABLE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES)


class StoppedError(Exception):
    """The copy was stopped by its caller."""


class Entry(Struct, frozen=True):
    """A regular file or a link at the time of a scan."""

    mode: int
    size: int
    stamp: tuple[int, int, int]
    is_racy: bool = False

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def git_mode(self) -> str:
        """The mode as git writes it."""
        return "120000" if self.is_link else "100755" if self.mode & stat.S_IXUSR else "100644"


Entries = Mapping[str, Entry]
"""The contents of a folder, by path with slashes."""


def scan(root: Path) -> Entries:
    """Return all files and links below `root`, except those in `.git`."""
    now_ns = time.time_ns()
    found: dict[str, Entry] = {}
    if root.is_symlink():  # an agent replaced the folder by a link, which would lead out of it
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
    """Yield every folder below `root` as a path prefix with its entries, without `.git` and unreadable folders."""
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
    """Return the entries of a folder, even if an agent removed its permissions."""
    try:
        listing = os.scandir(folder)
    except PermissionError:
        folder.chmod(stat.S_IRWXU)
        listing = os.scandir(folder)
    with listing:
        return [item for item in listing if item.name != ".git"]


def read_link(path: Path) -> str:
    """Return the target of a link exactly as written: a Path would normalize `./a`."""
    return os.readlink(path)  # noqa: PTH115 - see above


def open_beneath(root: Path, path: str) -> int | None:
    """Return a descriptor of the regular file at `path` below `root`; None if there is no readable one.

    No link on the path is followed, even one created meanwhile; a named pipe does not block.
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
        if error.errno in _UNREADABLE:
            return None
        raise
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def copy_tree(source: Path, target: Path, stop: threading.Event) -> None:
    """Copy a folder to `target`, which must not exist; links stay links.

    Blocks are shared where the file system supports it. Pipes, sockets and devices are skipped. Raises OSError, and
    StoppedError if `stop` is set meanwhile.
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
    """Rewrite the links of a copy: those that lead into `source` lead into the copy, the others keep their target."""
    for path in [path for path, entry in scan(copy).items() if entry.is_link]:
        written = read_link(copy / path)
        leads_to = os.path.normpath(source / Path(path).parent / written)
        if Path(leads_to).is_relative_to(source):
            fixed = os.path.relpath(leads_to, (source / path).parent) if Path(written).is_absolute() else written
        else:
            fixed = leads_to
        if fixed != written:
            (copy / path).unlink()
            (copy / path).symlink_to(fixed)


def copy_file(source: Path, target: Path) -> None:
    """Copy one file with its mode and times; blocks are shared where the file system supports it (btrfs, XFS)."""
    if source.is_symlink():
        os.symlink(read_link(source), target)  # noqa: PTH211 - exactly as written
        return
    with source.open("rb") as reader, target.open("wb") as writer:
        if not _shared_blocks(reader.fileno(), writer.fileno()):
            shutil.copyfileobj(reader, writer)
    shutil.copystat(source, target)


def _shared_blocks(source: int, target: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def remove_tree(root: Path) -> bool:
    """Remove a folder with all its contents, even without permissions; of a link, remove only the link.

    Return True if it no longer exists.
    """
    if root.is_symlink():
        root.unlink()
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():
        _permit(root)
        shutil.rmtree(root, ignore_errors=True)
    return not root.exists()


def _permit(root: Path) -> None:
    """Grant the owner all permissions on every folder, from the top down."""
    with contextlib.suppress(OSError):
        root.chmod(stat.S_IRWXU)
    for folder, folders, _ in os.walk(root):
        for path in (Path(folder, name) for name in folders):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(stat.S_IRWXU)
