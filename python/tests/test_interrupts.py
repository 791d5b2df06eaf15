"""Whatever interrupts a request, no answer is that of another one, and what was learned stays or is said to be lost."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import jupyter_client
import numpy as np
import pytest

import blankout

# Learners, and what they answer to many different events.
BEGIN = """
import os, random, signal, sys, threading, time
import numpy as np, blankout

r = np.random.default_rng(0)
x = r.normal(size=(20_000, 5))
y = x @ [1, 2, 3, 4, 5] + 100
numbers, classes = blankout.Learner(loss="squared"), blankout.Learner()
numbers.partial_fit(x, y)
classes.partial_fit(x, y > 100)
process = numbers._remote.process
events = [dict(zip("x0 x1 x2 x3 x4".split(), row)) for row in x[:50].tolist()]
want = numbers.predict(x)
ones = [numbers.predict_one(event) for event in events]
chances = [classes.predict_proba_one(event)[True] for event in events]
learned = blankout.Learner()

def ask(step):
    kind, i = step % 4, step % 50
    if kind == 0:
        assert numbers.predict_one(events[i]) == ones[i]
    elif kind == 1:
        assert classes.predict_proba_one(events[i])[True] == chances[i]
    elif kind == 2:
        assert (numbers.predict(x[: 1 + step % 20_000]) == want[: 1 + step % 20_000]).all()
    else:
        learned.learn_one(events[i], i % 3)

def check():
    for step in range(8):
        ask(step)
    assert numbers._remote.process is process and process.alive
"""


def script(text: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEGIN + text, *args], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def on_path(binary, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))


def test_the_keyboard_and_alarms():
    """Handlers that raise run when the answer is there, whichever signals they are of and however fast they come."""
    out = script("""
class Late(Exception):
    pass

armed, came = False, dict.fromkeys([KeyboardInterrupt, Late], 0)

def late(number, _):
    global armed
    if armed:
        armed = False
        error = KeyboardInterrupt if number == signal.SIGINT else Late
        came[error] += 1
        raise error

signals = [signal.SIGINT, signal.SIGALRM, signal.SIGUSR1]
for each in signals:
    signal.signal(each, late)
end = threading.Event()

def interrupt():
    while not end.wait(random.uniform(0, 0.02)):
        os.kill(os.getpid(), random.choice([signal.SIGINT, signal.SIGUSR1]))

thread = threading.Thread(target=interrupt)
thread.start()
step = 0
while sum(came.values()) < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 0.01))
        while True:
            armed = True
            step += 1
            ask(step)
    except (KeyboardInterrupt, Late):
        pass
end.set()
thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
assert all(signal.getsignal(each) is late for each in signals)
check()
print(came, step)
""")
    assert "KeyboardInterrupt" in out and "Late" in out


def test_a_handler_asks_the_learner(tmp_path):
    """A handler that saves a learner, as of SIGTERM, finds it between two requests."""
    out = script("""
saved = []

def save(*_):
    learned.save(sys.argv[1])
    saved.append(blankout.Learner.load(sys.argv[1])._remote.inspect()["events"])

signal.signal(signal.SIGALRM, save)
for step in range(3000):
    if step % 100 == 0:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 2e-3))
    learned.learn_one(events[step % 50], step % 3)
signal.setitimer(signal.ITIMER_REAL, 0)
assert saved == sorted(saved) and learned._remote.inspect()["events"] == 3000
print(len(saved))
""", str(tmp_path / "saved"))
    assert int(out) > 3


def test_what_no_handler_raises():
    """An exception that another thread raises in the midst of a request ends the program, and that is said from then on."""
    learner, other = blankout.Learner(), blankout.Learner()
    x = np.random.default_rng(0).normal(size=(200_000, 5))
    y = x[:, 0] > 0
    other.learn_many(x[:100], y[:100])
    caught: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                learner.learn_many(x, y)
        except ZeroDivisionError as e:
            caught.append(e)

    process = other._remote.process
    while process.alive:  # it may hit between two requests
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.3)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(ZeroDivisionError)) == 1
        thread.join(60)
        assert not thread.is_alive()
    assert "what its learners had learned" in caught[-1].__notes__[0]
    for each in (learner, other, learner):
        with pytest.raises(blankout.ProgramError, match="was ended, because ZeroDivisionError interrupted a request, and with it what its learners"):
            each.predict(x[:1])
    assert blankout.Learner().partial_fit(x[:100], y[:100]).score(x[:100], y[:100]) > 0.5


def test_an_answer_to_another_request():
    """An answer that is not numbered as its request is not taken."""
    learner = blankout.Learner().partial_fit(np.eye(3), [1, 2, 3])
    process = learner._remote.process
    process._write(blankout._program._HEAD.pack(b"i", 0, learner._remote.number, 0, 77, 0))  # whose answer nobody reads
    with pytest.raises(blankout.ProgramError, match="an answer to request 77"):
        learner.predict(np.eye(3))
    assert not process.alive


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_does_not_ask_its_parents_program():
    script("""
asked = process.ask
pid = os.fork()
if pid == 0:
    try:
        asked(b"i", numbers._remote.number)
    except blankout.ProgramError as e:
        os._exit(0 if "forked" in str(e) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
check()
""")


def test_a_server_that_does_not_answer():
    """Opening a model at an address can be interrupted, and costs no learner anything."""
    script("""
import socket
silent = socket.socket()
silent.bind(("127.0.0.1", 0))
silent.listen()
address = f"http://127.0.0.1:{silent.getsockname()[1]}"
for wait in (blankout.load, blankout.follow):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        wait(address)
    except KeyboardInterrupt:
        assert time.monotonic() - began < 20
    else:
        raise AssertionError
check()
""")


def test_a_notebook(tmp_path, monkeypatch):
    """The button of Jupyter interrupts cells of a real kernel that ask learners all the time."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3")
    try:
        def run(code: str) -> dict:
            return client.execute_interactive(code, timeout=120, output_hook=lambda _: None)["content"]

        said = run(BEGIN + "step = 0")
        assert said["status"] == "ok", said
        for again in range(20):
            client.execute("while True:\n    step += 1\n    ask(step)", stop_on_error=False)
            time.sleep(0.1 + 0.005 * again)
            manager.interrupt_kernel()
            said = client.get_shell_msg(timeout=120)["content"]
            assert said["status"] == "error" and said["ename"] == "KeyboardInterrupt", said
            said = run("check()")
            assert said["status"] == "ok", said
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
