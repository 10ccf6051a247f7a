"""LLVM code of entries: takes the Python arguments of a call apart for a kernel.

An entry is a function of the interpreter's C interface, of which
:mod:`hedgerow.compile.library` makes a built-in function::

    PyObject *entry(PyObject *self, PyObject *arguments)

    self        None to run the kernel; True to ask only whether the types fit
    arguments   the tuple of the call

    returns what the kernel returns (or True), NotImplemented for arguments of other
    types, NULL with an exception set

It checks the type of every argument, reads numbers and the fields of arrays where NumPy's
C structures have them (they are part of NumPy's binary interface), gives the
interpreter's lock back, and calls the kernel.  What it needs of the interpreter it finds
in a table of addresses that is filled when the library is loaded, so the library depends
on nothing but the C library.  A call takes less time than one of Numba's dispatcher
(``benchmarks/calls.py``).

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

_BYTE, _INT, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _BYTE.as_pointer()
_VOID = ir.VoidType()
_C_CONTIGUOUS, _F_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400


def write_entry(module: Any, compiled: Any, symbol: str) -> None:
    """Define the entry of a compiled kernel in an LLVM module."""
    context, signature = compiled.target_context, compiled.signature
    function = ir.Function(module, ir.FunctionType(_POINTER, [_POINTER, _POINTER]), symbol)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    asked, arguments = function.args
    python = _Interpreter(builder)
    values = _Reader(context, builder, python).items(signature.args, arguments)
    with builder.if_then(python.is_object(asked, "True"), likely=False):
        builder.ret(python.new_reference("True"))

    thread = python.call("PyEval_SaveThread", _POINTER)
    kernel_type = context.call_conv.get_function_type(signature.return_type, signature.args)
    kernel = ir.Function(module, kernel_type, compiled.fndesc.llvm_func_name)
    status, value = context.call_conv.call_function(
        builder, kernel, signature.return_type, signature.args, values
    )
    python.call("PyEval_RestoreThread", _VOID, thread)
    with builder.if_then(builder.not_(status.is_ok), likely=False):
        text = context.insert_const_string(module, f"the kernel of {symbol} failed")
        python.call("PyErr_SetString", _VOID, python.object("RuntimeError"), text)
        builder.ret(ir.Constant(_POINTER, None))
    builder.ret(_object_of(builder, python, signature.return_type, value))


def write_support(module: Any, build: str) -> None:
    """Define the table of addresses, and the name of the build."""
    table = ir.GlobalVariable(module, ir.ArrayType(_WORD, len(TABLE_FIELDS)), TABLE)
    table.initializer = ir.Constant(table.value_type, None)
    text = bytearray(build.encode() + b"\0")
    name = ir.GlobalVariable(module, ir.ArrayType(_BYTE, len(text)), "hedgerow_build")
    name.initializer = ir.Constant(name.value_type, text)


class _Interpreter:
    """Functions and objects of Python, by the table of addresses."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._table = ir.GlobalVariable(
            builder.module, ir.ArrayType(_WORD, len(TABLE_FIELDS)), TABLE
        )

    def word(self, name: str) -> Any:
        """A word of the table."""
        place = self._builder.gep(self._table, [_INT(0), _INT(TABLE_FIELDS.index(name))])
        return self._builder.load(place)

    def object(self, name: str) -> Any:
        """An object of the table."""
        return self._builder.inttoptr(self.word(name), _POINTER)

    def new_reference(self, name: str) -> Any:
        """An object of the table, to be returned."""
        found = self.object(name)
        self.call("Py_IncRef", _VOID, found)
        return found

    def is_object(self, item: Any, name: str) -> Any:
        """Whether this is an object of the table."""
        address = self._builder.ptrtoint(item, _WORD)
        return self._builder.icmp_unsigned("==", address, self.word(name))

    def call(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of the table."""
        kind = ir.FunctionType(result, [value.type for value in values])
        function = self._builder.inttoptr(self.word(name), kind.as_pointer())
        return self._builder.call(function, values)


def _object_of(builder: Any, python: _Interpreter, kind: Any, value: Any) -> Any:
    """The Python object for what a kernel returns."""
    if isinstance(kind, types.NoneType):
        return python.new_reference("None")
    if isinstance(kind, types.BaseTuple):
        made = python.call("PyTuple_New", _POINTER, _WORD(len(kind.types)))
        items = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
        for k, (item_kind, item) in enumerate(items):
            number = _object_of(builder, python, item_kind, item)
            python.call("PyTuple_SetItem", _INT, made, _WORD(k), number)
        return made
    if isinstance(kind, types.Literal):
        kind = kind.literal_type
    if isinstance(kind, types.Float):
        number = value if kind == types.float64 else builder.fpext(value, ir.DoubleType())
        return python.call("PyFloat_FromDouble", _POINTER, number)
    if kind == types.boolean:
        return python.call("PyBool_FromLong", _POINTER, builder.zext(value, _WORD))
    if not isinstance(kind, types.Integer):
        raise TypeError(f"a kernel that Python calls cannot return {kind}")
    extend = builder.sext if kind.signed else builder.zext
    word = value if kind.bitwidth == 64 else extend(value, _WORD)
    make = "PyLong_FromLongLong" if kind.signed else "PyLong_FromUnsignedLongLong"
    return python.call(make, _POINTER, word)


class _Reader:
    """Writes the code that turns Python objects into the values of Numba's types."""

    def __init__(self, context: Any, builder: Any, python: _Interpreter) -> None:
        self._context, self._builder, self._python = context, builder, python

    def items(self, kinds: Any, objects: Any) -> list[Any]:
        """The values of a tuple of Python objects."""
        size = self._python.call("PyTuple_Size", _WORD, objects)
        self._require(self._builder.icmp_signed("==", size, _WORD(len(kinds))))
        return [
            self._value(kind, self._python.call("PyTuple_GetItem", _POINTER, objects, _WORD(k)))
            for k, kind in enumerate(kinds)
        ]

    def _require(self, condition: Any) -> None:
        """Leave the entry, with NotImplemented, unless ``condition`` holds."""
        with self._builder.if_then(self._builder.not_(condition), likely=False):
            self._builder.ret(self._python.new_reference("NotImplemented"))

    def _field(self, item: Any, offset: Any, kind: Any) -> Any:
        """What stands ``offset`` bytes behind the start of an object."""
        pointer = self._builder.gep(item, [offset])
        return self._builder.load(self._builder.bitcast(pointer, kind.as_pointer()))

    def _behind_head(self, offset: int) -> Any:
        return self._builder.add(self._python.word("head size"), _WORD(offset))

    def _type_of(self, item: Any) -> Any:
        """Address of the type of an object: the last word of its head."""
        return self._field(item, self._behind_head(-8), _WORD)

    def _is_a(self, item: Any, name: str) -> Any:
        """Whether the type of an object is this one or derived from it."""
        kind = self._type_of(item)
        exact = self._builder.icmp_unsigned("==", kind, self._python.word(name))
        found = cgutils.alloca_once_value(self._builder, exact)
        with self._builder.if_then(self._builder.not_(exact), likely=False):
            derived = self._python.call("PyType_IsSubtype", _INT, kind, self._python.word(name))
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
            self._require(self._python.is_object(item, "None"))
            return self._context.get_dummy_value()
        if isinstance(kind, types.Float):
            return self._float(kind, item)
        return self._integer(kind, item)

    def _float(self, kind: Any, item: Any) -> Any:
        self._require(self._is_a(item, "float32" if kind == types.float32 else "float"))
        number = self._python.call("PyFloat_AsDouble", ir.DoubleType(), item)
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
            truth = self._python.call("PyObject_IsTrue", _INT, item)
            return self._builder.icmp_signed("!=", truth, _INT(0))
        exact = self._python.call("PyNumber_Index", _POINTER, item)
        signed = "PyLong_AsLongLong" if kind.signed else "PyLong_AsUnsignedLongLong"
        number = self._python.call(signed, _WORD, exact)
        self._python.call("Py_DecRef", _VOID, exact)
        # -1 is a number as well as the sign of an exception.
        suspect = self._builder.icmp_signed("==", number, _WORD(-1))
        with self._builder.if_then(suspect, likely=False):
            error = self._python.call("PyErr_Occurred", _POINTER)
            occurred = self._builder.ptrtoint(error, _WORD)
            with self._builder.if_then(self._builder.icmp_unsigned("!=", occurred, _WORD(0))):
                self._builder.ret(ir.Constant(_POINTER, None))
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
        codes = builder.inttoptr(self._python.word("type codes"), _POINTER)
        code = self._field(codes, builder.zext(number, _WORD), _BYTE)
        same = builder.icmp_unsigned("==", code, _BYTE(dtype_code(str(kind.dtype))))
        order = self._field(descr, self._behind_head(10), _BYTE)
        swapped = builder.icmp_unsigned("==", order, _BYTE(ord(">")))
        return builder.and_(same, builder.not_(swapped))


def dtype_code(name: str) -> int:
    """A number for a type of items, by its name in Numba."""
    return DTYPES.index("bool" if name == "bool_" else name) + 1
