"""A model as an ONNX graph, where that can say what the model says."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UnsupportedError
from .missing import EDGES, plain
from .standardize import CENTER, CLIP, FIRST_HAT, INVERSE, MAX_KNOTS, unit_of

if TYPE_CHECKING:
    from .model import Model


class _Graph:
    """Nodes and constants while they are collected."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._numpy = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self._numpy.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def __call__(self, op: str, *inputs: Any, domain: str = "", output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output; inputs that are no names become constants."""
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        output = output or f"value{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(op, names, [output], domain=domain, **attributes))
        return output

    def text_input(self, name: str) -> Any:
        return self._input(name, "STRING", 1)

    def number_input(self, name: str, width: int) -> Any:
        return self._input(name, "DOUBLE", width)

    def _input(self, name: str, kind: str, width: int) -> Any:
        from onnx import TensorProto

        return self._helper.make_tensor_value_info(name, getattr(TensorProto, kind), ["n", width])


def to_onnx(model: "Model") -> Any:
    """Return an onnx.ModelProto that scores, classifies and standardizes as the model does.

    Inputs: of a model of columns by number one, "x", double, shape (n, columns), where 0 is
    left out. Otherwise one for each field under its name, shape (n, 1): a number is double and
    NaN is null, a truth value is 1.0 or 0.0 or NaN, a string is a string and "" is null.
    In a field whose categories hold the empty string, null is "<null>" (in further brackets if
    that is a category, too). Missing features are answered by the model's rule.

    Outputs: "score", double, shape (n, outputs); and "label", string, shape (n,), and
    "probabilities", double, shape (n, K) in the order of classes_; or where labels are
    numbers "value", double, shape (n,).

    Raises:
        UnsupportedError: names what this graph cannot say.
    """
    import onnx
    from onnx import TensorProto, helper

    _check(model)
    g = _Graph()
    k = model._outputs
    if model.fields:
        weights = np.hstack([level.weights for level in model._levels])
        inputs, total, level = _by_name(g, model, weights)
        intercept = np.hstack([level.intercept for level in model._levels])
    else:  # nothing is ever known to be missing
        inputs, total = _by_number(g, model)
        level, intercept = "", model._intercept
    if level:
        chosen = g("Greater", g("Unsqueeze", level, g.constant([2], np.int64)), [0.0])
        total = g("Reshape", g("Add", total, intercept[None, :]), g.constant([-1, len(intercept) // k, k], np.int64))
        # Where, so that what another level would answer counts for nothing even if it is infinite.
        score = g("ReduceSum", g("Where", chosen, total, [0.0]), g.constant([1], np.int64), keepdims=0, output="score")
    else:
        score = g("Add", total, intercept[None, :], output="score")
    outputs = [helper.make_tensor_value_info(score, TensorProto.DOUBLE, ["n", k])]
    if model._numbers:
        column = g("Squeeze", score, g.constant([1], np.int64))
        value = g("Exp" if model.loss.startswith("poisson") else "Identity", column, output="value")
        outputs.append(helper.make_tensor_value_info(value, TensorProto.DOUBLE, ["n"]))
    else:
        names = model.classes_.astype(str)
        outputs += [
            helper.make_tensor_value_info(_label(g, model, score, names), TensorProto.STRING, ["n"]),
            helper.make_tensor_value_info(_probabilities(g, model, score), TensorProto.DOUBLE, ["n", len(names)]),
        ]
    graph = helper.make_graph(g.nodes, "blankout", inputs, outputs, g.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    proto = helper.make_model(graph, opset_imports=opsets, producer_name="blankout", ir_version=8)
    onnx.checker.check_model(proto)
    return proto


def _check(model: "Model") -> None:
    if model.kind != "linear":
        raise UnsupportedError("a kernel machine: its support vectors are not exported")
    if model._pairs:
        raise UnsupportedError("one-against-one: the coupling of pairs repeats until it converges")
    schema = model._schema
    if model.fields and model._fills():
        warnings.warn("the model fills in missing numbers, which a graph cannot: it answers events that lack fields as is and rescaled alone", stacklevel=3)
    if schema.known:
        raise UnsupportedError("columns that go missing (--absent missing): zero and missing are one in an array")
    if schema.crosses:
        raise UnsupportedError(f"crosses {list(schema.crosses)}: their columns are hashes of pairs of values")
    for f in schema.fields[1:]:
        if f.kind in ("words", "sparse"):
            raise UnsupportedError(f'the field "{f.name}" of {"words" if f.kind == "words" else "a sparse text format"}')
    names = [f.name for f in schema.fields[1:]]
    for name in names:
        if names.count(name) > 1:
            raise UnsupportedError(f'the field "{name}" of several kinds: an input of ONNX has one type')


def _standardized(g: _Graph, model: "Model", x: str, slots: np.ndarray) -> str:
    """Return the standardized values of x, shape (n, len(slots)), which holds no NaN."""
    if model._statistics is None:
        return x
    statistics = model._statistics[slots]
    center, inverse = statistics[:, CENTER], statistics[:, INVERSE]
    unit = unit_of(inverse)
    if (unit > 0).any():  # asinh(t) = sign(t) log(|t| + sqrt(t^2 + 1)), which runtimes have for doubles
        t = g("Div", x, np.where(unit > 0, unit, 1)[None, :])
        size = g("Abs", t)
        asinh = g("Mul", g("Sign", t), g("Log", g("Add", size, g("Sqrt", g("Add", g("Mul", t, t), [1.0])))))
        x = g("Where", g.constant((unit > 0)[None, :], bool), asinh, x)
    z = g("Mul", g("Sub", x, center[None, :]), np.abs(inverse)[None, :])
    wild = g("Greater", g("Abs", z), [CLIP])
    return g("Where", wild, g("Mul", g("Sign", z), model._scaler.beyond(center)[None, :]), z)


def _by_number(g: _Graph, model: "Model") -> tuple[list[Any], str]:
    schema, rows = model._schema, model._rows
    if not schema.numeric_indices:
        raise UnsupportedError("columns that are hashed: train with numeric_indices")
    ordinary = rows.columns < FIRST_HAT
    own, slots = rows.columns[ordinary], rows.slots[ordinary]
    width = int(own.max(initial=0)) + 1
    if width > 1 << 20:
        raise UnsupportedError(f"{width} columns in one array")
    columns = g("Gather", "x", g.constant(own, np.int64), axis=1)
    z = _standardized(g, model, columns, slots)
    # What is left out adds nothing, but for the dense columns, which are then 0.
    dense = np.isin(own, model._scaler.dense)
    there = g("Or", g("Not", g("Equal", columns, [0.0])), g.constant(dense[None, :], bool))
    z = g("Where", there, z, [0.0])
    total = g("MatMul", z, model._weights[slots])
    for part in _curved(g, model, model._weights, own, columns, there):
        total = g("Add", total, part)
    return [g.number_input("x", width)], total


def _curved(g: _Graph, model: "Model", weights: np.ndarray, columns: np.ndarray, x: str, there: str) -> list[str]:
    """Return what the curves of numbers add to the scores.

    x, shape (n, len(columns)), holds the columns as events have them, there says which of them events
    hold. A curve has its value at the first knot wherever the number is there, and from each knot to the
    next it rises in proportion to how far the number is on the way.
    """
    if model._curves is None:
        return []
    outputs = weights.shape[1]

    def at(curve: int, knot: int) -> np.ndarray:
        known, slots = model._rows.find(np.array([FIRST_HAT + curve * MAX_KNOTS + knot]))
        if not known[0]:
            return np.zeros(outputs)
        hat = np.ones(1)
        if model._statistics is not None:
            hat = model._scaler.apply(model._statistics[slots], hat)
        return hat[0] * weights[slots[0]]

    first = np.zeros((len(columns), outputs))
    ways, slopes = [], []
    for curve, (column, knots) in enumerate(zip(model._curves.columns, model._curves.knots)):
        place = np.flatnonzero(columns == column)
        if not len(place):
            continue
        values = [at(curve, knot) for knot in range(len(knots))]
        first[place[0]] = values[0]
        for knot in range(len(knots) - 1):
            ways.append((place[0], knots[knot], knots[knot + 1]))
            slopes.append((values[knot + 1] - values[knot]) / (knots[knot + 1] - knots[knot]))
    parts = [g("MatMul", g("Cast", there, to=11), first)]  # double
    if ways:
        places, low, high = (np.array(of) for of in zip(*ways))
        take = g.constant(places, np.int64)
        way = g("Min", g("Max", g("Gather", x, take, axis=1), low[None, :]), high[None, :])
        held = g("Gather", there, take, axis=1)
        parts.append(g("MatMul", g("Where", held, g("Sub", way, low[None, :]), [0.0]), np.array(slopes)))
    return parts


def _by_name(g: _Graph, model: "Model", weights: np.ndarray) -> tuple[list[Any], str, str]:
    """Return the inputs, what they add up to for all levels, shape (n, levels outputs), and which level answers.

    weights are those of all levels, shape (rows, levels outputs); for the last see _factor.
    """
    schema = model._schema
    fields = schema.fields[1:]
    table = _Table(model, weights)
    none = np.zeros(weights.shape[1])
    inputs, nulls, parts = [], [], []
    numeric = [f.name for f in fields if f.kind == "numeric"]
    for f in fields:
        if f.kind == "categorical":
            inputs.append(g.text_input(f.name))
            values = table.values(f.name)
            at = g(
                "LabelEncoder", f.name, domain="ai.onnx.ml", keys_strings=[_null_among(values), *values],
                values_int64s=list(range(len(values) + 1)), default_int64=len(values) + 1,
            )
            adds = np.vstack([none, *[table.adds(f.name, v) for v in values], none])
            null = g("Equal", at, g.constant([0], np.int64))
        else:
            inputs.append(g.number_input(f.name, 1))
            null = g("IsNaN", f.name)
            at = ""
            if f.kind == "boolean":
                adds = np.array([table.adds(f.name, "false"), table.adds(f.name, "true"), none])
                truth = g("Where", g("Equal", f.name, [0.0]), g.constant([0], np.int64), g.constant([1], np.int64))
                at = g("Where", null, g.constant([2], np.int64), truth)
        nulls.append(g("Cast", null, to=11))  # double
        if at:
            parts.append(g("Gather", g.constant(adds), g("Squeeze", at, g.constant([1], np.int64)), axis=0))
    if numeric:
        x = g("Concat", *numeric, axis=1)
        gone = g("IsNaN", x)
        wanted = np.array([schema.number_column(n) for n in numeric])
        known, slots = model._rows.find(wanted)
        place = np.flatnonzero(known)
        if len(place):
            take = g.constant(place, np.int64)
            x, gone = g("Gather", x, take, axis=1), g("Gather", gone, take, axis=1)
            x = g("Where", gone, [0.0], x)
            z = _standardized(g, model, x, slots)
            # A dense column that an event leaves out is the number 0, others add nothing.
            sparse = ~np.isin(wanted[known], model._scaler.dense)
            nothing = g("And", gone, g.constant(sparse[None, :], bool))
            parts.append(g("MatMul", g("Where", nothing, [0.0], z), weights[slots]))
            parts += _curved(g, model, weights, wanted[known], x, g("Not", nothing))
    table.check_all_used()
    parts.append(g.constant(table.base[None, :]))
    factor, level = _factor(g, model, nulls)
    return inputs, g("Mul", g("Sum", *parts), factor), level


def _factor(g: _Graph, model: "Model", nulls: list[str]) -> tuple[str, str]:
    """Return by what an event's features are multiplied, shape (n, 1), and which level answers.

    The latter has, of a model of several levels, shape (n, levels), a 1 for the level and else 0.
    """
    rule = model._missing
    counts = [[float(i not in rule.usually_null)] for i in range(1, len(nulls) + 1)]
    gone = g("Concat", *nulls, axis=1)
    lost = g("MatMul", gone, counts)
    present = g("Sub", [float(len(nulls))], g("ReduceSum", gone, g.constant([1], np.int64), keepdims=1))
    share = g("Div", lost, g("Max", g("Add", lost, present), [1.0]))
    above = [g("Cast", g("Greater", share, [edge]), to=11) for edge in EDGES]

    def by_range(values: list[float]) -> Any:
        total: Any = [[values[0]]]
        for step, before, after in zip(above, values, values[1:]):
            if after != before:
                total = g("Add", total, g("Mul", step, [after - before]))
        return total

    # What share rescaling has, and which level answers, change at some of the edges.
    applies = by_range([plain(shares)[1] for shares in rule.rules])
    grown = g("Add", [1.0], g("Div", g("Mul", lost, applies), g("Max", present, [1.0])))
    factor = g("Where", g("Greater", present, [0.0]), grown, [1.0])
    if len(model._levels) == 1:
        return factor, ""
    lacks = g("Greater", lost, [0.0])
    answers = [g("Where", lacks, by_range([float(level == i) for level in rule.levels]), [[float(i == 0)]]) for i in range(len(model._levels))]
    return factor, g("Concat", *answers, axis=1)


def _null_among(values: list[str]) -> str:
    """Return the string that stands for null beside the categories of a field."""
    null = "" if "" not in values else "<null>"
    while null in values:
        null = f"<{null}>"
    return null


class _Table:
    """What the strings and truth values of fields add to the scores, by the model's names."""

    def __init__(self, model: "Model", weights: np.ndarray):
        schema = model._schema
        if schema.names is None or schema.full:
            raise UnsupportedError("strings whose names the model does not keep: train with a larger record.max_names")
        self._model, self._weights = model, weights
        self._names = {h: name for h, name in schema.names}
        self._columns: dict[int, str] = {}
        self.base = np.zeros(weights.shape[1])  # what dense columns add that an event leaves out
        for f in schema.fields[1:]:
            if f.kind == "numeric":
                self._take(schema.number_column(f.name), f.name)

    def _take(self, column: int, name: str) -> int:
        if self._columns.setdefault(column, name) != name:
            raise UnsupportedError(f'"{name}" and "{self._columns[column]}" share a column: train with more record.bits')
        return column

    def _hash(self, field: str, value: str) -> int:
        decoder = self._model._decoder
        return decoder.value_hash(decoder.field_hash(field), value)

    def values(self, field: str) -> list[str]:
        """Return the strings that the model has met in a field."""
        found = [n[len(field) + 1 :] for h, n in self._names.items() if n.startswith(field + "=")]
        return [v for v in found if self._hash(field, v) in self._names]

    def adds(self, field: str, value: str) -> np.ndarray:
        """Return what a value adds to each score, beside the base."""
        model = self._model
        column = self._take(self._model._schema.column_of(self._hash(field, value)), f"{field}={value}")
        known, slots = model._rows.find(np.array([column]))
        if not known[0]:
            return np.zeros(self._weights.shape[1])
        x = np.array([0.0, 1.0])
        if model._statistics is not None:
            x = model._scaler.apply(model._statistics[slots[[0, 0]]], x)
        without = x[0] if column in model._scaler.dense else 0.0
        self.base += without * self._weights[slots[0]]
        return (x[1] - without) * self._weights[slots[0]]

    def check_all_used(self) -> None:
        rows = self._model._rows
        weighs = (self._weights[rows.slots] != 0).any(axis=1)
        for column in rows.columns[weighs].tolist():
            if self._model._curves is not None:
                column = self._model._curves.source(column)
            if column not in self._columns:
                raise UnsupportedError(f'the feature "{self._model._schema.name_of(column)}", whose field the model does not keep')


def _label(g: _Graph, model: "Model", score: str, names: np.ndarray) -> str:
    if model._outputs == 1:
        above = g("Greater", score, [model._least()])
        at = g("Squeeze", g("Cast", above, to=7), g.constant([1], np.int64))  # int64
    else:
        at = g("ArgMax", score, axis=1, keepdims=0)
    return g("Gather", g.constant(names, object), at, axis=0, output="label")


def _probabilities(g: _Graph, model: "Model", score: str) -> str:
    p = g("Sigmoid", score)
    if model._outputs == 1:
        return g("Concat", g("Sub", [1.0], p), p, axis=1, output="probabilities")
    total = g("ReduceSum", p, g.constant([1], np.int64), keepdims=1)
    some = g("Greater", total, [0.0])
    shared = g("Div", p, g("Where", some, total, [1.0]))
    return g("Where", some, shared, [1 / model._outputs], output="probabilities")
