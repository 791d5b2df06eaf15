"""What is known to be missing from an event, and by what its features are then multiplied.

A field is known to be missing where it is null, or where it is a named field that is
left out although it usually is there. How the rest then counts is a rule, one for each
of five ranges of the share that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Sequence

from .errors import NewerError
from .schema import Field, strict

AS_IS, RESCALE = "as-is", "rescale"
RULES = (AS_IS, RESCALE)
EDGES = (0.1, 0.3, 0.5, 0.7)  # between the ranges of the share missing


def range_of(share: float) -> int:
    """Return the number of the range, 0 to 4, that a share missing lies in."""
    return sum(share > edge for edge in EDGES)


@dataclass(frozen=True)
class Lack:
    """Counts of an event's fields.

    null and absent are known to be missing; named are those present whose absence would
    be known, silent the others present: bags of words.
    """

    null: int = 0
    absent: int = 0
    named: int = 0
    silent: int = 0


@dataclass(frozen=True)
class Missing:
    """The rules of a model, and which fields are usual.

    Attributes:
        null, absent: a rule for each range of the share that is null, or left out.
        usual: ids of the fields that are missing where they are left out.
        usually_null: ids of those that are not missing where they are null.
        also: by the id of a later field the first one of the same name.
    """

    null: tuple[str, ...] = (AS_IS,) * 5
    absent: tuple[str, ...] = (AS_IS,) * 5
    usual: frozenset[int] = frozenset()
    usually_null: frozenset[int] = frozenset()
    also: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: dict | None) -> "Missing":
        """Read the part "missing" of a model; without one every null is missing and all counts as is.

        A rule that is not known raises NewerError: its scores would be others.
        """
        if data is None:
            return cls()
        strict("missing", data, "null", "absent", "usual", "usually_null", "also")
        for name in ("null", "absent"):
            rules = data.get(name)
            if not isinstance(rules, list) or len(rules) != 5 or any(r not in RULES for r in rules):
                raise NewerError(
                    f"the model answers events with missing fields by {name} = {rules}; "
                    f"this package knows the rules {' and '.join(RULES)}: use a newer one"
                )
        return cls(
            tuple(data["null"]), tuple(data["absent"]),
            frozenset(data.get("usual") or ()), frozenset(data.get("usually_null") or ()),
            {int(later): int(first) for later, first in data.get("also") or ()},
        )

    def forced(self, rule: str) -> "Missing":
        """Return self with one rule for everything; "auto" changes nothing."""
        if rule == "auto":
            return self
        if rule not in RULES:
            raise ValueError(f'missing "{rule}": want auto, {", ".join(RULES)}')
        return Missing((rule,) * 5, (rule,) * 5, self.usual, self.usually_null, self.also)

    def present(self, ids: set[int]) -> set[int]:
        """Return the ids of the fields that are there, one for fields of several kinds."""
        if not self.also:
            return ids
        found = ids - self.also.keys()
        return found.union(self.also[i] for i in ids & self.also.keys())

    def lack(self, fields: Sequence[Field], present: set[int], nulls: Sequence[int]) -> Lack:
        """Count the fields of an event of which present are there and nulls are null."""
        null = absent = 0
        if not nulls and self.usual <= present:
            return Lack()  # the usual case: the fields present need no counting
        for i in nulls:
            if i >= len(fields) or i in present:
                continue
            if i not in self.usually_null:
                null += 1
            if i in self.usual:
                absent -= 1  # it is one of those counted now
        absent += len(self.usual - present)
        counted = [fields[i] for i in present if 0 < i < len(fields) and fields[i].kind != "cross"]
        named = sum(f.named for f in counted)
        return Lack(null, absent, named, len(counted) - named)

    def scale(self, k: Lack) -> float:
        """Return by what the features of an event are multiplied that lacks k."""
        present = k.named + k.silent
        if present <= 0:  # without fields it is the intercept alone
            return 1.0
        lost = 0
        if k.null > 0 and self.null[range_of(k.null / (k.null + present))] == RESCALE:
            lost += k.null
        if k.absent > 0 and self.absent[range_of(k.absent / (k.absent + present))] == RESCALE:
            lost += k.absent
        return 1 + lost / present

    def answer(self, fields: Sequence[Field], present: set[int], nulls: Sequence[int]) -> tuple[float, str]:
        """Return the factor of an event's features, and the rule, "" if nothing is known to be missing."""
        k = self.lack(fields, present, nulls)
        if k.null + k.absent <= 0:
            return 1.0, ""
        scale = self.scale(k)
        return scale, AS_IS if scale == 1 else RESCALE

    def names(self, fields: Sequence[Field], present: set[int], nulls: Sequence[int]) -> list[str]:
        """Return the names of the fields that are known to be missing."""
        k = self.lack(fields, present, nulls)
        if k.null + k.absent <= 0:
            return []
        ids = (set(nulls) - self.usually_null) | self.usual
        return [fields[i].name for i in sorted(ids) if i < len(fields) and i not in present]
