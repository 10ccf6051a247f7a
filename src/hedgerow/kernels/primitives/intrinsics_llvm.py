"""The instructions of :mod:`hedgerow.kernels.primitives.intrinsics` in LLVM."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from hedgerow.compile.entry_code import Reference
from hedgerow.kernels.primitives.intrinsics import FAN_OUT, SPARE_WORDS

_INT32 = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()


def element_of(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Return a pointer to an item of an array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Fetch the cache line of ``array[index]`` (any address is allowed)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(element_of(context, builder, signature.args[0], *args), _BYTES)
        signature_ir = ir.FunctionType(ir.VoidType(), [_BYTES, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, signature_ir, "llvm.prefetch.p0")
        read, keep, data = _INT32(0), _INT32(3), _INT32(1)
        builder.call(function, [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def atomic_add(typingctx: Any, array: Any, index: Any, amount: Any) -> Any:
    """Add ``amount`` to ``array[index]`` in one step; return the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_of(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", pointer, args[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def atomic_load(typingctx: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]``, ordered after the writes that came before its store."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_of(context, builder, signature.args[0], *args)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), generate


@intrinsic
def atomic_store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Store ``value`` in ``array[index]``, ordered after all earlier writes of this thread."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_of(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def fused_multiply_add(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` with one rounding (IEEE 754 fusedMultiplyAdd)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), generate


@intrinsic
def call_address(typingctx: Any, address: Any, argument: Any) -> Any:
    """Call the C function ``int f(int)`` that lies at ``address``."""
    # The address is data, not a constant of the code, so compiled kernels can be kept on disk.

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function_type = ir.FunctionType(_INT32, [_INT32])
        function = builder.inttoptr(args[0], function_type.as_pointer())
        builder.call(function, [builder.trunc(args[1], _INT32)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def call_function(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Return the result of the C function at ``address``, an ``int``, as an int64."""
    # ``arguments``, a tuple of int64, may stand for pointers and for shorter numbers.

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(_INT32, [number.type for number in given])
        function = builder.inttoptr(args[0], kind.as_pointer())
        return builder.sext(builder.call(function, given), ir.IntType(64))

    return types.int64(types.int64, arguments), generate


@intrinsic
def float_of_bits(typingctx: Any, bits: Any) -> Any:
    """Return the float64 whose bit pattern is the int64 ``bits``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of_float(typingctx: Any, value: Any) -> Any:
    """Return the bit pattern of a float64 as an int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


def borrowed(context: Any, builder: Any, array_type: Any, data: Any, shape: Any) -> Any:
    """Return a C-ordered array of the memory at ``data``, which the caller owns."""
    array = context.make_array(array_type)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    itemsize = stride = context.get_constant(types.intp, size)
    strides: list[Any] = []
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    arrayobj.populate_array(array, data, shape, strides, itemsize, meminfo=None)
    return array._getvalue()  # noqa: SLF001  (Numba's way to read a structure)


@intrinsic
def array_at(typingctx: Any, address: Any, shape: Any, dtype: Any) -> Any:
    """Return the C-ordered array at ``address`` with ``shape``, a tuple of int64, and ``dtype``."""
    # Like ``numba.carray``, without counting references: the caller holds the memory.
    array_type = types.Array(dtype.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        item = context.get_data_type(array_type.dtype)
        data = builder.inttoptr(args[0], item.as_pointer())
        lengths = cgutils.unpack_tuple(builder, args[1])
        return borrowed(context, builder, array_type, data, lengths)

    return array_type(types.int64, types.UniTuple(types.int64, len(shape)), dtype), generate


@intrinsic
def line_start(typingctx: Any, words: Any) -> Any:
    """Return the first index of a 64-bit array whose address is a multiple of a cache line."""
    # NumPy arrays begin at any address.  Scratch space for vector code has ``SPARE_WORDS`` words
    # more than it needs, and starts at this index.

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.ptrtoint(data, ir.IntType(64))
        past = builder.lshr(builder.neg(address), ir.Constant(ir.IntType(64), 3))
        return builder.and_(past, ir.Constant(ir.IntType(64), SPARE_WORDS))

    return types.uint64(words), generate


@intrinsic
def words_as(typingctx: Any, words: Any, start: Any, length: Any, dtype: Any) -> Any:
    """Return the ``length`` items of ``dtype`` that begin at ``words[start]`` of a 64-bit array."""
    # Kernels divide scratch space with it.  Nothing checks that the items are inside the array.
    array_type = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = element_of(context, builder, signature.args[0], args[0], args[1])
        data = builder.bitcast(place, context.get_data_type(array_type.dtype).as_pointer())
        return borrowed(context, builder, array_type, data, [args[2]])

    return array_type(words, types.intp, types.intp, dtype), generate


@intrinsic
def by_reference(typingctx: Any, fields: Any) -> Any:
    """Return the address of a named tuple; it is valid until the calling function ends."""
    if isinstance(fields, Reference):
        return fields(fields), lambda context, builder, signature, args: args[0]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, context.get_data_type(fields))
        context.pack_value(builder, fields, args[0], place)
        return place

    return Reference(fields)(fields), generate


@intrinsic
def trailing_zeros(typingctx: Any, number: Any) -> Any:
    """Return the index of the lowest bit that is set; the number must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return number(number), generate


@intrinsic
def count_ones(typingctx: Any, number: Any) -> Any:
    """Count the bits of a number that are set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return number(number), generate


@intrinsic
def count_below(typingctx: Any, array: Any, start: Any, value: Any) -> Any:
    """Count the items of ``array[start : start + 16]`` that are smaller than ``value``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type = signature.args[0]
        data = context.make_array(array_type)(context, builder, args[0]).data
        element = context.get_value_type(array_type.dtype)
        vector = ir.VectorType(element, FAN_OUT)
        pointer = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        numbers = builder.load(pointer, align=array_type.dtype.bitwidth // 8)
        undefined = ir.Constant(vector, ir.Undefined)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), FAN_OUT), [0] * FAN_OUT)
        copies = builder.insert_element(undefined, args[2], ir.IntType(32)(0))
        copies = builder.shuffle_vector(copies, undefined, lanes)
        if isinstance(array_type.dtype, types.Float):
            below = builder.fcmp_ordered("<", numbers, copies)
        else:
            below = builder.icmp_signed("<", numbers, copies)
        mask = ir.IntType(FAN_OUT)
        count = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(mask, [mask]), f"llvm.ctpop.i{FAN_OUT}"
        )
        return builder.zext(builder.call(count, [builder.bitcast(below, mask)]), ir.IntType(64))

    return types.uint64(array, types.uint64, array.dtype), generate
