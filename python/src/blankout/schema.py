"""What the columns of events mean: how names become columns, fields, classes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import xxhash

from .container import File
from .errors import DamagedError, FileError, NewerError

MASK64 = (1 << 64) - 1
NAMED_KINDS = ("numeric", "categorical", "boolean")
KINDS = ("sparse", *NAMED_KINDS, "words", "cross")


def strict(where: str, data: Any, *known: str) -> None:
    """Refuse an object of a model's JSON that has a key which is not known.

    A key that this package ignored could change scores.
    """
    if not isinstance(data, dict):
        raise FileError(f"block model: {where} is no object")
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise NewerError(
            f"the model says {', '.join(unknown)} in {where}, which this package does not know "
            "and which may change its scores: use a newer one"
        )


REHASHES = 16  # at most, until a column is found that no numeric field has


def mix(x: int) -> int:
    """Return the finalizer of MurmurHash3 (fmix64) of x modulo 2^64."""
    x &= MASK64
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK64
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK64
    return x ^ x >> 33


def hash_text(text: str) -> int:
    """Return XXH64 of a text's UTF-8 bytes; a lone surrogate counts as U+FFFD."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text).encode()
    return xxhash.xxh64_intdigest(data)


@dataclass(frozen=True)
class Field:
    """A named part of an event.

    Attributes:
        kind: "sparse", "numeric", "categorical", "words", "boolean" or "cross".
        named: whether its absence can be known.
        column: that of a numeric field which no other name shares; None where names may.
    """

    name: str
    kind: str
    group: str = ""
    column: int | None = None

    @property
    def named(self) -> bool:
        return self.kind in NAMED_KINDS


@dataclass(frozen=True)
class Schema:
    """How events become columns, and what the classes are.

    Attributes:
        bits: names hash to 2^bits columns.
        fields: by id; 0 is the anonymous field.
        known: whether columns of a sparse text format go missing.
        zeros: whether a number that an event leaves out is 0.
        names: the dictionary, (hash, name) in order of appearance; None if the model keeps none.
        full: whether there were more names than the dictionary may hold.
    """

    bits: int
    seed: int = 0
    numeric_indices: bool = False
    zero_based: bool = False
    crosses: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = ()
    classes: tuple[str, ...] = ()
    names: tuple[tuple[int, str], ...] | None = None
    full: bool = False
    known: bool = False
    zeros: bool = False
    _namer: dict[int, str] = field(default_factory=dict, repr=False, compare=False)
    _numbers: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    _taken: set[int] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._numbers.update((f.name, f.column) for f in self.fields if f.column is not None)
        self._taken.update(self._numbers.values())

    @classmethod
    def parse(cls, data: Any, file: File) -> "Schema":
        """Read the part "schema" of a model and the block of its names."""
        strict(
            "schema", data, "bits", "seed", "numeric_indices", "zero_based", "crosses", "fields",
            "column_groups", "classes", "max_classes", "joined", "absent", "target", "apart",
        )
        fields = []
        apart = data.get("apart", False)
        for f in data["fields"] or ():
            strict("a field", f, "name", "kind", "group", "column")
            if f["kind"] not in KINDS:
                raise NewerError(f'the field "{f["name"]}" is of the kind "{f["kind"]}", which this package does not know')
            column = f.get("column", 0) if apart and f["kind"] == "numeric" else None
            fields.append(Field(f["name"], f["kind"], f.get("group", ""), column))
        bits, absent = data["bits"], data.get("absent", "auto")
        if absent not in ("auto", "zero", "missing"):
            raise NewerError(f'the model says "{absent}" of absent fields, which this package does not know')
        if not 1 <= bits <= 31 or not fields:
            raise FileError(f"block model: a schema of {bits} bits and {len(fields)} fields")
        names, full = _read_names(file)
        return cls(
            bits, data.get("seed", 0), data.get("numeric_indices", False), data.get("zero_based", False),
            tuple((a, b) for a, b in data.get("crosses") or ()), tuple(fields),
            tuple(data["classes"] or ()), names, full, absent == "missing", absent == "zero",
        )

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    def field_hash(self, name: str) -> int:
        """Return the hash of a field, of which those of its values are made."""
        return mix(hash_text(name) + self.seed)

    def column_of(self, h: int) -> int:
        """Return the column of a hash: its low bits, or, where a numeric field has that column, those of the hash hashed again."""
        column = h & self.mask
        for _ in range(REHASHES):
            if column not in self._taken:
                break
            h = mix(h + 1)
            column = h & self.mask
        return column

    def number_column(self, name: str) -> int:
        """Return the column of the numbers of a field."""
        return self._numbers[name] if name in self._numbers else self.column_of(self.field_hash(name))

    def index_of(self, column: int) -> int:
        """Return the number that a sparse text format gives a column."""
        return column if self.zero_based else column + 1

    def name_of(self, column: int) -> str:
        """Return the name of a column for people: by the dictionary, else by its number."""
        if not self._namer and self.names:
            for h, name in self.names:
                at = self._numbers[name] if name in self._numbers else self.column_of(h)
                before = self._namer.get(at)
                self._namer[at] = f"{before} | {name}" if before else name
        if column in self._namer:
            return self._namer[column]
        return str(self.index_of(column)) if self.numeric_indices else f"#{column}"


def _read_names(file: File) -> tuple[tuple[tuple[int, str], ...] | None, bool]:
    if "names" not in file.blocks:
        return None, True
    data = bytes(file.blocks["names"])
    try:
        most, count = struct.unpack_from("<II", data)
        names, at = [], 8
        for _ in range(count):
            h, size = struct.unpack_from("<QI", data, at)
            if at + 12 + size > len(data):
                raise struct.error
            names.append((h, data[at + 12 : at + 12 + size].decode("utf-8", "replace")))
            at += 12 + size
        if at != len(data):
            raise struct.error
    except struct.error:
        raise DamagedError("block names: it ends early or does not end") from None
    return tuple(names), count >= most
