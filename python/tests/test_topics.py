"""A real learner hands its models on by a topic of the program's own broker, from which they are read and followed."""

from __future__ import annotations

import pickle
import signal
import subprocess
import time
from pathlib import Path

import pytest

import blankout
from conftest import ROOT
from test_model import same

EVENTS = [{"label": i % 2, "x": i % 5 + i % 2, "word": f"w{i % 7}"} for i in range(400)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """The address of a broker with the topics that the tests use."""
    path = tmp_path_factory.mktemp("broker") / "broker"
    subprocess.run(["go", "build", "-o", path, "./tools/broker"], cwd=ROOT, check=True)
    process = subprocess.Popen([path, "models", "empty", "shared:2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


def test_the_shards_of_a_group_answer_together(program, broker):
    """The answers are those of the program: the mean, and with keys the shard of the key and the mean."""
    events = [{"label": str(i % 2), "x": i % 5 + i % 2, "user": f"u{i % 7}"} for i in range(600)]
    config = program.write("group.toml", f'[kafka]\nbrokers = ["{broker}"]\ntopics = ["shared"]\n[record]\nformat = "json"\ndrop = ["pad"]\n[http]\naddress = ""\n[snapshot]\ninterval = "100ms"\n[checkpoint]\ninterval = "100ms"\n[group]\nname = "g"\n')
    padded = program.events("shared.jsonl", [{**e, "pad": "p" * 5000} for e in events])  # a batch is a megabyte, and each has another partition
    program("produce", "-q", "-f", config, "-d", padded)
    where = f"kafka://{broker}/g-snapshots"
    member = subprocess.Popen([program.path, "run", "-f", config, "--group", "g"], cwd=program.home, stderr=subprocess.PIPE)
    try:
        while True:
            assert member.poll() is None, member.stderr.read()
            try:
                if blankout.load(where).events == 600:
                    break
            except OSError:
                pass  # nothing has been published yet
            time.sleep(0.1)
    finally:
        member.send_signal(signal.SIGINT)
        member.communicate()
    asked = [{"x": e["x"], "user": e["user"]} for e in events[:40]]
    keys = [e["user"] for e in asked]
    asked_data = program.events("asked.jsonl", asked)
    group = blankout.load(where)
    assert group.shards == 2 and list(group.classes_) == ["0", "1"]
    for model, keyed, want in [
        (group, keys, program.answers(where, asked_data, "--key", "user")),
        (group, None, program.answers(where, asked_data)),
        (blankout.load(program.home / "checkpoints"), None, program.answers(program.home / "checkpoints", asked_data)),
        (pickle.loads(pickle.dumps(group)), keys, program.answers(where, asked_data, "--key", "user")),
    ]:
        for got, w in zip(model.answers(asked, keys=keyed), want, strict=True):
            same(got, {**w, "version": got.version, "id": got.id})
        assert model.predict(asked, keys=keyed).tolist() == [w["class"] for w in want]
        assert model.predict_proba(asked, keys=keyed).tolist() == [[w["probabilities"][c] for c in model.classes_] for w in want]
        assert model.decision_function(asked, keys=keyed) == pytest.approx([w["score"] for w in want])
    assert group.predict_proba(asked, keys=keys).tolist() != group.predict_proba(asked).tolist()
    with pytest.raises(ValueError, match="g-snapshots|GROUP-snapshots"):
        blankout.load(program.home / "checkpoints").predict(asked, keys=keys)
    with pytest.raises(ValueError, match="39 of 40"):
        group.predict(asked, keys=keys[1:])
    with pytest.raises(blankout.UnsupportedError, match="shard=0"):
        group.to_onnx()
    alone = blankout.load(where, shard=1)
    assert alone.shards == 0 and 0 < alone.events < 600 and alone.predict_proba(asked).shape == (40, 2)
    with pytest.raises(ValueError, match="single model"):
        alone.predict(asked, keys=keys)
    with pytest.raises(blankout.SettingsError, match="there are 2 shards"):
        blankout.load(where, shard=2)
