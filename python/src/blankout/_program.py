"""The program blankout in a process beside this one, which learns and predicts: frames over pipes.

docs/http.md describes the frames. One process serves all learners of this one; it ends when this one does.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from _signal import getsignal, signal as set_handler  # those of signal look up names, which takes longer than an event
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from .errors import KINDS, ProgramError, RefusedEvent

LEARN, ANSWER, LABELS, WEIGHTS, SCORES, UNSEEN, CHOICE, KEYS = 1, 2, 4, 8, 16, 32, 64, 128  # flags of frames
PROTOCOL = 2
_HEAD, _ANSWER = struct.Struct("<cBHIII"), struct.Struct("<IIII")
MOST = 1 << 16  # learners of a process
SMALL = 1 << 16  # bytes of a frame that goes in one piece
_LOST = "and with it what its learners had learned and not saved"


def find(given: str | os.PathLike[str] | None = None) -> str:
    """Return the path of the program: the one given, $BLANKOUT, the one that was installed with this package, or the one on PATH."""
    if path := given or os.environ.get("BLANKOUT"):
        return os.fspath(path)
    name = "blankout" + (sysconfig.get_config_var("EXE") or "")
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))]
    for folder in schemes:
        if (path := Path(folder) / name).is_file():
            return os.fspath(path)
    if on_path := shutil.which("blankout"):
        return on_path
    raise ProgramError("the program blankout is not installed with this package nor on PATH: give its path in $BLANKOUT")


_FAULTS = ("SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGSTOP", "SIGSYS")
_SIGNALS = [int(s) for s in sorted(signal.valid_signals()) if s < 32 and getattr(s, "name", "") not in _FAULTS]


class _Hold:
    """Holds signals back while a request is under way: their handlers may raise, or ask a learner themselves.

    Python runs handlers in its main thread, so there is nothing to hold in another one. Each request has one of its own,
    because a handler that runs before or behind it makes requests.
    """

    __slots__ = ("handlers", "came")

    def __init__(self, wanted: bool) -> None:
        self.handlers: list[tuple[int, Any]] = []
        self.came: list[int] = []
        if not wanted or threading.get_ident() != threading.main_thread().ident:
            return
        try:
            for number in _SIGNALS:
                handler = getsignal(number)
                if callable(handler):
                    self.handlers.append((number, handler))
                    set_handler(number, self.keep)
        except BaseException:
            self.release()
            raise

    def keep(self, number: int, _: Any) -> None:
        if number not in self.came:
            self.came.append(number)

    def release(self) -> None:
        """Restore the handlers, and have those run whose signals came."""
        raised = None
        while self.handlers:
            try:
                while self.handlers:
                    set_handler(*self.handlers[-1])
                    self.handlers.pop()
            except BaseException as e:  # of a handler that is back
                raised = e
        if self.came or raised:
            _deliver(self.came, raised)


def _deliver(came: list[int], raised: BaseException | None) -> None:
    """Have the handlers of signals run, each even if one before it raises."""
    if came:
        try:
            signal.raise_signal(came.pop())
        finally:
            _deliver(came, raised)
    elif raised:
        raise raised


class Process:
    """One process of the program. It may be asked by several threads, one at a time."""

    def __init__(self, path: str):
        self.path, self.pid = path, os.getpid()
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile()
        # Of a session of its own, so that an interrupt from the keyboard leaves it to this process to end it.
        own: dict[str, Any] = {"creationflags": 0x200} if sys.platform == "win32" else {"start_new_session": True}
        try:
            self._process = subprocess.Popen([path, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, bufsize=0, **own)
        except FileNotFoundError:
            raise ProgramError(f"{path}: there is no such program") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        weakref.finalize(self, _end, self._process, self.pid)
        self._write: Any = self._process.stdin.write
        self._read: Any = self._process.stdout.readinto  # type: ignore[attr-defined]
        self._asked = self._answered = 0  # numbers of the latest request, and of the latest that was answered
        self._gone = ""  # why it cannot be asked any more
        self.holds = True  # signals wait for answers
        self._answer = bytearray(SMALL)
        self._free = collections.deque(range(MOST))
        # Numbers of learners that nobody has any more; the garbage collector appends to it at any moment.
        self._let_go: collections.deque[int] = collections.deque()
        _all.add(self)
        hello = json.loads(self.ask(b"h", 0).data)
        if hello["protocol"] != PROTOCOL:
            raise ProgramError(f"{path} is of version {hello['version']}, which this package does not go with: install both of one version")

    def number(self) -> int:
        """Return a number for a learner."""
        try:
            return self._free.popleft()
        except IndexError:
            raise ProgramError(f"{MOST} learners in one process: let go of some") from None

    def let_go(self, number: int) -> None:
        """Have the program close a learner, before the next question."""
        self._let_go.append(number)

    def ask(self, operation: bytes, learner: int, *parts: Any, flags: int = 0, events: int = 0) -> "Reply":
        """Send a request of these parts, which are bytes or arrays, and return the answer.

        Signals wait for the answer. What interrupts the request nevertheless ends the program: half an answer would be
        the next one's.

        Raises:
            RefusedEvent: an event cannot be used.
            ProgramError: the program has ended, or failed.
        """
        views = [p if isinstance(p, bytes) else memoryview(p).cast("B") if p.size > 0 else b"" for p in parts]
        size = sum(map(len, views))
        if max(size, events) >= 1 << 32:
            raise ValueError(f"{events} events of {size} bytes: the most in one call are 4 GiB, give them in parts")
        return Reply(*self._ask(operation, learner, flags, events, b"".join(views) if size < SMALL else views))

    def row(self, learner: int, flags: int, row: bytes) -> tuple[float, ...]:
        """Learn or predict one row, and return the numbers of the answer; see ask."""
        width, data = self._ask(b"R", learner, flags, 1, row)
        return struct.unpack(f"<{width}d", data) if data else ()

    def _ask(self, operation: bytes, learner: int, flags: int, events: int, body: bytes | list[Any]) -> tuple[int, bytes | bytearray]:
        hold = _Hold(self.holds)
        try:
            with self._lock:
                while self._let_go:
                    number = self._let_go.popleft()
                    self._exchange(b"x", number, 0, 0, b"")
                    self._free.append(number)
                status, width, data = self._exchange(operation, learner, flags, events, body)
        finally:
            hold.release()
        if status == 0:
            return width, data
        said = json.loads(data)
        if status == 1:
            raise RefusedEvent(said["reason"], said["detail"], said["row"])
        raise KINDS.get(said["kind"], ProgramError)(said["text"].removeprefix("settings: ").replace("--set ", ""))

    def _exchange(self, operation: bytes, learner: int, flags: int, events: int, body: bytes | list[Any]) -> tuple[int, int, bytes | bytearray]:
        """Send a request, whose payload is in parts if it is large, and return status, width and payload of the answer."""
        if self._gone or self._asked != self._answered:
            if not self._gone:
                self._lose(None)
            raise ProgramError(self._gone)
        self._asked = number = (self._asked + 1) & 0xFFFFFFFF
        try:
            if isinstance(body, bytes):
                self._send(_HEAD.pack(operation, flags, learner, events, number, len(body)) + body)
            else:
                for part in (_HEAD.pack(operation, flags, learner, events, number, sum(map(len, body))), *body):
                    self._send(part)
            answer = self._receive(number)
            self._answered = number
            return answer
        except (BrokenPipeError, EOFError):
            code = self._process.wait()
            self._said.seek(0)
            said = self._said.read()[-2000:].decode("utf-8", "replace").strip()
            self._gone = f"{self.path} ended with the exit code {code}, {_LOST}: {said}"
            raise ProgramError(self._gone) from None
        except BaseException as e:
            self._lose(e)
            e.add_note(self._gone)
            raise

    def _send(self, data: Any) -> None:
        sent = self._write(data)
        if sent < len(data):
            rest = memoryview(data)[sent:]
            while rest:
                rest = rest[self._write(rest) :]

    def _receive(self, number: int) -> tuple[int, int, bytes | bytearray]:
        """Return status, width and payload of the answer to a request."""
        answer = self._answer
        have = self._read(answer)
        while 0 < have < _ANSWER.size and (more := self._read(memoryview(answer)[have:])):
            have += more
        if have < _ANSWER.size:
            raise EOFError
        status, width, of, size = _ANSWER.unpack_from(answer)
        end = _ANSWER.size + size
        if of != number or have > end:
            raise ProgramError(f"an answer to request {of} of {size} bytes, where one to request {number} should be")
        if have == end:
            return status, width, answer[_ANSWER.size : end]
        data = bytearray(size)
        data[: have - _ANSWER.size] = answer[_ANSWER.size : have]
        rest = memoryview(data)[have - _ANSWER.size :]
        while rest:
            if not (more := self._read(rest)):
                raise EOFError
            rest = rest[more:]
        return status, width, data

    def _lose(self, why: BaseException | None) -> None:
        """End the program in the midst of a request."""
        self._gone = f"{self.path} was ended, because {type(why).__name__ if why else 'an exception'} interrupted a request, {_LOST}"
        self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether the process runs and can be asked."""
        return not self._gone and self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        _end(self._process, self.pid)


def _end(process: subprocess.Popen[bytes], pid: int) -> None:
    """End a process of the program, unless it is that of the process that this one was forked from."""
    if pid == os.getpid() and process.stdin is not None:
        process.stdin.close()
        process.wait()


class Reply:
    """An answer: JSON or a file as data, or numbers, width of them for each event."""

    __slots__ = ("width", "data")

    def __init__(self, width: int, data: bytes | bytearray):
        self.width, self.data = width, data

    def json(self) -> Any:
        return json.loads(self.data)

    def rows(self) -> np.ndarray:
        """Return the numbers, shape (events, width)."""
        return np.frombuffer(self.data, "<f8").reshape(-1, max(self.width, 1))


_processes: dict[str, Process] = {}
_all: weakref.WeakSet[Process] = weakref.WeakSet()
starting = threading.RLock()  # one process, or learner in it, at a time


def process(given: str | os.PathLike[str] | None = None) -> Process:
    """Return the process of a program, which is started if there is none."""
    path = find(given)
    with starting:
        found = _processes.get(path)
        if found is None or not found.alive:
            found = _processes[path] = Process(path)
        return found


def forget() -> None:
    """Forget the processes, which are those of the process that this one was forked from."""
    global starting
    for each in _all:
        each._gone = f"the process {each.path} is that of the process that this one was forked from"
    _processes.clear()
    starting = threading.RLock()
