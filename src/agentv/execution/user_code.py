"""Find, import and safely call user code."""

import asyncio
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CoroutineType, GeneratorType, ModuleType, coroutine
from typing import Any, Optional

import msgspec

from agentv.execution.threads import AbandonedError, call_in_thread
from agentv.types.errors import PluginError, nearest


class DeadlineError(TimeoutError):
    """The code did not return in time. A TimeoutError raised by the code itself is passed on unchanged."""


class StrayCancelError(RuntimeError):
    """The code raised CancelledError without being cancelled; passed on, it would end a worker silently."""


class Deadline(msgspec.Struct, eq=False):
    """The deadline of a call. Time spent in `off_the_clock` does not count.

    `watch` makes the timer when the coroutine is first suspended: no timer can end a coroutine that never suspends.
    """

    _loop: asyncio.AbstractEventLoop
    _ends_at: float | None
    _outer: Optional["Deadline"]
    _pauses: int = 0
    _left_s: float | None = None
    timer: asyncio.Timeout | None = None
    is_over: bool = False
    """True when the call has ended: a task it left running can no longer change the deadline."""

    def watch(self) -> asyncio.Timeout:
        """Make and return the timer, which the caller enters."""
        self.timer = asyncio.timeout_at(self._ends_at)
        return self.timer

    def pause(self) -> None:
        """Stop the clock of this call and of every enclosing call; pauses may be nested."""
        self._pauses += 1
        if self._pauses == 1 and self._ends_at is not None and self._may_change():
            self._left_s = self._ends_at - self._loop.time()
            self._end_at(None)
        if self._outer is not None:
            self._outer.pause()

    def resume(self) -> None:
        """End one pause; the clock runs again after the last one."""
        self._pauses -= 1
        if self._pauses == 0 and self._left_s is not None and self._may_change():
            self._end_at(self._loop.time() + self._left_s)
        if self._outer is not None:
            self._outer.resume()

    def _end_at(self, ends_at: float | None) -> None:
        self._ends_at = ends_at
        if self.timer is not None:
            self.timer.reschedule(ends_at)

    def _may_change(self) -> bool:
        is_ours = asyncio.get_running_loop() is self._loop  # a thread with a loop of its own inherits the context
        return is_ours and not self.is_over and not (self.timer is not None and self.timer.expired())


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Exclude the time spent in this block, such as a wait for a permit, from the deadlines of all enclosing calls."""
    deadline = _current.get()
    if deadline is None:
        yield
        return
    deadline.pause()
    try:
        yield
    finally:
        deadline.resume()


async def call_user_code(
    function: Callable[..., Any], *args: object, timeout_s: float | None, inline: bool = False
) -> Any:
    """Call `function` and return its result, awaited if it is awaitable.

    A plain function runs in a thread, which is abandoned at the deadline; `inline` is for functions that return at
    once. Raises DeadlineError after `timeout_s` (None: only the deadlines of enclosing calls apply), StrayCancelError,
    and any exception of the code.
    """
    try:
        if inline or inspect.iscoroutinefunction(function):
            output = function(*args)
        else:
            output = await call_in_thread(function, *args, timeout_s=timeout_s)
        if not _is_awaitable(output):
            return output
        if timeout_s is None:
            return await output
        loop = asyncio.get_running_loop()
        deadline = Deadline(loop, loop.time() + timeout_s, _current.get())
        token = _current.set(deadline)
        try:
            steps = output.__await__()
            try:
                waits_for = next(steps)
            except StopIteration as stop:
                return stop.value
            return await _watched(deadline, _resumed(steps, waits_for), timeout_s)
        finally:
            deadline.is_over = True
            _current.reset(token)
    except AbandonedError as error:
        raise DeadlineError(f"did not return within {timeout_s:g} s") from error
    except asyncio.CancelledError as error:
        check_stray_cancel(error)
        raise


def check_stray_cancel(error: asyncio.CancelledError) -> None:
    """Raise StrayCancelError unless the current task, in which `error` was raised, was cancelled."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        raise StrayCancelError("the code cancelled itself (it raised CancelledError)") from error


def _is_awaitable(output: object) -> bool:
    """Return True if a value is awaitable; faster than `inspect.isawaitable` alone for most return values."""
    if isinstance(output, CoroutineType):
        return True
    return (hasattr(output, "__await__") or isinstance(output, GeneratorType)) and inspect.isawaitable(output)


async def _watched(deadline: Deadline, rest: Awaitable[Any], timeout_s: float) -> Any:
    timer = deadline.watch()
    try:
        async with timer:
            return await rest
    except TimeoutError as error:
        if timer.expired():
            raise DeadlineError(f"did not return within {timeout_s:g} s") from error
        raise


@coroutine
def _resumed(steps: Generator[Any, Any, Any], waits_for: object) -> Generator[Any, Any, Any]:
    """Continue a coroutine whose first step awaits `waits_for`."""
    try:
        yield waits_for
    except BaseException as error:  # noqa: BLE001 - the coroutine handles every exception
        try:
            waits_for = steps.throw(error)
        except StopIteration as stop:
            return stop.value
        return (yield from _resumed(steps, waits_for))
    return (yield from steps)


def load_callable(reference: str, base_dir: str | Path) -> Callable[..., Any]:
    """Return the function that `reference` names. Raises PluginError like `load_object`, and if it is not callable."""
    found = load_object(reference, base_dir)
    if not callable(found):
        raise PluginError(f"cannot load {reference!r}: it is a {type(found).__name__}, not a function")
    return found


def load_object(reference: str, base_dir: str | Path) -> object:
    """Return the object that `reference` names; it may be an attribute, such as `package.module:Class.method`.

    A path or a package is searched from `base_dir`. For a package, `base_dir` is appended to `sys.path`; for a file,
    the folder that contains it. A file is executed once. Raises PluginError that names what is missing or what the
    module's own code raised.
    """
    module_name, _, name = reference.rpartition(":")
    if not module_name or not name:
        raise PluginError(
            f"{reference!r} does not name a function; write package.module:function or path/to/file.py:function"
        )
    module = load_module(module_name, base_dir)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = nearest(part, [known for known in vars(module) if not known.startswith("_")])
            hint = f" Did you mean {near!r}?" if near else ""
            raise PluginError(f"cannot load {reference!r}: {module_name} has no {part!r}.{hint}")
        found = getattr(found, part)
    return found


def load_module(name: str, base_dir: str | Path) -> ModuleType:
    """Import `package.module` or `path/to/file.py`, searched from `base_dir`; a file is executed once.

    Raises PluginError that names what is missing or what the module's own code raised.
    """
    folder = Path(base_dir).resolve()
    try:
        return _load_file(folder / name) if name.endswith(".py") else _import_module(name, folder)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything on import
        raise PluginError(f"cannot load {name!r}: {described(error)}") from error


def described(error: BaseException) -> str:
    """Return an exception as a message: its class, its text and the line that raised it.

    An ExceptionGroup is described by its first cause, since its own text only counts its exceptions.
    """
    causes = _causes(error)
    others = f" (the first of {len(causes)} exceptions)" if len(causes) > 1 else ""
    return f"{type(causes[0]).__name__}: {causes[0]}{others}{raised_at(causes[0])}"


def _causes(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [cause for inner in error.exceptions for cause in _causes(inner)]


def raised_at(error: BaseException) -> str:
    """Return the innermost line of code where `error` was raised, as the end of a message: ` (path:line)`."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _import_module(name: str, folder: Path) -> ModuleType:
    _add_to_sys_path(folder)
    return importlib.import_module(name)


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise PluginError(f"there is no file {path}")
    name = f"_agentv_file_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported as Python")
    _add_to_sys_path(path.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _add_to_sys_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
