"""Eight numbers side by side: the vectors of the processor as a Numba type.

LLVM finds vectors by itself where neighbours in memory are independent.  The
search of splits is a running sum over neighbours, so it runs over eight columns
at a time instead, and says so with these types::

    a, b : eight int64 or eight float64           a + b, a - b, a * b, a / b
    a >= b, a > b : eight truths, for ``choose``

spread(x)                    x in every lane
load_turned(array, at, bin)  eight vectors: lane j of the k-th is array[at[j] + bin + k]
load_lanes(array, at)        lane j is array[at + j]
gather(array, at)            array[at[j]] in lane j
load_floats(array, at)       lane j is array[at + j], of float64 or int32, as float64
store_floats(array, at, a)   array[at + j] = lane j, to float64
to_float(a)                  int64 to float64
choose(truths, a, b)         a where true, else b
lane_of(a, j)                one of the eight numbers
sum_lanes(a)                 their sum, always in the same order

What stands in memory as a line of sixteen int32 is added and subtracted as it is::

load_line(array, at)         sixteen neighbours of an int32 array
store_line(array, at, a)     and back
keep_line(a, word)           each of them ``&`` the int32 ``word``

All are compiled for any processor: four or two lanes at a time where it has
shorter vectors.  Division by zero follows IEEE 754.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

N_LANES = 8
LINE = 16
"""Numbers of a line: 64 bytes, as many as a processor fetches at once."""
_INT32 = ir.IntType(32)


class Lanes(types.Type):  # type: ignore[misc]
    """Numba type of eight numbers of one kind, or of another number of them."""

    def __init__(self, dtype: Any, width: int = N_LANES) -> None:
        self.dtype = dtype
        self.width = width
        super().__init__(name=f"lanes({dtype}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """In LLVM: a vector (of single bits, where the lanes are truths)."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        bits = fe_type.dtype == types.boolean
        element = ir.IntType(1) if bits else dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.width))


_INTS, _FLOATS, _TRUTHS = Lanes(types.int64), Lanes(types.float64), Lanes(types.boolean)
_LINE = Lanes(types.int32, LINE)


def _define(symbol: Callable[..., Any], table: dict[Lanes, str], result: Lanes | None) -> None:
    """Let ``symbol`` work on lanes: ``table`` names the LLVM instruction of each kind."""

    @infer_global(symbol)
    class _Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and args[0] == args[1] and args[0] in table:
                return signature(result or args[0], *args)
            return None

    @lower_builtin(symbol, Lanes, Lanes)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = table[sig.args[0]]
        if result is None:
            return getattr(builder, name)(*args)
        compare = builder.icmp_signed if name == "int" else builder.fcmp_ordered
        return compare({operator.gt: ">", operator.ge: ">="}[symbol], *args)


_define(operator.add, {_INTS: "add", _FLOATS: "fadd", _LINE: "add"}, None)
_define(operator.sub, {_INTS: "sub", _FLOATS: "fsub", _LINE: "sub"}, None)
_define(operator.mul, {_FLOATS: "fmul"}, None)
_define(operator.truediv, {_FLOATS: "fdiv"}, None)
_define(operator.gt, {_INTS: "int", _FLOATS: "float"}, _TRUTHS)
_define(operator.ge, {_INTS: "int", _FLOATS: "float"}, _TRUTHS)


@intrinsic
def spread(typingctx: Any, value: Any) -> Any:
    """``value`` (int64 or float64) in every lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = context.get_value_type(sig.return_type)
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), args[0], _INT32(0))
        zeros = ir.Constant(ir.VectorType(_INT32, N_LANES), [0] * N_LANES)
        return builder.shuffle_vector(first, first, zeros)

    kind = types.float64 if isinstance(value, types.Float) else types.int64
    return Lanes(kind)(kind), generate


def _turn(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose eight vectors: swap blocks of 4, then 2, then 1, across the diagonal."""
    for size in (4, 2, 1):
        low = [(i if not i & size else i - size + N_LANES) for i in range(N_LANES)]
        high = [(i + size if not i & size else i + N_LANES) for i in range(N_LANES)]
        masks = [ir.Constant(ir.VectorType(_INT32, N_LANES), mask) for mask in (low, high)]
        turned = list(rows)
        for i in range(N_LANES):
            if not i & size:
                pair = rows[i], rows[i + size]
                turned[i] = builder.shuffle_vector(*pair, masks[0])
                turned[i + size] = builder.shuffle_vector(*pair, masks[1])
        rows = turned
    return rows


@intrinsic
def load_turned(typingctx: Any, array: Any, at: Any, offset: Any) -> Any:
    """Eight vectors of int64: lane j of the k-th is ``array[at[j] + offset + k]``.

    ``array`` holds int64 or int32; ``at`` is an int64 array of eight places.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        places = context.make_array(sig.args[1])(context, builder, args[1]).data
        width = sig.args[0].dtype.bitwidth
        row_type = ir.VectorType(ir.IntType(width), N_LANES)
        rows = []
        for lane in range(N_LANES):
            place = builder.load(builder.gep(places, [ir.IntType(64)(lane)]))
            pointer = builder.gep(data, [builder.add(place, args[2])])
            pointer = builder.bitcast(pointer, row_type.as_pointer())
            rows.append(builder.load(pointer, align=width // 8))
        columns = _turn(builder, rows)
        if width < 64:
            vector = context.get_value_type(_INTS)
            columns = [builder.sext(column, vector) for column in columns]
        return context.make_tuple(builder, sig.return_type, columns)

    return types.UniTuple(_INTS, N_LANES)(array, at, types.int64), generate


@intrinsic
def load_lanes(typingctx: Any, array: Any, at: Any) -> Any:
    """Eight neighbours of an int64 or int32 array as int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        width = sig.args[0].dtype.bitwidth
        row_type = ir.VectorType(ir.IntType(width), N_LANES)
        pointer = builder.bitcast(builder.gep(data, [args[1]]), row_type.as_pointer())
        row = builder.load(pointer, align=width // 8)
        return row if width == 64 else builder.sext(row, context.get_value_type(_INTS))

    return _INTS(array, types.int64), generate


@intrinsic
def gather(typingctx: Any, array: Any, at: Any) -> Any:
    """Eight numbers of a float64 array, from the places in an int64 array of eight."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        places = context.make_array(sig.args[1])(context, builder, args[1]).data
        lanes = ir.Constant(context.get_value_type(_FLOATS), ir.Undefined)
        for lane in range(N_LANES):
            place = builder.load(builder.gep(places, [ir.IntType(64)(lane)]))
            number = builder.load(builder.gep(data, [place]))
            lanes = builder.insert_element(lanes, number, _INT32(lane))
        return lanes

    return _FLOATS(array, at), generate


@intrinsic
def to_float(typingctx: Any, lanes: Any) -> Any:
    """Eight int64 as float64, rounded to nearest."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        ints, floats = (context.get_value_type(kind) for kind in (_INTS, _FLOATS))
        if _converts_words(context):
            return builder.sitofp(args[0], floats)
        return two_halves_to_float(builder, args[0], ints, floats)

    return _FLOATS(_INTS), generate


def _converts_words(context: Any) -> bool:
    """Whether the processor turns vectors of int64 into float64; without, they go one by one."""
    return "+avx512dq" in context.codegen().magic_tuple()[2]


def two_halves_to_float(builder: Any, words: Any, ints: Any, floats: Any) -> Any:
    """``words`` as float64 by operations on vectors that all processors have.

    The halves become floats as the lower bits of a number that is large enough, so only the sum
    of the two is rounded, as it is by the instruction::

        word = 2**32 high + low        low | bits of 2**52            = 2**52 + low
        high + 2**31 | bits of 2**84   = 2**84 + 2**63 + 2**32 high
    """

    def each(number: int) -> Any:
        return ir.Constant(ints, [number] * N_LANES)

    low = builder.or_(builder.and_(words, each(0xFFFFFFFF)), each(0x4330 << 48))
    turned = builder.xor(words, each(-(1 << 63)))  # high + 2**31, in the upper half
    high = builder.or_(builder.lshr(turned, each(32)), each(0x4530 << 48))
    excess = ir.Constant(floats, [float(2**84 + 2**63 + 2**52)] * N_LANES)
    without = builder.fsub(builder.bitcast(high, floats), excess)
    return builder.fadd(without, builder.bitcast(low, floats))


@intrinsic
def choose(typingctx: Any, truths: Any, a: Any, b: Any) -> Any:
    """``a`` in the lanes that are true, ``b`` in the others."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(_TRUTHS, a, a), generate


@intrinsic
def lane_of(typingctx: Any, lanes: Any, lane: Any) -> Any:
    """The number in one lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], builder.trunc(args[1], _INT32))

    return lanes.dtype(lanes, types.int64), generate


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any, row: Any) -> Any:
    """Where ``array[at]`` begins, as a vector of type ``row``."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), row.as_pointer())


@intrinsic
def sum_lanes(typingctx: Any, lanes: Any) -> Any:
    """The sum of eight float64: halves are added, then their halves, then the last two."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        total = args[0]
        for size in (4, 2, 1):
            mask = ir.Constant(
                ir.VectorType(_INT32, N_LANES), [(i + size) % N_LANES for i in range(N_LANES)]
            )
            total = builder.fadd(total, builder.shuffle_vector(total, total, mask))
        return builder.extract_element(total, _INT32(0))

    return types.float64(_FLOATS), generate


@intrinsic
def load_floats(typingctx: Any, array: Any, at: Any) -> Any:
    """Eight neighbours of a float64 or int32 array as float64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        floats = context.get_value_type(_FLOATS)
        if isinstance(sig.args[0].dtype, types.Float):
            pointer = _pointer(context, builder, sig.args[0], args[0], args[1], floats)
            return builder.load(pointer, align=8)
        words = ir.VectorType(_INT32, N_LANES)
        pointer = _pointer(context, builder, sig.args[0], args[0], args[1], words)
        return builder.sitofp(builder.load(pointer, align=4), floats)

    return _FLOATS(array, types.int64), generate


@intrinsic
def store_floats(typingctx: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Write eight neighbours of a float64 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        floats = context.get_value_type(_FLOATS)
        pointer = _pointer(context, builder, sig.args[0], args[0], args[1], floats)
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), generate


@intrinsic
def load_line(typingctx: Any, array: Any, at: Any) -> Any:
    """Sixteen neighbours of an int32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        line = context.get_value_type(_LINE)
        pointer = _pointer(context, builder, sig.args[0], args[0], args[1], line)
        return builder.load(pointer, align=4)

    return _LINE(array, types.int64), generate


@intrinsic
def store_line(typingctx: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Write sixteen neighbours of an int32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        line = context.get_value_type(_LINE)
        pointer = _pointer(context, builder, sig.args[0], args[0], args[1], line)
        builder.store(args[2], pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), generate


@intrinsic
def keep_line(typingctx: Any, lanes: Any, word: Any) -> Any:
    """Each of sixteen int32 ``&`` the lower half of ``word``: -1 keeps them, 0 makes them 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        line = context.get_value_type(_LINE)
        low = builder.trunc(args[1], _INT32)
        first = builder.insert_element(ir.Constant(line, ir.Undefined), low, _INT32(0))
        zeros = ir.Constant(ir.VectorType(_INT32, LINE), [0] * LINE)
        return builder.and_(args[0], builder.shuffle_vector(first, first, zeros))

    return _LINE(lanes, types.int64), generate
