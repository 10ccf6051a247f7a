"""LLVM code of the entries of GPU kernels, which the driver launches.

An entry is a function without a result, whose parameters are whole numbers of 64 bits and
addresses: one for each number, two for each array (address and length).  It makes arrays and
named tuples of them, and calls the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.np import arrayobj

WORD = ir.IntType(64)


def write_entry(module: Any, compiled: Any, symbol: str) -> None:
    """Define the entry of a compiled kernel in an LLVM module."""
    context, signature = compiled.target_context, compiled.signature
    parameters = [kind for item in signature.args for kind in _parameters_of(context, item)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), parameters), symbol)
    function.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    given = iter(function.args)
    values = [_value_of(context, builder, kind, given) for kind in signature.args]
    kernel_type = context.call_conv.get_function_type(signature.return_type, signature.args)
    name = compiled.fndesc.llvm_func_name
    kernel = module.globals.get(name) or ir.Function(module, kernel_type, name)
    context.call_conv.call_function(builder, kernel, signature.return_type, signature.args, values)
    builder.ret_void()


def _parameters_of(context: Any, kind: Any) -> Iterator[Any]:
    """Yield the parameters of an argument."""
    if isinstance(kind, types.BaseTuple):
        for item in kind.types:
            yield from _parameters_of(context, item)
    elif isinstance(kind, types.Array):
        if kind.ndim != 1 or kind.layout != "C":
            raise TypeError(f"arrays on a GPU have one dimension, not {kind}")
        yield context.get_data_type(kind.dtype).as_pointer()
        yield WORD
    elif isinstance(kind, types.Integer) and kind.bitwidth == 64:
        yield WORD
    else:
        raise TypeError(f"GPU kernels take arrays and whole numbers of 64 bits, not {kind}")


def _value_of(context: Any, builder: Any, kind: Any, given: Iterator[Any]) -> Any:
    """Return the next value of a Numba type, from the parameters."""
    if isinstance(kind, types.BaseTuple):
        values = [_value_of(context, builder, item, given) for item in kind.types]
        return context.make_tuple(builder, kind, values)
    if not isinstance(kind, types.Array):
        return next(given)
    data, length = next(given), next(given)
    size = WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    array = arrayobj.make_array(kind)(context, builder)
    arrayobj.populate_array(array, data, [length], [size], size, meminfo=None)
    return array._getvalue()  # noqa: SLF001  (Numba's way)
