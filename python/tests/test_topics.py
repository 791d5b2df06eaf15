"""A real learner hands its models on by a topic of the program's own broker, from which they are read and followed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import blankout
from conftest import ROOT

EVENTS = [{"label": i % 2, "x": i % 5 + i % 2, "word": f"w{i % 7}"} for i in range(400)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """The address of a broker with the topics that the tests use."""
    path = tmp_path_factory.mktemp("broker") / "broker"
    subprocess.run(["go", "build", "-o", path, "./tools/broker"], cwd=ROOT, check=True)
    process = subprocess.Popen([path, "models", "empty"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.stdin.close()
    assert process.wait() == 0


@pytest.fixture(autouse=True)
def on_path(binary, monkeypatch):
    monkeypatch.setenv("BLANKOUT", str(binary))


def learn(program, broker: str, data: Path, *args: str) -> None:
    program("run", "-q", "-d", data, "--set", f'kafka.brokers=["{broker}"]', "--set", "snapshot.topic=models", "--set", "http.address=", *args)


def test_a_topic_is_read_and_followed(program, broker):
    data = program.events("events.jsonl", EVENTS)
    learn(program, broker, data, "--max-events", "100")
    where = f"kafka://{broker}/models"
    with blankout.follow(where, interval=None) as live:
        assert live.model.events == 100
        assert not live.refresh()
        learn(program, broker, data)
        assert live.refresh() and live.model.events == 400
        on_disk = blankout.load(program.home / "checkpoints")
        events = [{k: v for k, v in e.items() if k != "label"} for e in EVENTS[:20]] + [{"x": None, "word": "w1"}]
        for model in (live.model, blankout.load(where)):
            assert (model.predict_proba(events) == on_disk.predict_proba(events)).all()


def test_what_is_no_snapshot_is_refused(broker):
    with pytest.raises(OSError, match="no complete snapshot"):
        blankout.load(f"kafka://{broker}/empty")
    with pytest.raises(OSError):
        blankout.load(f"kafka://{broker}")
    with pytest.raises(blankout.SettingsError, match="kafka.tls.enbled"):
        blankout.load(f"kafka://{broker}/empty", settings={"kafka.tls.enbled": True})
