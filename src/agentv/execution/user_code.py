"""Find, import and safely call user code."""

import asyncio
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CoroutineType, GeneratorType, ModuleType
from typing import Any, Optional, TypeAlias

import msgspec

from agentv.execution.threads import AbandonedError, abandon, call_in_thread
from agentv.types.errors import PluginError, nearest

CLEANUP_S = 10.0
"""Seconds for which a cancelled coroutine may go on. Ending a command and its children takes up to five."""


class DeadlineError(TimeoutError):
    """The code did not return in time. A TimeoutError raised by the code itself is passed on unchanged."""


_STRAY = "the code cancelled itself (a CancelledError without a cancellation by agentv)"


class StrayCancelError(RuntimeError):
    """The code raised CancelledError without being cancelled; passed on, it would end a worker silently."""


class Deadline(msgspec.Struct, eq=False):
    """The deadline of a call. Time spent in `off_the_clock` does not count.

    No timer can end a coroutine that never suspends.
    """

    _loop: asyncio.AbstractEventLoop
    _ends_at: float | None
    outer: Optional["Deadline"]
    """The deadline of the enclosing call."""
    _pauses: int = 0
    _left_s: float | None = None
    timer: asyncio.Timeout | None = None
    is_over: bool = False
    """True when the call has ended: a task it left running can no longer change the deadline."""
    task: asyncio.Task[Any] | None = None
    offence: str | None = None
    """What the code did that only agentv may do."""

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
        if self.outer is not None:
            self.outer.pause()

    def resume(self) -> None:
        """End one pause; the clock runs again after the last one."""
        self._pauses -= 1
        if self._pauses == 0 and self._left_s is not None and self._may_change():
            self._end_at(self._loop.time() + self._left_s)
        if self.outer is not None:
            self.outer.resume()

    def _end_at(self, ends_at: float | None) -> None:
        self._ends_at = ends_at
        if self.timer is not None:
            self.timer.reschedule(ends_at)

    def _may_change(self) -> bool:
        is_ours = asyncio.get_running_loop() is self._loop  # a thread with a loop of its own inherits the context
        return is_ours and not self.is_over and not (self.timer is not None and self.timer.expired())


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def user_call() -> Deadline | None:
    """Return the outermost call of user code that this code belongs to, also in tasks that it started; else None."""
    call = _current.get()
    while call is not None and call.outer is not None:
        call = call.outer
    return call


def end_user_code(offence: str) -> bool:
    """Cancel the coroutine of user code that calls this; its error is `offence`. Return False outside of user code."""
    deadline = _current.get()
    if deadline is None:
        return False
    if deadline.task is not None and not deadline.is_over:
        deadline.offence = offence
        deadline.task.cancel()
    return True


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
    """Call `function` and return its result, awaited in a task of its own if it is awaitable.

    A plain function runs in a thread, which is abandoned at the deadline; so is a coroutine that goes on for
    `CLEANUP_S` after its cancellation. `inline` is for functions that return at once. Raises DeadlineError after
    `timeout_s` (None: only the deadlines of enclosing calls apply), StrayCancelError, and any exception of the code.
    """
    try:
        if inline or inspect.iscoroutinefunction(function):
            output = function(*args)
        else:
            output = await call_in_thread(function, *args, timeout_s=timeout_s)
        if not _is_awaitable(output):
            return output
        return await _in_own_task(output, timeout_s)
    except AbandonedError as error:
        raise DeadlineError(f"did not return within {timeout_s:g} s") from error
    except asyncio.CancelledError as error:
        check_stray_cancel(error)
        raise


async def call_own_code(function: Callable[..., Awaitable[Any]], *args: object, timeout_s: float) -> Any:
    """Call a coroutine function of agentv and return its result, in the task of the caller.

    Raises DeadlineError after `timeout_s`, whatever the function then does, and any exception of the function. If it
    fails while it is cancelled, the cancellation is raised.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    cancellations = 0 if task is None else task.cancelling()
    deadline = Deadline(loop, loop.time() + timeout_s, _current.get())
    timer, token = deadline.watch(), _current.set(deadline)
    try:
        async with timer:
            returned = await function(*args)
    except BaseException as error:
        if timer.expired():
            raise DeadlineError(f"did not return within {timeout_s:g} s") from error
        if isinstance(error, asyncio.CancelledError):
            check_stray_cancel(error)
        elif task is not None and task.cancelling() > cancellations:
            raise asyncio.CancelledError from error
        raise
    finally:
        deadline.is_over = True
        _current.reset(token)
    if timer.expired():  # it went on after its cancellation
        raise DeadlineError(f"did not return within {timeout_s:g} s")
    return returned


def is_own_code(function: object) -> bool:
    """Return True for a method of an object whose class is a part of agentv."""
    return type(getattr(function, "__self__", None)).__module__.startswith("agentv.")


def check_stray_cancel(error: asyncio.CancelledError) -> None:
    """Raise StrayCancelError unless the current task, in which `error` was raised, was cancelled."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        raise StrayCancelError(_STRAY) from error


def _is_awaitable(output: object) -> bool:
    """Return True if a value is awaitable; faster than `inspect.isawaitable` alone for most return values."""
    if isinstance(output, CoroutineType):
        return True
    return (hasattr(output, "__await__") or isinstance(output, GeneratorType)) and inspect.isawaitable(output)


async def _in_own_task(awaitable: Awaitable[Any], timeout_s: float | None) -> Any:
    """Await user code in a task of its own: what it does to its task, such as cancelling it, ends there."""
    loop = asyncio.get_running_loop()
    deadline = Deadline(loop, None if timeout_s is None else loop.time() + timeout_s, _current.get())
    outcome: asyncio.Future[_Outcome] = loop.create_future()
    task = deadline.task = loop.create_task(_contained(awaitable, outcome, deadline))
    value: Any = None
    try:
        async with deadline.watch():
            value, error = await outcome
    except TimeoutError:
        error = DeadlineError(f"did not return within {timeout_s:g} s")
        error.__cause__ = await _ended(task)
    except asyncio.CancelledError as cancelled:
        ended = await _ended(task)
        # The error of the code may have the partial answer.
        error = ended if isinstance(ended, asyncio.CancelledError) else cancelled
        del ended
    finally:
        deadline.is_over, deadline.task = True, None  # the task refers to the deadline
    if deadline.offence is not None and not isinstance(error, DeadlineError | asyncio.CancelledError):
        raise RuntimeError(deadline.offence)
    if error is None:
        return value
    try:
        raise error
    finally:
        del error, task, outcome  # the traceback of the error refers to this frame


_Outcome: TypeAlias = tuple[Any, BaseException | None]


async def _contained(
    awaitable: Awaitable[Any], outcome: asyncio.Future[_Outcome], deadline: Deadline
) -> BaseException | None:
    """Set the outcome of user code: its result or exception. Return the exception instead of raising it."""
    _current.set(deadline)  # for this task alone, which is not one of the user's
    value: Any = None
    error: BaseException | None = None
    try:
        value = await awaitable
    except (Exception, SystemExit, asyncio.CancelledError) as raised:  # noqa: BLE001 - the caller handles every exception
        error = raised
    task = asyncio.current_task()
    if error is None and task is not None and task.cancelling():
        try:
            await asyncio.sleep(0)  # raises if the code cancelled its task and returned before that took effect
        except asyncio.CancelledError as raised:
            error = raised
    if not outcome.done():  # agentv has not cancelled this task
        is_stray = isinstance(error, asyncio.CancelledError)
        outcome.set_result((value, StrayCancelError(_STRAY) if is_stray else error))
    try:
        return error
    finally:
        del error, task, outcome  # the traceback of the error refers to this frame


async def _ended(task: asyncio.Task[BaseException | None]) -> BaseException | None:
    """Cancel a task, and return the exception of its code; a task that does not end in time is abandoned."""
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=CLEANUP_S)
    finally:  # also if the deadline of an enclosing call ends the wait
        if not task.done():
            abandon(task)
    return task.result() if task.done() and not task.cancelled() else None


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
        return _load_file(_existing(name, folder)) if name.endswith(".py") else _import_module(name, folder)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything on import
        raise PluginError(f"cannot load {name!r}: {described(error)}{_advice(error)}") from error


def _advice(error: BaseException) -> str:
    """Return where to install a package that is missing, as the end of a message; empty for other errors."""
    missing = isinstance(error, ModuleNotFoundError)
    return f"; packages must be installed for {sys.executable}, which runs agentv" if missing else ""


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


def _existing(name: str, folder: Path) -> Path:
    """Return the path of a file of `folder`. Raises PluginError, which names a file of that name further up."""
    path = (folder / name).resolve()
    if path.is_file():
        return path
    further_up = (f"{'../' * level}{name}" for level in (1, 2) if (folder / ("../" * level) / name).is_file())
    found = next(further_up, None)
    raise PluginError(f"there is no file {path}" + (f"; write {found}, relative to {folder}" if found else ""))


def _load_file(path: Path) -> ModuleType:
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
