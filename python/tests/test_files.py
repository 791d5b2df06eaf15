"""Files of every version are read; damaged, foreign and newer ones are refused with a sentence."""

from __future__ import annotations

import json
import shutil
import struct

import google_crc32c
import numpy as np
import pytest
import xxhash

import blankout
from blankout.container import decode
from blankout.model import Model
from conftest import ROOT

FORMAT = ROOT / "tests" / "testdata" / "format1"
EVENTS = [
    {"word": "fine", "x": 1, "y": -2.5}, {"word": "grim", "x": 0.25, "other": "new"}, {"word": ["fine", "grim"], "x": None}, {},
]


def encode(kind: str, blocks: dict[str, bytes]) -> bytes:
    """Write a container, the inverse of decode."""
    out = b""

    def part(data: bytes) -> bytes:
        return data + struct.pack("<I", google_crc32c.value(data))

    out += part(b"blankout" + struct.pack("<I", 1)) + part(bytes([len(kind)]) + kind.encode())
    for name, data in blocks.items():
        out += part(b"B" + struct.pack("<H", len(name)) + name.encode() + struct.pack("<Q", len(data))) + part(bytes(data))
    out += b"E" + struct.pack("<I", len(blocks))
    return out + struct.pack("<Q", xxhash.xxh64_intdigest(out))


def changed(name: str, change) -> bytes:
    """Return a file of which change has changed the JSON of the model."""
    file = decode((FORMAT / name).read_bytes())
    blocks = {k: bytes(v) for k, v in file.blocks.items()}
    head = json.loads(blocks["model"])
    change(head)
    blocks["model"] = json.dumps(head).encode()
    return encode(file.kind, blocks)


def test_golden_files():
    want = json.loads((FORMAT / "scores.json").read_text())
    for name, scores in want.items():
        model = blankout.load(FORMAT / f"{name}.blankout")
        np.testing.assert_allclose(model.decision_function(EVENTS), np.ravel(scores), rtol=1e-12, atol=1e-12)
    snapshot = blankout.load(FORMAT / "snapshot.blankout")
    assert snapshot.version > 7 << 32 and snapshot.published is not None
    for old in sorted(FORMAT.glob("checkpoint-*.blankout")):
        assert blankout.load(old).predict(EVENTS).tolist() == ["good", "bad", "good", "good"]


@pytest.mark.parametrize("name", ["linear.blankout", "kernel.blankout"])
def test_every_byte_is_guarded(name):
    data = (FORMAT / name).read_bytes()
    for at in range(len(data)):
        wrong = bytearray(data)
        wrong[at] ^= 0x40
        with pytest.raises(blankout.FileError):
            decode(bytes(wrong))
    for size in range(len(data)):
        with pytest.raises(blankout.FileError):
            decode(data[:size])
    with pytest.raises(blankout.DamagedError, match="after the end"):
        decode(data + b"x")
    assert encode(decode(data).kind, decode(data).blocks) == data


def test_refused(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(blankout.ForeignError, match=r"model: not a blankout file"):
        blankout.load(path)
    newer = b"blankout" + struct.pack("<I", 2)
    path.write_bytes(newer + struct.pack("<I", google_crc32c.value(newer)) + b"whatever")
    with pytest.raises(blankout.NewerError, match="format version 2, this package reads up to 1"):
        blankout.load(path)
    with pytest.raises(FileNotFoundError):
        blankout.load(tmp_path / "none")


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda h: h["missing"].update(policies=[[1, 0, 0, 0]] * 6), "answers events with missing fields by the shares"),
        (lambda h: h["missing"].update(ranges=[1]), "says ranges in missing"),
        (lambda h: h.update(curves=3), "says curves in the model"),
        (lambda h: h["scaler"].update(mode="rank"), 'standardizes by "rank"'),
        (lambda h: h["schema"].update(hash="md5"), "says hash in schema"),
        (lambda h: h["schema"]["fields"].append({"name": "t", "kind": "time"}), 'the kind "time"'),
        (lambda h: h.update(loss="wild:3"), 'the loss "wild:3"'),
        (lambda h: h.update(faults={"stuck": [{"field": 1, "value": 2.5}]}), r"stuck \(word\)"),
        (lambda h: h.update(faults={"limits": [{"field": 1, "low": 0, "high": 1}]}), "outside of limits"),
    ],
)
def test_what_is_not_known_is_not_scored(change, said):
    with pytest.raises(blankout.NewerError, match=said):
        Model.from_bytes(changed("checkpoint.blankout", change))


@pytest.mark.parametrize(
    "change",
    [lambda h: h.update(outputs=2), lambda h: h.pop("schema"), lambda h: h["layout"].update(weight=10**6), lambda h: h.update(layout=3)],
)
def test_blocks_that_do_not_fit(change):
    with pytest.raises(blankout.FileError):
        Model.from_bytes(changed("checkpoint.blankout", change))


def test_a_directory_stands_for_its_newest_sound_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint in this directory"):
        blankout.load(tmp_path)
    first, second = tmp_path / "checkpoint-000000000009.blankout", tmp_path / "checkpoint-000000000010.blankout"
    shutil.copy(FORMAT / "linear.blankout", first)
    shutil.copy(FORMAT / "checkpoint.blankout", second)
    (tmp_path / "lock").touch()
    assert blankout.load(tmp_path).events == 250
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="passed over: .*000010"):
        assert blankout.load(tmp_path).events == 300
    first.unlink()
    with pytest.warns(RuntimeWarning), pytest.raises(blankout.DamagedError):
        blankout.load(tmp_path)
