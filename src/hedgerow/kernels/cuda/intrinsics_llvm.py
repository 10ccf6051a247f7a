"""The instructions of :mod:`hedgerow.kernels.cuda.intrinsics` in LLVM, for NVIDIA's GPUs."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hedgerow.kernels.primitives.intrinsics_llvm import borrowed, element_of

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_ALL = _INT32(-1)
SHARED = "hedgerow_shared"
"""Name of the shared memory of a block; the launch says how much there is."""


def _register(builder: Any, name: str) -> Any:
    """Return a special register, as a 64-bit number."""
    kind = ir.FunctionType(_INT32, [])
    full = f"llvm.nvvm.read.ptx.sreg.{name}"
    function = cgutils.get_or_insert_function(builder.module, kind, full)
    return builder.zext(builder.call(function, []), _INT64)


@intrinsic
def thread_number(typingctx: Any) -> Any:
    """Return the number of the thread in its block."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _register(builder, "tid.x")

    return types.int64(), generate


@intrinsic(prefer_literal=True)
def block_number(typingctx: Any, direction: Any) -> Any:
    """Return the number of the block in direction 0 or 1 of the launch."""
    axis = "xy"[direction.literal_value]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _register(builder, f"ctaid.{axis}")

    return types.int64(direction), generate


@intrinsic
def block_size(typingctx: Any) -> Any:
    """Return the number of threads of a block."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _register(builder, "ntid.x")

    return types.int64(), generate


@intrinsic
def n_blocks(typingctx: Any) -> Any:
    """Return the number of blocks in the first direction of the launch."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _register(builder, "nctaid.x")

    return types.int64(), generate


@intrinsic
def sync_block(typingctx: Any) -> Any:
    """Wait until all threads of the block are here; they see what the others have written."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Inline code: LLVM must not move the memory accesses of a thread across it.
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.asm(kind, "bar.sync 0;", "~{memory}", [], side_effect=True)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def shared_words(typingctx: Any, length: Any) -> Any:
    """Return the memory that the threads of a block share, as int32 (length,)."""
    array_type = types.Array(types.int32, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        module = builder.module
        if SHARED in module.globals:
            memory = module.globals[SHARED]
        else:
            memory = ir.GlobalVariable(module, ir.ArrayType(_INT32, 0), SHARED, addrspace=3)
            memory.linkage, memory.align = "external", 16
        data = builder.addrspacecast(memory, _INT32.as_pointer())
        return borrowed(context, builder, array_type, data, [args[0]])

    return array_type(types.int64), generate


@intrinsic
def add_shared(typingctx: Any, words: Any, index: Any, amount: Any) -> Any:
    """Add to a word of shared memory in one step; return its previous value."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = element_of(context, builder, signature.args[0], args[0], args[1])
        shared = builder.addrspacecast(pointer, ir.PointerType(_INT32, addrspace=3))
        return builder.atomic_rmw("add", shared, args[2], "monotonic")

    return types.int32(words, types.int64, types.int32), generate


def _add_global(context: Any, builder: Any, signature: Any, args: Any, size: str) -> Any:
    """Add to a number of ``size`` bits in the memory of the GPU."""
    pointer = element_of(context, builder, signature.args[0], args[0], args[1])
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, args[2].type])
    code, registers = f"red.relaxed.gpu.add.u{size} [$0], $1;", "l,r" if size == "32" else "l,l"
    builder.asm(kind, code, registers, [pointer, args[2]], side_effect=True)
    return context.get_dummy_value()


@intrinsic
def add_global(typingctx: Any, numbers: Any, index: Any, amount: Any) -> Any:
    """Add to an int64 of the memory of the GPU in one step."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _add_global(context, builder, signature, args, "64")

    return types.void(numbers, types.int64, types.int64), generate


@intrinsic
def add_count(typingctx: Any, numbers: Any, index: Any, amount: Any) -> Any:
    """Add to an int32 of the memory of the GPU in one step."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _add_global(context, builder, signature, args, "32")

    return types.void(numbers, types.int64, types.int32), generate


@intrinsic
def read_lane(typingctx: Any, number: Any, lane: Any) -> Any:
    """Return the ``number``, of 32 bits or 64, that thread ``lane`` of the warp holds."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_INT32, [_INT32, _INT32, _INT32, _INT32])
        name = "llvm.nvvm.shfl.sync.idx.i32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        source = builder.trunc(args[1], _INT32)

        def read(word: Any) -> Any:
            return builder.call(function, [_ALL, word, source, _INT32(31)])

        if signature.args[0].bitwidth == 32:
            return read(args[0])
        low = read(builder.trunc(args[0], _INT32))
        high = read(builder.trunc(builder.lshr(args[0], _INT64(32)), _INT32))
        upper = builder.shl(builder.zext(high, _INT64), _INT64(32))
        return builder.or_(upper, builder.zext(low, _INT64))

    return number(number, types.int64), generate
