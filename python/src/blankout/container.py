"""The container of named blocks that checkpoints, models and snapshots share.

docs/checkpoint-format.md has the layout. Every byte is covered by a checksum, and every
checksum is verified here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c
import xxhash

from .errors import DamagedError, FileError, ForeignError, NewerError

MAGIC = b"blankout"
VERSION = 1


@dataclass(frozen=True)
class File:
    """What a file holds: its kind ("linear" or "kernel") and the data of its blocks by name."""

    kind: str
    blocks: dict[str, memoryview]

    def block(self, name: str) -> memoryview:
        """Return the data of a block; FileError if there is none of that name."""
        if name not in self.blocks:
            raise FileError(f'no block "{name}"')
        return self.blocks[name]


class _Cursor:
    def __init__(self, data: bytes):
        self.data, self.at = memoryview(data), 0

    def take(self, n: int, what: str) -> memoryview:
        if n > len(self.data) - self.at:
            raise DamagedError(f"damaged at byte {self.at}: {what} is cut off")
        self.at += n
        return self.data[self.at - n : self.at]

    def checked(self, start: int, what: str) -> None:
        """Read a checksum and compare it with that of all from start on."""
        end = self.at
        (want,) = struct.unpack("<I", self.take(4, what))
        if google_crc32c.value(bytes(self.data[start:end])) != want:
            raise DamagedError(f"damaged at byte {start}: the checksum of {what} does not match")


def decode(data: bytes) -> File:
    """Read a file from its bytes.

    Raises ForeignError, NewerError or DamagedError, with the place.
    """
    c = _Cursor(data)
    if bytes(data[: len(MAGIC)]) != MAGIC[: max(len(data), 1)]:
        raise ForeignError('not a blankout file (it does not begin with "blankout")')
    c.take(len(MAGIC), "the file's prefix")
    (version,) = struct.unpack("<I", c.take(4, "the file's prefix"))
    c.checked(0, "the file's prefix")
    if version > VERSION:
        raise NewerError(
            f"written by a newer blankout program: format version {version}, this package reads up to {VERSION}"
        )
    if version == 0:
        raise DamagedError("damaged: format version 0")
    start = c.at
    kind = bytes(c.take(c.take(1, "the kind")[0], "the kind"))
    c.checked(start, "the kind")
    if kind not in (b"linear", b"kernel"):
        raise NewerError(f"a model of the kind {kind!r}, which this package does not know")
    blocks: dict[str, memoryview] = {}
    while True:
        start = c.at
        tag = bytes(c.take(1, "the closing part"))
        if tag == b"E":
            count, total = struct.unpack("<IQ", c.take(12, "the closing part"))
            if xxhash.xxh64_intdigest(c.data[: start + 5]) != total:
                raise DamagedError(f"damaged at byte {start}: the closing checksum does not match")
            if count != len(blocks):
                raise DamagedError(f"damaged at byte {start}: {len(blocks)} blocks, the end says {count}")
            if c.at != len(data):
                raise DamagedError(f"damaged at byte {c.at}: {len(data) - c.at} bytes after the end")
            return File(kind.decode(), blocks)
        if tag != b"B":
            raise DamagedError(f"damaged at byte {start}: neither a block nor the end")
        what = f"the head of block {len(blocks)}"
        (size,) = struct.unpack("<H", c.take(2, what))
        name = bytes(c.take(size, what)).decode("utf-8", "replace")
        (length,) = struct.unpack("<Q", c.take(8, what))
        c.checked(start, what)  # from here on the length can be believed
        what = f'block "{name}"'
        if not name or name in blocks:
            raise DamagedError(f"damaged at byte {start}: {what} has no name or is there twice")
        start = c.at
        blocks[name] = c.take(length, what)
        c.checked(start, what)
