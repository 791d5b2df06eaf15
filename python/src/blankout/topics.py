"""Models that a learner hands on by a topic of snapshots.

docs/checkpoint-format.md says what such a topic holds: pieces of blocks, each named by what it
holds, and manifests that say which pieces make up a model.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any, Mapping

from .container import File
from .errors import DamagedError, FileError, NewerError
from .model import Model

PATIENCE = 60.0  # seconds that brokers have for an answer


@dataclass(frozen=True)
class _Manifest:
    kind: str
    blocks: list[dict]
    offset: int

    @classmethod
    def parse(cls, value: bytes, offset: int) -> "_Manifest":
        head, _, text = value.partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != head:
            raise DamagedError(f"offset {offset}: the manifest's checksum does not match")
        said = json.loads(text)
        if said["format"] > 1:
            raise NewerError(f"offset {offset}: snapshot format {said['format']}, this package reads up to 1")
        return cls(said["kind"], said["blocks"], offset)

    def assemble(self, pieces: Mapping[str, bytes], largest: int) -> File:
        blocks, total = {}, 0
        for block in self.blocks:
            data = bytearray()
            for name in block["pieces"] or ():
                if name not in pieces:
                    raise FileError(f"offset {self.offset}: block {block['name']}: piece {name} is missing")
                total += len(pieces[name])
                if total > largest:
                    raise FileError(f"offset {self.offset}: the model has more than {largest} bytes")
                data += pieces[name]
            if len(data) != block["bytes"]:
                raise DamagedError(f"offset {self.offset}: block {block['name']} has {len(data)} bytes, the manifest says {block['bytes']}")
            blocks[block["name"]] = memoryview(bytes(data))
        return File(self.kind, blocks)


class Topic:
    """A topic of snapshots, kafka://HOST:PORT[,HOST:PORT…]/TOPIC."""

    def __init__(self, address: str, missing: str, largest: int, options: Mapping[str, Any] | None):
        try:
            import kafka
        except ImportError as e:
            raise ImportError(f"{address}: to read topics, pip install 'blankout[kafka]' (kafka-python)") from e
        brokers, _, topic = address.partition("://")[2].partition("/")
        if not brokers or not topic or any(c in topic for c in "/?#"):
            raise ValueError(f"{address}: want kafka://HOST:PORT/TOPIC")
        self._kafka, self._address, self._missing, self._largest = kafka, address, missing, largest
        self._partition = kafka.TopicPartition(topic, 0)
        self._settings = {"bootstrap_servers": brokers.split(","), **(options or {})}
        self._settings |= {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        self._consumer: Any = None
        self._restart()

    def _restart(self) -> None:
        """Begin at the topic's start: what has been read may have a gap."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer, self._pieces, self._manifest, self._returned = None, {}, None, -1
        self._trouble: FileError | None = None

    def close(self) -> None:
        self._restart()

    def look(self) -> Model | None:
        """Return the newest model, None if that is the one returned last."""
        try:
            self._read()
        except self._kafka.errors.KafkaError as e:
            self._restart()
            raise OSError(f"{self._address}: {e}") from e
        except FileError as e:
            self._restart()
            raise type(e)(f"{self._address}: {e}") from e
        if self._manifest is None:
            raise FileNotFoundError(f"{self._address}: no snapshot in this topic yet")
        if self._manifest.offset == self._returned:
            return None
        try:
            model = Model.from_file(self._manifest.assemble(self._pieces, self._largest), self._missing)
        except FileError as e:
            self._restart()  # a piece may have been deleted after its manifest was read, for a newer one to come
            raise type(e)(f"{self._address}: {e}") from e
        self._returned = self._manifest.offset
        return model

    def _read(self) -> None:
        """Take up all records between what was read last and the topic's end now."""
        if self._consumer is None:
            self._consumer = self._kafka.KafkaConsumer(**self._settings)
            self._consumer.assign([self._partition])
            self._consumer.seek_to_beginning(self._partition)
        end = self._consumer.end_offsets([self._partition])[self._partition]
        late = time.monotonic() + PATIENCE
        while self._consumer.position(self._partition) < end:
            if time.monotonic() > late:
                raise OSError(f"{self._address}: nothing new for {PATIENCE:.0f} s before offset {end}")
            for record in self._consumer.poll(timeout_ms=1000).get(self._partition, ()):
                late = time.monotonic() + PATIENCE
                self._add(record.key or b"", record.value, record.offset)
        if self._trouble is not None:
            raise self._trouble

    def _add(self, key: bytes, value: bytes | None, offset: int) -> None:
        if key == b"manifest" and value is not None:
            try:
                self._manifest, self._trouble = _Manifest.parse(value, offset), None
            except FileError as e:
                self._trouble = e  # unless a newer one follows
        elif key.startswith(b"piece/"):
            name = key[len(b"piece/") :].decode("ascii", "replace")
            if value is None or hashlib.sha256(value).digest()[:16].hex() != name:
                self._pieces.pop(name, None)  # not what its name says: as if it were not there
            else:
                self._pieces[name] = value
