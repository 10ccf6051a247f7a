"""LLVM code of entries: takes the Python arguments of a call apart for a kernel.

An entry is a C function that :mod:`ctypes` calls with the interpreter's lock held::

    int entry(PyObject *arguments, int64 *result)

    arguments   the tuple of the call
    result      where numbers that the kernel returns go, one word each; the address 1
                asks only whether the types fit

    returns  0  done        1  these arguments are of other types
             2  a Python error is set      3  the kernel failed

It checks the type of every argument, reads numbers and the fields of arrays where NumPy's
C structures have them (they are part of NumPy's binary interface), gives the
interpreter's lock back, and calls the kernel.  What it needs of the interpreter it finds
in a table of addresses that :mod:`hedgerow.compile.library` fills when it loads the
library, so the library depends on nothing but the C library.

::

    PyArrayObject, behind the head of the object (16 bytes, more without the lock)
    0 data   8 dimensions (int)   16 shape   24 strides   32 base   40 descr   48 flags (int)
    PyArray_Descr, likewise
    0 scalar type   8 kind, type, byte order, flags   12 number of the type (int)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np import arrayobj

from hedgerow.compile.library import DTYPES, TABLE_FIELDS

TABLE = "hedgerow_table"

DONE, OTHER_TYPES, PYTHON_ERROR, KERNEL_ERROR = range(4)

_BYTE, _INT, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _BYTE.as_pointer()
_C_CONTIGUOUS, _F_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400

RESULT_FORMATS = {
    types.int64: "q",
    types.uint64: "Q",
    types.float64: "d",
    types.boolean: "q",
    types.int32: "q",
    types.uint32: "q",
    types.uint8: "q",
}


def write_entry(module: Any, compiled: Any, symbol: str) -> str:
    """Define the entry of a compiled kernel in an LLVM module.

    Returns
    -------
    str
        Format of the words of the result (:mod:`struct`); empty for None.
    """
    context, signature = compiled.target_context, compiled.signature
    function = ir.Function(module, ir.FunctionType(_INT, [_POINTER, _WORD.as_pointer()]), symbol)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    arguments, result = function.args
    reader = _Reader(context, builder)
    values = reader.items(signature.args, arguments)
    reader.leave_if(builder.icmp_unsigned("==", builder.ptrtoint(result, _WORD), _WORD(1)), DONE)

    thread = reader.call("PyEval_SaveThread", _POINTER)
    kernel_type = context.call_conv.get_function_type(signature.return_type, signature.args)
    kernel = ir.Function(module, kernel_type, compiled.fndesc.llvm_func_name)
    status, value = context.call_conv.call_function(
        builder, kernel, signature.return_type, signature.args, values
    )
    reader.call("PyEval_RestoreThread", ir.VoidType(), thread)
    reader.leave_if(builder.not_(status.is_ok), KERNEL_ERROR)
    result_format = _write_result(context, builder, signature.return_type, value, result)
    builder.ret(_INT(DONE))
    return result_format


def write_support(module: Any, build: str) -> None:
    """Define the table of addresses, and the name of the build."""
    table = ir.GlobalVariable(module, ir.ArrayType(_WORD, len(TABLE_FIELDS)), TABLE)
    table.initializer = ir.Constant(table.value_type, None)
    text = bytearray(build.encode() + b"\0")
    name = ir.GlobalVariable(module, ir.ArrayType(_BYTE, len(text)), "hedgerow_build")
    name.initializer = ir.Constant(name.value_type, text)


def _write_result(context: Any, builder: Any, kind: Any, value: Any, result: Any) -> str:
    """Store the number, or the numbers of the tuple, that the kernel returned."""
    if isinstance(kind, types.NoneType):
        return ""
    is_tuple = isinstance(kind, types.BaseTuple)
    kinds = list(kind.types) if is_tuple else [kind]
    values = cgutils.unpack_tuple(builder, value) if is_tuple else [value]
    formats = ""
    for k, (item_kind, item) in enumerate(zip(kinds, values, strict=True)):
        if isinstance(item_kind, types.Literal):
            item_kind = item_kind.literal_type
        letter = RESULT_FORMATS[item_kind]
        if isinstance(item_kind, types.Float):
            word = builder.bitcast(item, _WORD)
        elif item.type == _WORD:
            word = item
        else:
            extend = builder.sext if getattr(item_kind, "signed", False) else builder.zext
            word = extend(item, _WORD)
        builder.store(word, builder.gep(result, [_WORD(k)]))
        formats += letter
    return f"({formats})" if is_tuple else formats


class _Reader:
    """Writes the code that turns Python objects into the values of Numba's types."""

    def __init__(self, context: Any, builder: Any) -> None:
        self._context, self._builder = context, builder
        self._table = ir.GlobalVariable(
            builder.module, ir.ArrayType(_WORD, len(TABLE_FIELDS)), TABLE
        )

    def items(self, kinds: Any, objects: Any) -> list[Any]:
        """The values of a tuple of Python objects."""
        size = self.call("PyTuple_Size", _WORD, objects)
        self._require(self._builder.icmp_signed("==", size, _WORD(len(kinds))))
        return [
            self._value(kind, self.call("PyTuple_GetItem", _POINTER, objects, _WORD(k)))
            for k, kind in enumerate(kinds)
        ]

    def leave_if(self, condition: Any, status: int) -> None:
        """Return ``status`` from the entry where ``condition`` holds."""
        with self._builder.if_then(condition, likely=False):
            self._builder.ret(_INT(status))

    def call(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of the interpreter."""
        kind = ir.FunctionType(result, [value.type for value in values])
        function = self._builder.inttoptr(self._word(name), kind.as_pointer())
        return self._builder.call(function, values)

    def _word(self, name: str) -> Any:
        place = self._builder.gep(self._table, [_INT(0), _INT(TABLE_FIELDS.index(name))])
        return self._builder.load(place)

    def _require(self, condition: Any) -> None:
        self.leave_if(self._builder.not_(condition), OTHER_TYPES)

    def _field(self, item: Any, offset: Any, kind: Any) -> Any:
        """What stands ``offset`` bytes behind the start of an object."""
        pointer = self._builder.gep(item, [offset])
        return self._builder.load(self._builder.bitcast(pointer, kind.as_pointer()))

    def _behind_head(self, offset: int) -> Any:
        return self._builder.add(self._word("head size"), _WORD(offset))

    def _type_of(self, item: Any) -> Any:
        """Address of the type of an object: the last word of its head."""
        return self._field(item, self._behind_head(-8), _WORD)

    def _is_a(self, item: Any, name: str) -> Any:
        """Whether the type of an object is this one or derived from it."""
        kind = self._type_of(item)
        exact = self._builder.icmp_unsigned("==", kind, self._word(name))
        found = cgutils.alloca_once_value(self._builder, exact)
        with self._builder.if_then(self._builder.not_(exact), likely=False):
            derived = self.call("PyType_IsSubtype", _INT, kind, self._word(name))
            is_derived = self._builder.icmp_signed("!=", derived, _INT(0))
            self._builder.store(is_derived, found)
        return self._builder.load(found)

    def _value(self, kind: Any, item: Any) -> Any:
        if isinstance(kind, types.Array):
            return self._array(kind, item)
        if isinstance(kind, types.BaseTuple):
            self._require(self._is_a(item, "tuple"))
            return self._context.make_tuple(self._builder, kind, self.items(kind.types, item))
        if isinstance(kind, types.NoneType):
            address = self._builder.ptrtoint(item, _WORD)
            self._require(self._builder.icmp_unsigned("==", address, self._word("None")))
            return self._context.get_dummy_value()
        if isinstance(kind, types.Float):
            return self._float(kind, item)
        return self._integer(kind, item)

    def _float(self, kind: Any, item: Any) -> Any:
        self._require(self._is_a(item, "float32" if kind == types.float32 else "float"))
        number = self.call("PyFloat_AsDouble", ir.DoubleType(), item)
        if kind == types.float32:
            return self._builder.fptrunc(number, ir.FloatType())
        return number

    def _integer(self, kind: Any, item: Any) -> Any:
        """int64 takes Python's integers and truths; others only NumPy scalars of that type."""
        if kind == types.int64:
            fits = self._builder.or_(self._is_a(item, "int"), self._is_a(item, "int64"))
        elif kind == types.boolean:
            fits = self._builder.or_(self._is_a(item, "bool"), self._is_a(item, "bool_"))
        else:
            fits = self._is_a(item, str(kind))
        self._require(fits)
        if kind == types.boolean:
            truth = self.call("PyObject_IsTrue", _INT, item)
            return self._builder.icmp_signed("!=", truth, _INT(0))
        exact = self.call("PyNumber_Index", _POINTER, item)
        signed = "PyLong_AsLongLong" if kind.signed else "PyLong_AsUnsignedLongLong"
        number = self.call(signed, _WORD, exact)
        self.call("Py_DecRef", ir.VoidType(), exact)
        error = self.call("PyErr_Occurred", _POINTER)
        occurred = self._builder.icmp_unsigned("!=", self._builder.ptrtoint(error, _WORD), _WORD(0))
        self.leave_if(occurred, PYTHON_ERROR)
        if kind.bitwidth < 64:
            return self._builder.trunc(number, ir.IntType(kind.bitwidth))
        return number

    def _array(self, kind: Any, item: Any) -> Any:
        """An array that owns nothing: the caller's object holds the memory."""
        builder = self._builder
        self._require(self._is_a(item, "ndarray"))
        dimensions = self._field(item, self._behind_head(8), _INT)
        self._require(builder.icmp_signed("==", dimensions, _INT(kind.ndim)))
        self._require(self._is_of_dtype(kind, item))
        wanted = {"C": _C_CONTIGUOUS, "F": _F_CONTIGUOUS, "A": 0}[kind.layout] | _ALIGNED
        wanted |= _WRITEABLE if kind.mutable else 0
        flags = self._field(item, self._behind_head(48), _INT)
        has = builder.and_(flags, _INT(wanted))
        self._require(builder.icmp_unsigned("==", has, _INT(wanted)))
        shape = self._words_at(item, 16, kind.ndim)
        element = self._context.get_data_type(kind.dtype)
        array = arrayobj.make_array(kind)(self._context, builder)
        arrayobj.populate_array(
            array,
            data=self._field(item, self._behind_head(0), element.as_pointer()),
            shape=shape,
            strides=self._words_at(item, 24, kind.ndim),
            itemsize=_WORD(self._context.get_abi_sizeof(element)),
            meminfo=None,
        )
        return array._getvalue()  # noqa: SLF001  (Numba's way)

    def _words_at(self, item: Any, offset: int, n_words: int) -> list[Any]:
        """The words of a C array that the object points to."""
        start = self._field(item, self._behind_head(offset), _POINTER)
        return [self._field(start, _WORD(8 * k), _WORD) for k in range(n_words)]

    def _is_of_dtype(self, kind: Any, item: Any) -> Any:
        """Whether the items are of the kind's type, in the processor's byte order.

        C has several types of the same width: the table translates NumPy's numbers.
        """
        builder = self._builder
        descr = self._field(item, self._behind_head(40), _POINTER)
        number = self._field(descr, self._behind_head(12), _INT)
        known = builder.icmp_unsigned("<", number, _INT(24))
        self._require(known)
        codes = builder.inttoptr(self._word("type codes"), _POINTER)
        code = self._field(codes, builder.zext(number, _WORD), _BYTE)
        same = builder.icmp_unsigned("==", code, _BYTE(dtype_code(str(kind.dtype))))
        order = self._field(descr, self._behind_head(10), _BYTE)
        swapped = builder.icmp_unsigned("==", order, _BYTE(ord(">")))
        return builder.and_(same, builder.not_(swapped))


def dtype_code(name: str) -> int:
    """A number for a type of items, by its name in Numba."""
    return DTYPES.index("bool" if name == "bool_" else name) + 1
