"""Files of a run outside of its folder: in another folder, or in an object store that fsspec opens (`s3://…`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from agentv.storage.files.line_file import open_lines, sync
from agentv.templating.secrets import redact_message
from agentv.types.errors import ConfigError, StorageError

UPLOAD_LIMIT_S = 600.0
"""The seconds after which the upload of an object fails, also if its client would go on retrying."""

_FILE_SCHEME = "file://"


def check_url(url: str, *, runs: Path) -> None:
    """Raise ConfigError for a URL to which the segments of the runs in `runs` cannot be moved.

    The URL is stored with the run, so it must not contain a secret. A segment must outlive the process, and must not
    be written into the folder of its own run.
    """
    if not url.strip():
        raise ConfigError(
            "the location of segments must not be empty; expected a folder or a URL such as s3://bucket/runs"
        )
    if not _is_path(url):
        _check_address(url)
        filesystem, place = _filesystem(url)
        if "file" not in filesystem.protocol:
            return
    else:
        place = _without_scheme(url)
    if Path(place).resolve() == runs.resolve():
        raise ConfigError(f"the location of segments, {url}, is the folder of the runs; expected another folder")


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        has_user = bool(parts.username or parts.password)
    except ValueError as error:
        raise ConfigError(f"the URL of segments is not valid: {error}") from None
    if "::" in url:
        raise ConfigError("the URL of segments must name one object store, without '::'")
    advice = "because it is stored with the run; set the environment variables that the object store's client reads"
    if has_user:
        raise ConfigError(f"the URL of segments must not contain a user or password, {advice}")
    if parts.query:
        raise ConfigError(f"the URL of segments must not contain a query, {advice}")
    if parts.scheme == "memory":
        raise ConfigError("the segments of a run must outlive it, and memory:// ends with the process")
    if not parts.netloc and not parts.path.strip("/"):
        raise ConfigError(f"{url} names no bucket; expected a URL such as s3://bucket/runs")


def has_upload_limit(url: str) -> bool:
    """Return True if UPLOAD_LIMIT_S holds for a URL: its client can be interrupted."""
    return not _is_path(url) and bool(_filesystem(url)[0].async_impl)


def put(path: Path, url: str, *, base: Path, limit_s: float = UPLOAD_LIMIT_S) -> None:
    """Copy a local file to a URL, replacing an existing file. Raises StorageError.

    A relative path starts at `base`. A local copy is synced to the disk. In an object store, the size of the object is
    compared with that of the file, because the file is deleted after the copy. `limit_s` holds as `has_upload_limit`
    says.
    """
    with storage_errors("write", url):
        if not _is_path(url):
            filesystem, place = _filesystem(url)
            limit = {"timeout": limit_s} if filesystem.async_impl else {}
            try:
                filesystem.put_file(str(path), place, **limit)
            except TimeoutError as error:
                raise StorageError(
                    f"cannot write {url}: {_shown(error) or f'not stored within {limit_s:g} s'}"
                ) from None
            filesystem.invalidate_cache()
            written, stored = path.stat().st_size, int(filesystem.info(place)["size"])
            if stored != written:
                raise StorageError(f"cannot write {url}: the object has {stored:,} bytes instead of {written:,}")
            return
        from shutil import copyfileobj  # noqa: PLC0415 - also loads three compressors, and few runs have segments

        target = _path(url, base)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("rb") as source, os.fdopen(_open_private(target), "wb") as copy:
            copyfileobj(source, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            sync(folder)
        finally:
            os.close(folder)


def open_stored(url: str, *, base: Path) -> tuple[BinaryIO, int]:
    """Open a file for reading at any offset; return it with its size. Raises StorageError."""
    with storage_errors("read", url):
        if _is_path(url):
            file = open_lines(_path(url, base), buffering=0)
            return file, os.fstat(file.fileno()).st_size
        filesystem, place = _filesystem(url)
        return filesystem.open(place, "rb"), int(filesystem.info(place)["size"])


def remove(url: str, *, base: Path) -> None:
    """Delete a file; do nothing if there is none. Raises StorageError."""
    with storage_errors("delete", url):
        if _is_path(url):
            _path(url, base).unlink(missing_ok=True)
            return
        filesystem, place = _filesystem(url)
        if filesystem.exists(place):
            filesystem.rm_file(place)


def names_in(url: str, *, base: Path) -> list[str]:
    """Return the names of the files in a folder, none for a missing one. Raises StorageError."""
    with storage_errors("list", url):
        if _is_path(url):
            folder = _path(url, base)
            return sorted(entry.name for entry in os.scandir(folder) if entry.is_file()) if folder.exists() else []
        filesystem, place = _filesystem(url)
        filesystem.invalidate_cache()
        found = filesystem.ls(place, detail=False) if filesystem.exists(place) else []
        return sorted(str(each).rpartition("/")[2] for each in found)


def remove_folder(url: str, *, base: Path) -> None:
    """Delete a folder if it is empty. An object store has no folders."""
    if _is_path(url):
        with suppress(OSError):
            _path(url, base).rmdir()


def joined(url: str, name: str) -> str:
    """Return the URL of a file in a folder."""
    return f"{url.rstrip('/')}/{name}"


def stored_form(url: str, *, base: Path) -> str:
    """Return a URL for storing in `base`: a path relative to the working directory becomes relative to `base`.

    The stored path stays valid when `base` and the files are moved together.
    """
    if not is_relative(url):
        return url
    return os.path.relpath(Path(_without_scheme(url)).resolve(), base.resolve())


def is_relative(url: str) -> bool:
    """Return True for a path that depends on the working directory."""
    return _is_path(url) and not Path(_without_scheme(url)).is_absolute()


def absolute_form(url: str, *, base: Path) -> str:
    """Return a URL that is valid in every working directory: a path relative to `base` becomes absolute."""
    return os.path.normpath(_path(url, base.resolve())) if _is_path(url) else url


def _is_path(url: str) -> bool:
    return "://" not in url or url.startswith(_FILE_SCHEME)


def _without_scheme(url: str) -> str:
    return url.removeprefix(_FILE_SCHEME)


def _path(url: str, base: Path) -> Path:
    return base / _without_scheme(url)


def _open_private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def _filesystem(url: str) -> tuple[Any, str]:
    """Return fsspec's filesystem for a URL, and the path in it. Raises ConfigError if a package is missing."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an optional dependency, 0.1 s

        found: tuple[Any, str] = url_to_fs(url)
    except ImportError as error:
        client = "" if error.name == "fsspec" else f" ({_shown(error)})"
        raise ConfigError(
            f"{url} needs a package that is not installed{client}; install agentv[segments], which has fsspec, and "
            "the client of the object store, such as s3fs for s3://"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{url}: {_shown(error)}") from None
    except Exception as error:  # noqa: BLE001 - any, such as TypeError for options that a URL cannot have
        raise ConfigError(f"{url}: {type(error).__name__}: {_shown(error)}") from None
    return found


def _shown(error: Exception) -> str:
    """Return the message of a client's error, which may quote a signed URL or a header, without keys."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return redact_message(text, os.environ)


@contextmanager
def storage_errors(verb: str, url: str) -> Iterator[None]:
    """Turn exceptions of an object store's client, which may be of any kind, into a StorageError without keys."""
    try:
        yield
    except (StorageError, ConfigError):
        raise
    except FileNotFoundError:
        missing = "folder or bucket" if verb == "write" else "file"
        raise StorageError(f"cannot {verb} {url}: there is no such {missing}") from None
    except OSError as error:
        raise StorageError(f"cannot {verb} {url}: {_shown(error)}") from None
    except Exception as error:  # noqa: BLE001 - the errors of clients are of any kind
        raise StorageError(f"cannot {verb} {url}: {type(error).__name__}: {_shown(error)}") from None
