"""LLVM code of entries, which Python calls to run kernels.

An entry is a function of the interpreter's C interface.  :mod:`hedgerow.compile.library`
makes a built-in function from it::

    PyObject *entry(PyObject *self, PyObject *arguments)

    self        None to run the kernel; True to check only whether the types fit
    arguments   the tuple of the call

    returns     result of the kernel (or True), NotImplemented for arguments of other
                types, NULL with an exception set

The entry has the arguments read (:mod:`hedgerow.compile.read_arguments`), releases the
interpreter's lock, and calls the kernel.  A call takes less time than a call of Numba's
dispatcher (``benchmarks/calls.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_getattr_generic, models, register_model

from hedgerow.compile.read_arguments import (
    BYTE,
    EXCEPTION,
    FITS,
    INT,
    POINTER,
    READER,
    READER_TYPE,
    STATE,
    VOID,
    WORD,
    Interpreter,
    declare_table,
    n_words_of,
    program_of,
    write_reader,
)


class Reference(types.CPointer):  # type: ignore[misc]
    """A named tuple in memory; its fields are read where a function asks for them.

    By value, a tuple of a hundred arrays is seven hundred arguments of each function that it is
    handed to, which took Numba a quarter of the time of a tree's code.
    """


@register_model(Reference)
class _ReferenceModel(models.PointerModel):  # type: ignore[misc]
    """An address."""


@infer_getattr
class _ReferenceFields(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:
        """Return the type of a field, or None if there is no such field."""
        fields = reference.dtype.fields
        return reference.dtype[fields.index(name)] if name in fields else None


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _read_field(context: Any, builder: Any, reference: Any, address: Any, name: str) -> Any:
    index = reference.dtype.fields.index(name)
    place = cgutils.gep_inbounds(builder, address, 0, index)
    return context.unpack_value(builder, reference.dtype[index], place)


_MANY = 500  # words; only the state of growing trees has as many


def kinds_of_entry(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types that a kernel is compiled for: large named tuples by reference."""
    return tuple(
        Reference(kind) if n_words_of(kind) > _MANY and _is_of_words(kind) else kind
        for kind in kinds
    )


def _is_of_words(kind: Any) -> bool:
    """Return whether the words of the reader are a value as Numba lays it out in memory."""
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_of_words, kind.types))
    return isinstance(kind, types.Array | types.NoneType) or getattr(kind, "bitwidth", 0) == 64


def write_entry(module: Any, compiled: Any, symbol: str) -> None:
    """Define the entry of a compiled kernel in an LLVM module."""
    context, signature = compiled.target_context, compiled.signature
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER, POINTER]), symbol)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    requested, arguments = function.args
    python = Interpreter(builder, declare_table(module))
    given = [kind.dtype if isinstance(kind, Reference) else kind for kind in signature.args]
    # Have the arguments read; the words are theirs, unless the entry ends here.
    whole = types.Tuple(given)
    code, n_words = bytearray(program_of(whole)), n_words_of(whole)
    program = cgutils.global_constant(
        module, "program", ir.Constant(ir.ArrayType(BYTE, len(code)), code)
    )
    memory = cgutils.alloca_once(builder, WORD, size=WORD(max(n_words, 1)))
    state = cgutils.alloca_once(builder, STATE)
    builder.store(builder.bitcast(program, POINTER), builder.gep(state, [INT(0), INT(0)]))
    builder.store(memory, builder.gep(state, [INT(0), INT(1)]))
    reader = ir.Function(module, READER_TYPE, READER)
    status = builder.call(reader, [arguments, state])
    with builder.if_then(builder.icmp_signed("!=", status, INT(FITS)), likely=False):
        with builder.if_then(builder.icmp_signed("==", status, INT(EXCEPTION))):
            builder.ret(ir.Constant(POINTER, None))
        builder.ret(python.new_reference("NotImplemented"))
    words = (builder.gep(memory, [WORD(k)]) for k in range(n_words))
    with builder.if_then(python.is_object(requested, "True"), likely=False):
        builder.ret(python.new_reference("True"))
    values = [_value_of(context, builder, kind, words) for kind in signature.args]

    thread = python.call("PyEval_SaveThread", POINTER)
    kernel_type = context.call_conv.get_function_type(signature.return_type, signature.args)
    kernel = ir.Function(module, kernel_type, compiled.fndesc.llvm_func_name)
    status, value = context.call_conv.call_function(
        builder, kernel, signature.return_type, signature.args, values
    )
    python.call("PyEval_RestoreThread", VOID, thread)
    with builder.if_then(builder.not_(status.is_ok), likely=False):
        text = context.insert_const_string(module, f"the kernel of {symbol} failed")
        python.call("PyErr_SetString", VOID, python.object("RuntimeError"), text)
        builder.ret(ir.Constant(POINTER, None))
    builder.ret(_object_of(builder, python, signature.return_type, value))


def write_support(module: Any, build: str) -> None:
    """Define the code that the entries of a library share, and the name of the build."""
    table = declare_table(module)
    table.initializer = ir.Constant(table.value_type, None)
    write_reader(module, table)
    text = bytearray(build.encode() + b"\0")
    name = ir.GlobalVariable(module, ir.ArrayType(BYTE, len(text)), "hedgerow_build")
    name.initializer = ir.Constant(name.value_type, text)


def _value_of(context: Any, builder: Any, kind: Any, words: Iterator[Any]) -> Any:
    """Return the next value of a Numba type, from the words of the reader."""
    if isinstance(kind, Reference):
        place, *_ = itertools.islice(words, n_words_of(kind.dtype))
        return builder.bitcast(place, context.get_data_type(kind.dtype).as_pointer())
    if isinstance(kind, types.BaseTuple):
        values = [_value_of(context, builder, item, words) for item in kind.types]
        return context.make_tuple(builder, kind, values)
    if isinstance(kind, types.NoneType):
        next(words)
        return context.get_dummy_value()
    if isinstance(kind, types.Array):
        place, *_ = itertools.islice(words, n_words_of(kind))
        return builder.load(builder.bitcast(place, context.get_data_type(kind).as_pointer()))
    word = builder.load(next(words))
    if isinstance(kind, types.Float):
        number = builder.bitcast(word, ir.DoubleType())
        return number if kind == types.float64 else builder.fptrunc(number, ir.FloatType())
    if kind == types.boolean:
        return builder.icmp_unsigned("!=", word, WORD(0))
    return word if kind.bitwidth == 64 else builder.trunc(word, ir.IntType(kind.bitwidth))


def _object_of(builder: Any, python: Interpreter, kind: Any, value: Any) -> Any:
    """Return the Python object for the result of a kernel."""
    if isinstance(kind, types.NoneType):
        return python.new_reference("None")
    if isinstance(kind, types.BaseTuple):
        made = python.call("PyTuple_New", POINTER, WORD(len(kind.types)))
        items = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        for k, (item_kind, item) in enumerate(items):
            number = _object_of(builder, python, item_kind, item)
            python.call("PyTuple_SetItem", INT, made, WORD(k), number)
        return made
    if isinstance(kind, types.Literal):
        kind = kind.literal_type
    if isinstance(kind, types.Float):
        number = value if kind == types.float64 else builder.fpext(value, ir.DoubleType())
        return python.call("PyFloat_FromDouble", POINTER, number)
    if kind == types.boolean:
        return python.call("PyBool_FromLong", POINTER, builder.zext(value, WORD))
    if not isinstance(kind, types.Integer):
        raise TypeError(f"a kernel that Python calls cannot return {kind}")
    extend = builder.sext if kind.signed else builder.zext
    word = value if kind.bitwidth == 64 else extend(value, WORD)
    make = "PyLong_FromLongLong" if kind.signed else "PyLong_FromUnsignedLongLong"
    return python.call(make, POINTER, word)
