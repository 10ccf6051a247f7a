"""The instructions of :mod:`hedgerow.kernels.simd.lanes` in LLVM, and their types for Numba."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from hedgerow.compile.just_in_time import processor_has
from hedgerow.kernels.simd.lanes import LINE, N_LANES, WIDTH

_INT32 = ir.IntType(32)


class Lanes(types.Type):  # type: ignore[misc]
    """Numba type of ``width`` numbers of one kind, by default ``WIDTH``."""

    def __init__(self, dtype: Any, width: int = WIDTH) -> None:
        self.dtype = dtype
        self.width = width
        super().__init__(name=f"lanes({dtype}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """The LLVM type of lanes: a vector (of single bits, if the lanes are truths)."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        bits = fe_type.dtype == types.boolean
        element = ir.IntType(1) if bits else dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.width))


_INTS, _FLOATS, _TRUTHS = Lanes(types.int64), Lanes(types.float64), Lanes(types.boolean)
_LINE = Lanes(types.int32, LINE)


def _define(symbol: Callable[..., Any], table: dict[Lanes, str], result: Lanes | None) -> None:
    """Let ``symbol`` work on lanes, and on lanes and a number: ``table`` names the instructions."""

    @infer_global(symbol)
    class _Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            lanes = _lanes_among(args)
            if len(args) != 2 or lanes not in table:
                return None
            # A number becomes one of the lanes' kind, if it does so exactly.
            number = types.Integer if lanes.dtype == types.int64 else types.Number
            if not all(kind == lanes or isinstance(kind, number) for kind in args):
                return None
            kinds = [kind if kind == lanes else lanes.dtype for kind in args]
            return signature(result or lanes, *kinds)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _lanes_among(sig.args)
        name, pair = table[lanes], _in_lanes(context, builder, lanes, sig.args, args)
        if result is None:
            return getattr(builder, name)(*pair)
        compare = builder.icmp_signed if name == "int" else builder.fcmp_ordered
        return compare({operator.gt: ">", operator.ge: ">="}[symbol], *pair)

    for kinds in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(symbol, *kinds)(lower)


def _lanes_among(kinds: Any) -> Any:
    return next((kind for kind in kinds if isinstance(kind, Lanes)), None)


def _in_lanes(context: Any, builder: Any, lanes: Any, kinds: Any, values: Any) -> list[Any]:
    """Return the values as lanes; a number stands in all of them."""
    vector = context.get_value_type(lanes)
    return [
        value if kind == lanes else _filled(builder, vector, value)
        for kind, value in zip(kinds, values, strict=True)
    ]


_define(operator.add, {_INTS: "add", _FLOATS: "fadd", _LINE: "add"}, None)
_define(operator.sub, {_INTS: "sub", _FLOATS: "fsub", _LINE: "sub"}, None)
_define(operator.mul, {_FLOATS: "fmul"}, None)
_define(operator.truediv, {_FLOATS: "fdiv"}, None)
_define(operator.and_, {_TRUTHS: "and_"}, None)
_define(operator.gt, {_INTS: "int", _FLOATS: "float"}, _TRUTHS)
_define(operator.ge, {_INTS: "int", _FLOATS: "float"}, _TRUTHS)


def _filled(builder: Any, vector: Any, value: Any) -> Any:
    """Return a vector with ``value`` in every lane."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _INT32(0))
    zeros = ir.Constant(ir.VectorType(_INT32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, first, zeros)


@intrinsic
def spread(typingctx: Any, value: Any) -> Any:
    """Return ``value`` (int64 or float64) in every lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _filled(builder, context.get_value_type(sig.return_type), args[0])

    kind = types.float64 if isinstance(value, types.Float) else types.int64
    return Lanes(kind)(kind), generate


def _turn(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose a square of vectors: swap blocks of 4, 2 and 1 across the diagonal."""
    n, size = len(rows), len(rows) // 2
    while size > 0:
        low = [(i if not i & size else i - size + n) for i in range(n)]
        high = [(i + size if not i & size else i + n) for i in range(n)]
        masks = [ir.Constant(ir.VectorType(_INT32, n), mask) for mask in (low, high)]
        turned = list(rows)
        for i in range(n):
            if not i & size:
                pair = rows[i], rows[i + size]
                turned[i] = builder.shuffle_vector(*pair, masks[0])
                turned[i + size] = builder.shuffle_vector(*pair, masks[1])
        rows, size = turned, size // 2
    return rows


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def _load(context: Any, builder: Any, width: int, array_type: Any, array: Any, at: Any) -> Any:
    """Load ``array[at : at + width]`` as a vector."""
    row = ir.VectorType(context.get_value_type(array_type.dtype), width)
    pointer = builder.gep(_data(context, builder, array_type, array), [at])
    pointer = builder.bitcast(pointer, row.as_pointer())
    return builder.load(pointer, align=array_type.dtype.bitwidth // 8)


def _store(context: Any, builder: Any, array_type: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Store ``lanes`` in ``array`` from ``at`` on."""
    pointer = builder.gep(_data(context, builder, array_type, array), [at])
    pointer = builder.bitcast(pointer, lanes.type.as_pointer())
    builder.store(lanes, pointer, align=array_type.dtype.bitwidth // 8)
    return context.get_dummy_value()


def _places(context: Any, builder: Any, array_type: Any, array: Any) -> list[Any]:
    """Load the first ``WIDTH`` numbers of an array."""
    start = _data(context, builder, array_type, array)
    return [builder.load(builder.gep(start, [ir.IntType(64)(lane)])) for lane in range(WIDTH)]


def _to_ints(context: Any, builder: Any, lanes: Any) -> Any:
    ints = context.get_value_type(_INTS)
    return lanes if lanes.type == ints else builder.sext(lanes, ints)


@intrinsic
def load_turned(typingctx: Any, array: Any, at: Any, offset: Any) -> Any:
    """Load ``WIDTH`` vectors: lane j of the i-th is ``array[at[j] + offset + i]``, as int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        places = _places(context, builder, sig.args[1], args[1])
        rows = [
            _load(context, builder, WIDTH, sig.args[0], args[0], builder.add(place, args[2]))
            for place in places
        ]
        columns = [_to_ints(context, builder, column) for column in _turn(builder, rows)]
        return context.make_tuple(builder, sig.return_type, columns)

    result = types.UniTuple(_INTS, WIDTH)
    return result(array, at, types.int64), generate


@intrinsic
def load_lanes(typingctx: Any, array: Any, at: Any) -> Any:
    """Load neighbours of an int64 or int32 array as int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _to_ints(context, builder, _load(context, builder, WIDTH, sig.args[0], *args))

    return _INTS(array, types.int64), generate


@intrinsic
def gather(typingctx: Any, array: Any, at: Any) -> Any:
    """Load numbers of a float64 array, at the positions in an int64 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0])
        lanes = ir.Constant(context.get_value_type(_FLOATS), ir.Undefined)
        for lane, place in enumerate(_places(context, builder, sig.args[1], args[1])):
            number = builder.load(builder.gep(data, [place]))
            lanes = builder.insert_element(lanes, number, _INT32(lane))
        return lanes

    return _FLOATS(array, at), generate


@intrinsic
def to_float(typingctx: Any, number: Any) -> Any:
    """Convert int64, one or in lanes, to float64, rounded to nearest."""
    result = _FLOATS if number == _INTS else types.float64

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        floats = context.get_value_type(result)
        if result != _FLOATS or _converts_words():
            return builder.sitofp(args[0], floats)
        return two_halves_to_float(builder, args[0], context.get_value_type(_INTS), floats)

    return result(_INTS if number == _INTS else types.int64), generate


@intrinsic
def short_to_float(typingctx: Any, lanes: Any) -> Any:
    """Convert int64 between -2**51 and 2**51 to float64.

    They become the last bits of a large number, which is then subtracted::

        bits of 1.5 * 2**52 + word = bits of (1.5 * 2**52 + word)
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        ints, floats = (context.get_value_type(kind) for kind in (_INTS, _FLOATS))
        if _converts_words():
            return builder.sitofp(args[0], floats)
        bits = ir.Constant(ints, [0x4338 << 48] * WIDTH)
        excess = ir.Constant(floats, [1.5 * 2**52] * WIDTH)
        return builder.fsub(builder.bitcast(builder.add(args[0], bits), floats), excess)

    return _FLOATS(_INTS), generate


def _converts_words() -> bool:
    """Return whether the processor converts vectors of int64 to float64 in one instruction."""
    return processor_has("avx512dq")


def two_halves_to_float(builder: Any, words: Any, ints: Any, floats: Any) -> Any:
    """Convert ``words`` to float64 by vector operations that all processors have.

    Each half becomes a float as the lower bits of a large enough number, so only the sum of
    the halves is rounded, as by the instruction::

        word = 2**32 high + low        low | bits of 2**52            = 2**52 + low
        high + 2**31 | bits of 2**84   = 2**84 + 2**63 + 2**32 high
    """

    def each(number: int) -> Any:
        return ir.Constant(ints, [number] * ints.count)

    low = builder.or_(builder.and_(words, each(0xFFFFFFFF)), each(0x4330 << 48))
    turned = builder.xor(words, each(-(1 << 63)))  # high + 2**31, in the upper half
    high = builder.or_(builder.lshr(turned, each(32)), each(0x4530 << 48))
    excess = ir.Constant(floats, [float(2**84 + 2**63 + 2**52)] * ints.count)
    without = builder.fsub(builder.bitcast(high, floats), excess)
    return builder.fadd(without, builder.bitcast(low, floats))


@intrinsic
def choose(typingctx: Any, truths: Any, a: Any, b: Any) -> Any:
    """Return ``a`` where true, else ``b``: in each lane, or one of two numbers."""
    lanes = _lanes_among((a, b))
    either = types.float64 if any(isinstance(kind, types.Float) for kind in (a, b)) else types.int64
    if isinstance(truths, Lanes):
        lanes = lanes or Lanes(either)
    kinds = [kind if kind == lanes else (lanes.dtype if lanes else either) for kind in (a, b)]

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pair = _in_lanes(context, builder, lanes, kinds, args[1:]) if lanes else args[1:]
        return builder.select(args[0], *pair)

    return (lanes or either)(truths, *kinds), generate


@intrinsic
def lane_of(typingctx: Any, lanes: Any, lane: Any) -> Any:
    """Return the number in one lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], builder.trunc(args[1], _INT32))

    return lanes.dtype(lanes, types.int64), generate


@intrinsic
def load_floats(typingctx: Any, array: Any, at: Any) -> Any:
    """Load neighbours of a float64 or int32 array as float64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = _load(context, builder, WIDTH, sig.args[0], *args)
        floats = context.get_value_type(_FLOATS)
        return row if row.type == floats else builder.sitofp(row, floats)

    return _FLOATS(array, types.int64), generate


@intrinsic
def store_floats(typingctx: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Write neighbours of a float64 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _store(context, builder, sig.args[0], *args)

    return types.void(array, types.int64, lanes), generate


@intrinsic
def sum_floats(typingctx: Any, array: Any, at: Any) -> Any:
    """Return the sum of ``N_LANES`` float64 neighbours, whatever ``WIDTH`` is."""
    # The two halves are added, then the halves of the sum, then the last two numbers.

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        total, size = _load(context, builder, N_LANES, sig.args[0], *args), N_LANES // 2
        while size > 0:
            halves = [
                ir.Constant(ir.VectorType(_INT32, size), list(range(first, first + size)))
                for first in (0, size)
            ]
            low, high = (builder.shuffle_vector(total, total, half) for half in halves)
            total, size = builder.fadd(low, high), size // 2
        return builder.extract_element(total, _INT32(0))

    return types.float64(array, types.int64), generate


@intrinsic
def load_line(typingctx: Any, array: Any, at: Any) -> Any:
    """Load sixteen neighbours of an int32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _load(context, builder, LINE, sig.args[0], *args)

    return _LINE(array, types.int64), generate


@intrinsic
def store_line(typingctx: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Write sixteen neighbours of an int32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _store(context, builder, sig.args[0], *args)

    return types.void(array, types.int64, lanes), generate


@intrinsic
def keep_line(typingctx: Any, lanes: Any, word: Any) -> Any:
    """Return sixteen int32, each ``&`` the lower half of ``word``: -1 keeps them, 0 clears them."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        low = builder.trunc(args[1], _INT32)
        return builder.and_(args[0], _filled(builder, args[0].type, low))

    return _LINE(lanes, types.int64), generate


@intrinsic
def load_rows(typingctx: Any, array: Any, at: Any, first: Any) -> Any:
    """Load ``WIDTH`` vectors: lane j of vector i is ``array[at[first + j] + i]``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data, places = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(sig.args[:2], args[:2], strict=True)
        )
        row = context.get_value_type(_FLOATS)
        rows = []
        for lane in range(WIDTH):
            place = builder.add(args[2], ir.IntType(64)(lane))
            start = builder.load(builder.gep(places, [place]))
            pointer = builder.bitcast(builder.gep(data, [start]), row.as_pointer())
            rows.append(builder.load(pointer, align=8))
        return context.make_tuple(builder, sig.return_type, _turn(builder, rows))

    result = types.UniTuple(_FLOATS, WIDTH)
    return result(array, at, types.int64), generate


@intrinsic
def truths_of(typingctx: Any, word: Any) -> Any:
    """Return the lowest ``WIDTH`` bits of a word as truths, the lowest bit in lane 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.trunc(args[0], ir.IntType(WIDTH))
        return builder.bitcast(bits, ir.VectorType(ir.IntType(1), WIDTH))

    return _TRUTHS(types.uint64), generate


@intrinsic
def word_of(typingctx: Any, truths: Any) -> Any:
    """Invert ``truths_of``; the other bits are 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(WIDTH)), ir.IntType(64))

    return types.uint64(_TRUTHS), generate
