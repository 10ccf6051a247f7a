"""LLVM code that reads the arguments of a call: one function for all entries of a library.

An entry passes the Python objects of a call and a program, which describes their types.  It gets
words of 64 bits, from which it makes the values that its kernel takes::

    int hedgerow_read(PyObject *object, struct {byte *program; word *words;} *state)

    returns FITS, OTHER_TYPE or EXCEPTION; the state advances past everything read

    instruction                                      words
    NONE                                             0
    TUPLE    n                                       words of the n items
    ARRAY    type, size of items, dimensions, flags (2)  Numba's fields of an array: 0, 0,
                                                     items, their size, address, shape, strides
    FLOAT    type                                    a float64
    INTEGER  type, other type, signed                the number
    BOOLEAN                                          0 or 1

The words of a named tuple of numbers of 64 bits and arrays are the tuple as Numba lays it out in
memory, so a kernel can take it by its address.

The reader checks the type of every argument.  It reads numbers, and the fields of arrays at their
offsets in NumPy's C structures, which are part of NumPy's binary interface::

    PyArrayObject, after the head of the object (16 bytes, more without the lock)
    0 data   8 dimensions (int)   16 shape   24 strides   32 base   40 descr   48 flags (int)
    PyArray_Descr, likewise
    0 scalar type   8 kind, type, byte order, flags   12 number of the type (int)

A table of addresses, which is filled when the library is loaded, gives access to the interpreter,
so the library depends only on the C library.  Separate code for each argument of each entry was a
sixth of the library, and took a fifth of the time of its build.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from hedgerow.compile.library import DTYPES, TABLE_FIELDS

TABLE = "hedgerow_table"
READER = "hedgerow_read"

FITS, OTHER_TYPE, EXCEPTION = range(3)
_NONE, _TUPLE, _ARRAY, _FLOAT, _INTEGER, _BOOLEAN = range(6)

BYTE, INT, WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER = BYTE.as_pointer()
VOID = ir.VoidType()
STATE = ir.LiteralStructType([POINTER, WORD.as_pointer()])
READER_TYPE = ir.FunctionType(INT, [POINTER, STATE.as_pointer()])
_C_CONTIGUOUS, _F_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400


def program_of(kind: Any) -> bytes:
    """Return the program that reads a value of a Numba type."""
    if isinstance(kind, types.Array):
        flags = {"C": _C_CONTIGUOUS, "F": _F_CONTIGUOUS, "A": 0}[kind.layout] | _ALIGNED
        flags |= _WRITEABLE if kind.mutable else 0
        size = np.dtype(str(kind.dtype)).itemsize
        name = "bool" if kind.dtype == types.boolean else str(kind.dtype)
        items = DTYPES.index(name) + 1, size, kind.ndim
        return bytes((_ARRAY, *items, *flags.to_bytes(2, "little")))
    if isinstance(kind, types.BaseTuple):
        return bytes((_TUPLE, len(kind.types))) + b"".join(map(program_of, kind.types))
    if isinstance(kind, types.NoneType):
        return bytes((_NONE,))
    if isinstance(kind, types.Float):
        return bytes((_FLOAT, TABLE_FIELDS.index("float32" if kind == types.float32 else "float")))
    if kind == types.boolean:
        return bytes((_BOOLEAN,))
    # int64 accepts Python's int and bool, too; other types accept only their NumPy scalars.
    own = TABLE_FIELDS.index(str(kind))
    first = TABLE_FIELDS.index("int") if kind == types.int64 else own
    return bytes((_INTEGER, first, own, kind.signed))


def n_words_of(kind: Any) -> int:
    """Return the number of words that the reader writes for a value of a Numba type."""
    if isinstance(kind, types.Array):
        return int(5 + 2 * kind.ndim)
    if isinstance(kind, types.BaseTuple):
        return sum(map(n_words_of, kind.types))
    return 1


def declare_table(module: Any) -> Any:
    """Declare the table of addresses."""
    return ir.GlobalVariable(module, ir.ArrayType(WORD, len(TABLE_FIELDS)), TABLE)


def write_reader(module: Any, table: Any) -> None:
    """Define the reader in an LLVM module, which holds the table of addresses."""
    function = ir.Function(module, READER_TYPE, READER)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    reader = _Reader(function, builder, Interpreter(builder, table))
    cases = {
        _NONE: reader.read_none,
        _TUPLE: reader.read_tuple,
        _ARRAY: reader.read_array,
        _FLOAT: reader.read_float,
        _INTEGER: reader.read_integer,
        _BOOLEAN: reader.read_boolean,
    }
    other = function.append_basic_block("unknown")
    switch = builder.switch(reader.next_byte(), other)
    for number, write in cases.items():
        block = function.append_basic_block(write.__name__)
        switch.add_case(BYTE(number), block)
        builder.position_at_end(block)
        write()
        builder.ret(INT(FITS))
    builder.position_at_end(other)
    builder.ret(INT(OTHER_TYPE))


class Interpreter:
    """Functions and objects of Python, found through the table of addresses."""

    def __init__(self, builder: Any, table: Any) -> None:
        self._builder, self._table = builder, table

    def word(self, name: str) -> Any:
        """Return a word of the table by its name."""
        return self.word_at(INT(TABLE_FIELDS.index(name)))

    def word_at(self, number: Any) -> Any:
        """Return a word of the table by its number."""
        return self._builder.load(self._builder.gep(self._table, [INT(0), number]))

    def object(self, name: str) -> Any:
        """Return an object of the table."""
        return self._builder.inttoptr(self.word(name), POINTER)

    def new_reference(self, name: str) -> Any:
        """Return a new reference to an object of the table."""
        found = self.object(name)
        self.call("Py_IncRef", VOID, found)
        return found

    def is_object(self, item: Any, name: str) -> Any:
        """Return whether ``item`` is this object of the table."""
        address = self._builder.ptrtoint(item, WORD)
        return self._builder.icmp_unsigned("==", address, self.word(name))

    def call(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of the table."""
        kind = ir.FunctionType(result, [value.type for value in values])
        function = self._builder.inttoptr(self.word(name), kind.as_pointer())
        return self._builder.call(function, values)


class _Reader:
    """Writes the cases of the reader, one instruction of a program each."""

    def __init__(self, function: Any, builder: Any, python: Interpreter) -> None:
        self._function, self._builder, self._python = function, builder, python
        self._item, self._state = function.args

    def next_byte(self) -> Any:
        """Return the next byte of the program."""
        place = self._builder.gep(self._state, [INT(0), INT(0)])
        program = self._builder.load(place)
        self._builder.store(self._builder.gep(program, [WORD(1)]), place)
        return self._builder.load(program)

    def _write(self, word: Any) -> None:
        """Hand the next word to the entry."""
        place = self._builder.gep(self._state, [INT(0), INT(1)])
        words = self._builder.load(place)
        self._builder.store(word, words)
        self._builder.store(self._builder.gep(words, [WORD(1)]), place)

    def _require(self, condition: Any) -> None:
        """Continue only if ``condition`` holds."""
        with self._builder.if_then(self._builder.not_(condition), likely=False):
            self._builder.ret(INT(OTHER_TYPE))

    def _field(self, item: Any, offset: Any, kind: Any) -> Any:
        """Return the field ``offset`` bytes after the start of an object."""
        pointer = self._builder.gep(item, [offset])
        return self._builder.load(self._builder.bitcast(pointer, kind.as_pointer()))

    def _behind_head(self, offset: int) -> Any:
        return self._builder.add(self._python.word("head size"), WORD(offset))

    def _is_a(self, *names: Any) -> Any:
        """Return whether the object's type (last word of its head) is, or extends, a named one."""
        # None stands for the type that the next byte of the program names.
        builder, python, wanted = self._builder, self._python, []
        for name in names:
            if name is not None:
                wanted.append(python.word(name))
            else:
                wanted.append(python.word_at(builder.zext(self.next_byte(), INT)))
        kind = self._field(self._item, self._behind_head(-8), WORD)
        found = cgutils.alloca_once_value(builder, cgutils.false_bit)
        for one in wanted:
            same = builder.icmp_unsigned("==", kind, one)
            builder.store(builder.or_(builder.load(found), same), found)
        for one in wanted:
            with builder.if_then(builder.not_(builder.load(found)), likely=False):
                derived = self._python.call("PyType_IsSubtype", INT, kind, one)
                builder.store(builder.icmp_signed("!=", derived, INT(0)), found)
        return builder.load(found)

    def read_none(self) -> None:
        self._require(self._python.is_object(self._item, "None"))
        self._write(WORD(0))

    def read_tuple(self) -> None:
        builder = self._builder
        n_items = builder.zext(self.next_byte(), WORD)
        self._require(self._is_a("tuple"))
        size = self._python.call("PyTuple_Size", WORD, self._item)
        self._require(builder.icmp_signed("==", size, n_items))
        with cgutils.for_range(builder, n_items) as loop:
            item = self._python.call("PyTuple_GetItem", POINTER, self._item, loop.index)
            status = builder.call(self._function, [item, self._state])
            with builder.if_then(builder.icmp_signed("!=", status, INT(FITS)), likely=False):
                builder.ret(status)

    def read_float(self) -> None:
        self._require(self._is_a(None))
        number = self._python.call("PyFloat_AsDouble", ir.DoubleType(), self._item)
        self._write(self._builder.bitcast(number, WORD))

    def read_boolean(self) -> None:
        self._require(self._is_a("bool", "bool_"))
        truth = self._python.call("PyObject_IsTrue", INT, self._item)
        is_true = self._builder.icmp_signed("!=", truth, INT(0))
        self._write(self._builder.zext(is_true, WORD))

    def read_integer(self) -> None:
        builder = self._builder
        is_a_number = self._is_a(None, None)
        is_signed = builder.icmp_unsigned("!=", self.next_byte(), BYTE(0))
        self._require(is_a_number)
        exact = self._python.call("PyNumber_Index", POINTER, self._item)
        number = cgutils.alloca_once(builder, WORD)
        with builder.if_else(is_signed) as (signed, unsigned):
            with signed:
                builder.store(self._python.call("PyLong_AsLongLong", WORD, exact), number)
            with unsigned:
                builder.store(self._python.call("PyLong_AsUnsignedLongLong", WORD, exact), number)
        self._python.call("Py_DecRef", VOID, exact)
        word = builder.load(number)
        # -1 is a number and also signals an exception.
        with builder.if_then(builder.icmp_signed("==", word, WORD(-1)), likely=False):
            error = builder.ptrtoint(self._python.call("PyErr_Occurred", POINTER), WORD)
            with builder.if_then(builder.icmp_unsigned("!=", error, WORD(0))):
                builder.ret(INT(EXCEPTION))
        self._write(word)

    def read_array(self) -> None:
        builder = self._builder
        code, size = self.next_byte(), builder.zext(self.next_byte(), WORD)
        n_dimensions = builder.zext(self.next_byte(), INT)
        low, high = builder.zext(self.next_byte(), INT), builder.zext(self.next_byte(), INT)
        flags = builder.or_(low, builder.shl(high, INT(8)))
        self._require(self._is_a("ndarray"))
        dimensions = self._field(self._item, self._behind_head(8), INT)
        self._require(builder.icmp_signed("==", dimensions, n_dimensions))
        # The items have the type, in the processor's byte order.  C has several types of the same
        # width: the table translates NumPy's numbers.
        descr = self._field(self._item, self._behind_head(40), POINTER)
        number = self._field(descr, self._behind_head(12), INT)
        self._require(builder.icmp_unsigned("<", number, INT(24)))
        codes = self._python.object("type codes")
        found = self._field(codes, builder.zext(number, WORD), BYTE)
        self._require(builder.icmp_unsigned("==", found, code))
        order = self._field(descr, self._behind_head(10), BYTE)
        self._require(builder.icmp_unsigned("!=", order, BYTE(ord(">"))))
        has = builder.and_(self._field(self._item, self._behind_head(48), INT), flags)
        self._require(builder.icmp_unsigned("==", has, flags))
        shape = self._field(self._item, self._behind_head(16), POINTER)
        n_items = cgutils.alloca_once_value(builder, WORD(1))
        with cgutils.for_range(builder, builder.zext(n_dimensions, WORD)) as loop:
            length = self._field(shape, builder.mul(loop.index, WORD(8)), WORD)
            builder.store(builder.mul(builder.load(n_items), length), n_items)
        address = self._field(self._item, self._behind_head(0), WORD)
        for word in (WORD(0), WORD(0), builder.load(n_items), size, address):
            self._write(word)
        for offset in (16, 24):  # shape and strides
            start = self._field(self._item, self._behind_head(offset), POINTER)
            with cgutils.for_range(builder, builder.zext(n_dimensions, WORD)) as loop:
                self._write(self._field(start, builder.mul(loop.index, WORD(8)), WORD))
