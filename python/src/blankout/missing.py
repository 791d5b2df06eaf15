"""What is known to be missing from an event, and by what its features are then multiplied.

A field is known to be missing where it is null, or where it is a named field that is
left out although it usually is there. Of a sparse text format, which has no fields, that goes
for columns if the model declares it ("known"). How the rest then counts is a mixture of
rules, one for each of six ranges of the share that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Sequence

import numpy as np

from .errors import NewerError
from .events import Batch
from .fill import APART, FILLED, OBSERVED, Covariance
from .schema import Field, Schema, strict

AS_IS, RESCALE, FILL = "none", "rescale", "impute"
RULES = (AS_IS, RESCALE, FILL)
RANGES = 6  # of the share missing
EDGES = (0.1, 0.3, 0.5, 0.7, 0.85)  # between the ranges of the share missing


def range_of(share: float) -> int:
    """Return the number of the range, 0 to 5, that a share missing lies in."""
    return sum(share > edge for edge in EDGES)


def plain(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return the shares where there is nothing to fill in: the others then count in proportion."""
    rest = shares[0] + shares[1]
    return (shares[0] / rest, shares[1] / rest, 0.0) if rest > 0 else (1.0, 0.0, 0.0)


def _one(rule: str) -> tuple[float, float, float]:
    """Return the shares that give a rule everything."""
    return tuple(float(rule == r) for r in RULES)


@dataclass(frozen=True)
class Lack:
    """Counts of an event's fields.

    null and absent are known to be missing; named are those present whose absence would
    be known, silent the others present: bags of words. Where columns are known to go missing
    features are counted instead of fields.
    """

    null: int = 0
    absent: int = 0
    named: int = 0
    silent: int = 0


@dataclass(frozen=True)
class Verdict:
    """How an event is answered.

    Attributes:
        rule: the one with the largest share, "" if nothing is known to be missing.
        shares: those of the rules in the score, in the order of RULES; all 0 if nothing is missing.
        scale: by what the features that it holds are multiplied, over all rules.
        parts: by column of the model's covariance whether it is filled in; None if none is.
        level: which of the model's weights answer, 0 for those of events that lack nothing.
        range: that of the share missing, 0 if nothing is, else one more than range_of.
    """

    rule: str = ""
    shares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    scale: float = 1.0
    parts: np.ndarray | None = None
    level: int = 0
    range: int = 0

    @property
    def fill(self) -> float:
        """What share of the score filling in has."""
        return self.shares[RULES.index(FILL)]


@dataclass(frozen=True)
class Missing:
    """The rules of a model, and which fields are usual.

    Attributes:
        rules: for each range of the share that is missing the shares of the rules, in the order of RULES.
        usual: ids of the fields that are missing where they are left out.
        usually_null: ids of those that are not missing where they are null.
        also: by the id of a later field the first one of the same name.
        known: whether columns of a sparse text format are missing where they are left out;
            columns then lists those, ascending.
        zeros: columns of a sparse text format that are present and 0 where they are left out, ascending.
        levels: for each range of the share that is missing which of the model's weights answer.
    """

    rules: tuple[tuple[float, float, float], ...] = ((1.0, 0.0, 0.0),) * RANGES
    usual: frozenset[int] = frozenset()
    usually_null: frozenset[int] = frozenset()
    also: dict[int, int] = field(default_factory=dict)
    known: bool = False
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    zeros: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    levels: tuple[int, ...] = (0,) * RANGES

    @classmethod
    def parse(cls, data: dict | None) -> "Missing":
        """Read the part "missing" of a model; without one every null is missing and all counts as is.

        A rule that is not known raises NewerError: its scores would be others.
        """
        if data is None:
            return cls()
        strict("missing", data, "policies", "absent", "usual", "usually_null", "also", "known", "columns", "zeros", "levels")
        rules, levels = data.get("policies"), tuple(data.get("levels") or (0,) * RANGES)
        if not isinstance(rules, list) or len(rules) != RANGES or any(len(shares) != len(RULES) for shares in rules):
            raise NewerError(f"the model answers events with missing fields by the shares {rules}, which this package does not know: use a newer one")
        return cls(
            tuple(tuple(shares) for shares in rules),
            frozenset(data.get("usual") or ()), frozenset(data.get("usually_null") or ()),
            {int(later): int(first) for later, first in data.get("also") or ()},
            data.get("known", False), np.array(data.get("columns") or (), np.int64), np.array(data.get("zeros") or (), np.int64),
            levels,
        )

    def forced(self, rule: str) -> "Missing":
        """Return self with one rule for everything; "auto" changes nothing."""
        if rule == "auto":
            return self
        if rule not in RULES:
            raise ValueError(f'missing "{rule}": want auto, {", ".join(RULES)}')
        return replace(self, rules=(_one(rule),) * RANGES)

    def present(self, ids: set[int]) -> set[int]:
        """Return the ids of the fields that are there, one for fields of several kinds."""
        if not self.also:
            return ids
        found = ids - self.also.keys()
        return found.union(self.also[i] for i in ids & self.also.keys())

    def lack(self, fields: Sequence[Field], batch: Batch, i: int) -> Lack:
        """Count what event i of a batch has and lacks, given the fields of the Schema."""
        if self._is_sparse(fields, batch, i):
            own = batch.of(i)
            cross = sum(fields[f].kind == "cross" for f in batch.fields[own].tolist() if f < len(fields)) if batch.present else 0
            zeros = len(np.setdiff1d(self.zeros, batch.columns[own], assume_unique=True))
            return Lack(0, len(self._absent(batch, i)), own.stop - own.start - cross + zeros)
        if batch.present is None:
            return Lack()  # a sparse text format without fields
        present, nulls = self.present(batch.present[i]), batch.nulls[i]
        null = absent = 0
        if not nulls and self.usual <= present:
            return Lack()  # the usual case: the fields present need no counting
        for f in nulls:
            if f >= len(fields) or f in present:
                continue
            if f not in self.usually_null:
                null += 1
            if f in self.usual:
                absent -= 1  # it is one of those counted now
        absent += len(self.usual - present)
        counted = [fields[f] for f in present if 0 < f < len(fields) and fields[f].kind != "cross"]
        named = sum(f.named for f in counted)
        return Lack(null, absent, named, len(counted) - named)

    def _is_sparse(self, fields: Sequence[Field], batch: Batch, i: int) -> bool:
        """Say whether columns of the event are known to go missing: no field tells what is."""
        if not self.known or batch.present is None:
            return self.known
        kinds = {fields[f].kind for f in batch.present[i] if f < len(fields)}
        return not batch.nulls[i] and kinds <= {"sparse", "cross"}

    def _absent(self, batch: Batch, i: int) -> np.ndarray:
        return np.setdiff1d(self.columns, batch.columns[batch.of(i)], assume_unique=True)

    def shares(self, k: Lack) -> tuple[float, float, float]:
        """Return what share of the score each rule has for an event that lacks k."""
        return self.rules[range_of((k.null + k.absent) / (k.null + k.absent + k.named + k.silent))]

    def answer(self, fields: Sequence[Field], batch: Batch, i: int, covariance: Covariance | None = None) -> Verdict:
        """Say how event i of a batch is answered. Without a covariance nothing can be filled in."""
        k = self.lack(fields, batch, i)
        missing, present = k.null + k.absent, k.named + k.silent
        if missing <= 0:
            return Verdict()
        shares, parts = self.shares(k), None
        if covariance is not None and shares[2] > 0:
            parts = self._parts(fields, batch, i, covariance)
        if parts is None or not (parts == FILLED).any():
            shares, parts = plain(shares) if present > 0 else (1.0, 0.0, 0.0), None
        scale = 1 + shares[1] * missing / present if present > 0 else 1.0  # without fields it is the intercept alone
        rule = RULES[max(range(len(RULES)), key=lambda r: shares[r])]
        within = range_of(missing / (missing + present))
        return Verdict(rule, shares, scale, parts, self.levels[within], 1 + within)

    def _parts(self, fields: Sequence[Field], batch: Batch, i: int, covariance: Covariance) -> np.ndarray:
        """Say which columns of the covariance the event has, and which are filled in."""
        parts = np.full(len(covariance.columns), APART, np.uint8)
        present, nulls = set(), set()
        if batch.present is not None:
            nulls = set(batch.nulls[i]) - self.usually_null
            if not self._is_sparse(fields, batch, i):
                present = self.present(batch.present[i])
        holds = np.isin(covariance.columns, batch.columns[batch.of(i)])
        usual, zero = np.isin(covariance.columns, self.columns), np.isin(covariance.columns, self.zeros)
        for place, f in enumerate(covariance.fields.tolist()):
            if f == 0:
                if not self.known or holds[place] or zero[place]:
                    parts[place] = OBSERVED  # left out it is 0
                elif usual[place]:
                    parts[place] = FILLED
            elif f in present:
                parts[place] = OBSERVED
            elif f in nulls or f in self.usual:
                parts[place] = FILLED
        return parts

    def names(self, schema: Schema, batch: Batch, i: int) -> list[str]:
        """Return the names of what is known to be missing from an event: of fields, or of columns."""
        fields = schema.fields
        if len(self.columns) and self._is_sparse(fields, batch, i):
            return [schema.name_of(c) for c in self._absent(batch, i).tolist()]
        present = self.present(batch.present[i])
        ids = (set(batch.nulls[i]) - self.usually_null) | self.usual
        return [fields[f].name for f in sorted(ids) if f < len(fields) and f not in present]
