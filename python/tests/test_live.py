"""A real learner serves a model that is read, asked and followed."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request

import pytest

import blankout
from streams import events
from test_model import RECORD, same

CROSSES = ("color^near", "words^words", "user.age^new")


@pytest.fixture
def learner(program):
    """A learner that learns what is written to its standard input, and its HTTP address."""
    config = program.write("c.toml", RECORD + '[checkpoint]\ndirectory = "learned"\n[http]\naddress = "127.0.0.1:0"\npublish_interval = "20ms"\n')
    process = subprocess.Popen(
        [program.path, "run", "-f", config, "-d", "-", "--serve"], cwd=program.home, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said, address = [], ""
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"127\.0\.0\.1:\d+", line):
            address = "http://" + found[0]
            break
    assert address, "".join(said)
    drain = threading.Thread(target=process.stderr.read)
    drain.start()
    yield process, address
    process.terminate()
    process.stdin.close()
    process.wait()
    drain.join()


def ask(address: str, path: str, body: str | None = None) -> dict:
    with urllib.request.urlopen(address + path, body.encode() if body else None, timeout=60) as answer:
        return json.load(answer)


def followed(process, address: str) -> blankout.Follower:
    """Follow a learner that may have no model yet."""
    while True:
        try:
            return blankout.follow(address, interval=0.02)
        except OSError:
            assert process.poll() is None, "the learner has ended"


def until(process, live: blankout.Follower, events: int) -> None:
    """Wait for a model of so many events, as long as the learner lives."""
    while live.model.events < events:
        assert process.poll() is None, "the learner has ended"
        live._ended.wait(0.01)


def test_a_live_learner(learner):
    process, address = learner

    def learn(batch):
        process.stdin.write("".join(json.dumps(e) + "\n" for e in batch))
        process.stdin.flush()

    asked = events(20, 41, nulls=0.3)
    learn(events(1000, 40))
    with followed(process, address) as live:
        until(process, live, 1000)
        first = live.model
        answers = first.answers(asked, explain=5)
        for event, got in zip(asked, answers):
            want = ask(address, "/v1/predict?explain=5", json.dumps(event))["predictions"][0]
            same(got, want)
            for c, w in zip(got.explanation, want["explanation"], strict=True):
                # The server may name a product by its fields alone.
                assert c.feature == w["feature"] or " ^ " in c.feature and w["feature"] in CROSSES
                assert abs(c.score - w["score"]) < 1e-12
        by_hand = blankout.follow(address, interval=None)
        assert not by_hand.refresh() and by_hand.model.version == first.version
        learn(events(500, 42))
        until(process, live, 1500)
        assert live.model.version > first.version and live.last_error is None
        assert by_hand.refresh() and by_hand.model.events == 1500
        assert first.events == 1000  # a model never changes
    assert not live._thread.is_alive()
    process.terminate()
    process.wait()
    with pytest.raises(OSError):
        by_hand.refresh()
    assert isinstance(by_hand.last_error, OSError) and by_hand.model.events == 1500
    with pytest.raises(OSError):
        blankout.load(address)


def test_following_a_directory(program):
    """A file that takes another's place is a newer model."""
    for n in (100, 200):
        program("train", "-q", "-d", program.events("t.jsonl", events(n, n)), "-o", f"m{n}", "--tol", "1e-2")
    path = program.home / "m"
    (program.home / "m100").rename(path)
    live = blankout.follow(path, interval=None)
    assert live.model.events == 100 and not live.refresh()
    (program.home / "m200").replace(path)
    assert live.refresh() and live.model.events == 200
    path.write_bytes(b"something else")
    with pytest.raises((blankout.ForeignError, OSError)):
        live.refresh()
    assert live.model.events == 200
    with pytest.raises(ValueError, match="want a number of seconds above 0"):
        blankout.follow(path, interval=0)
