"""The program blankout in a process beside this one, which learns and predicts: frames over pipes.

docs/http.md describes the frames. One process serves all learners of this one; it ends when this one does.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from .errors import KINDS, ProgramError, RefusedEvent

LEARN, ANSWER, LABELS, WEIGHTS, SCORES, UNSEEN, CHOICE = 1, 2, 4, 8, 16, 32, 64  # flags of frames
PROTOCOL = 1
_HEAD, _ANSWER = struct.Struct("<cBHIQ"), struct.Struct("<IIQ")
MOST = 1 << 16  # learners of a process


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


class Process:
    """One process of the program. It may be asked by several threads."""

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
        self._write = self._process.stdin.fileno()
        self._read = open(self._process.stdout.fileno(), "rb", 1 << 16, closefd=False)
        self._free = collections.deque(range(MOST))
        # Numbers of learners that nobody has any more; the garbage collector appends to it at any moment.
        self._let_go: collections.deque[int] = collections.deque()
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

        Raises:
            RefusedEvent: an event cannot be used.
            ProgramError: the program has ended, or failed.
        """
        with self._lock:
            while self._let_go:
                number = self._let_go.popleft()
                self._exchange(b"x", number, 0, 0, ())
                self._free.append(number)
            status, width, data = self._exchange(operation, learner, flags, events, parts)
        if status == 0:
            return Reply(width, data)
        said = json.loads(data)
        if status == 1:
            raise RefusedEvent(said["reason"], said["detail"], said["row"])
        raise KINDS.get(said["kind"], ProgramError)(said["text"].removeprefix("settings: ").replace("--set ", ""))

    def _exchange(self, operation: bytes, learner: int, flags: int, events: int, parts: Sequence[Any]) -> tuple[int, int, bytes]:
        views = [p if isinstance(p, bytes) else memoryview(p).cast("B") if p.size > 0 else b"" for p in parts]
        size = sum(len(v) for v in views)
        head = _HEAD.pack(operation, flags, learner, events, size)
        try:
            if size < 1 << 16:
                self._send(b"".join([head, *views]))
            else:
                for part in (head, *views):
                    self._send(part)
            status, width, size = _ANSWER.unpack(self._read.read(16))
            data = self._read.read(size)
            if len(data) < size:
                raise EOFError
            return status, width, data
        except (BrokenPipeError, struct.error, EOFError):
            code = self._process.wait()
            self._said.seek(0)
            said = self._said.read()[-2000:].decode("utf-8", "replace").strip()
            raise ProgramError(f"{self.path} ended with the exit code {code}, and with it what its learners had learned and not saved: {said}") from None

    def _send(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._write, rest) :]

    @property
    def alive(self) -> bool:
        """Whether the process runs and is one of this process, not of the one that it was forked from."""
        return self.pid == os.getpid() and self._process.poll() is None

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

    def __init__(self, width: int, data: bytes):
        self.width, self.data = width, data

    def json(self) -> Any:
        return json.loads(self.data)

    def rows(self) -> np.ndarray:
        """Return the numbers, shape (events, width)."""
        return np.frombuffer(self.data, "<f8").reshape(-1, max(self.width, 1))


_processes: dict[str, Process] = {}
_starting = threading.Lock()


def process(given: str | os.PathLike[str] | None = None) -> Process:
    """Return the process of a program, which is started if there is none."""
    path = find(given)
    with _starting:
        found = _processes.get(path)
        if found is None or not found.alive:
            found = _processes[path] = Process(path)
        return found


def forget() -> None:
    """Forget the processes, which are those of the process that this one was forked from."""
    global _starting
    _processes.clear()
    _starting = threading.Lock()
