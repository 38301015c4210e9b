"""Scan, copy and remove folders. No link is followed out of a folder.

An agent may leave anything in its folder: links to any place, named pipes, folders without permissions.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from agentv.templating.secrets import known_keys
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError

_FICLONE = 0x40049409
_SHOWN_PATH = 40
_MAX_TEXT_BYTES = 2**20
_RACY_NS = 2_000_000_000
"""A file changed this shortly before the scan may change again without a new timestamp."""

MAX_LEVELS = 500
"""The maximum number of folders in each other that are captured; no project has as many."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
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
    """Return all files and links below `root`, except those in `.git`.

    Raises ProviderError for folders nested more than MAX_LEVELS levels, and for paths longer than the system allows.
    """
    now_ns = time.time_ns()
    found: dict[str, Entry] = {}
    if root.is_symlink():  # an agent replaced the folder by a link, which would lead out of it
        return found
    for folder, inner in _walk(root):
        for item in inner:
            try:
                status = item.stat(follow_symlinks=False)
            except OSError as error:
                _refuse_long_path(error, f"{folder}{item.name}")
                continue
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
        if folder.count("/") > MAX_LEVELS:
            raise _too_deep(folder, f"nested more than {MAX_LEVELS} levels")
        try:
            inner = _listed(root / folder)
        except OSError as error:
            _refuse_long_path(error, folder)
            continue
        waiting += [f"{folder}{item.name}/" for item in inner if item.is_dir(follow_symlinks=False)]
        yield folder, inner


def _refuse_long_path(error: OSError, path: str) -> None:
    """Raise ProviderError if a path is too long to be read; other files that cannot be read are left out."""
    if error.errno == errno.ENAMETOOLONG:
        raise _too_deep(path, "too long for a path") from error


def _too_deep(path: str, problem: str) -> ProviderError:
    message = f"workspace: its changes cannot be captured, because {path[:_SHOWN_PATH]}… is {problem}"
    return ProviderError(Failure("too_large", message))


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
    at = os.open(root, _FOLDER)
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER, dir_fd=at)
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


def find_keys(root: Path, paths: Iterable[str]) -> frozenset[str]:
    """Return the known keys in the text files at `paths` below `root`; files over 1 MiB are not read."""
    found: set[str] = set()
    for path in paths:
        descriptor = open_beneath(root, path)
        if descriptor is None:
            continue
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MAX_TEXT_BYTES + 1)
        if len(data) <= _MAX_TEXT_BYTES and b"\0" not in data:
            found.update(known_keys(data.decode("utf-8", "replace")))
    return frozenset(found)


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

    Return True if it no longer exists. Folders may be nested to any depth.
    """
    with contextlib.suppress(OSError):
        if root.is_symlink():
            root.unlink()
        else:
            _permit(root)
            _empty(root)
            root.rmdir()
    return not os.path.lexists(root)


def _empty(root: Path) -> None:
    """Remove the contents of a folder without recursion and long paths: every subfolder is first moved into `root`."""
    top = os.open(root, _FOLDER)
    names = (f"{secrets.token_hex(16)}-{number}" for number in itertools.count())
    try:
        waiting = _removed_files(top)
        while waiting:
            name = waiting.pop()
            with contextlib.suppress(OSError):
                _permit(name, top)
                folder = os.open(name, _FOLDER, dir_fd=top)
                try:
                    waiting += _raised(_removed_files(folder), folder, top, names)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _removed_files(folder: int) -> list[str]:
    """Remove all files and links in a folder; return the names of its subfolders."""
    with os.scandir(folder) as listing:
        inner = [(item.name, item.is_dir(follow_symlinks=False)) for item in listing]
    for name, is_folder in inner:
        if not is_folder:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in inner if is_folder]


def _raised(inner: list[str], folder: int, top: int, names: Iterator[str]) -> Iterator[str]:
    """Move the subfolders of `folder` into `top` under new names; yield these."""
    for name in inner:
        with contextlib.suppress(OSError):
            _permit(name, folder)  # a folder without permissions cannot be moved
            new = next(names)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
            yield new


def _permit(folder: Path | str, parent: int | None = None) -> None:
    """Grant the owner all permissions on a folder."""
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IRWXU, dir_fd=parent)
