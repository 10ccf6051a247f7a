"""Compiled code: :func:`kernel` makes every kernel of the package.

A kernel is a Python function of arrays and numbers.  Its machine code comes from one of
two places:

built     a shared library inside the installed package (:mod:`~hedgerow.compile.library`),
          made when the package was built.  Numba is not imported.
just in time   Numba compiles the kernel when it is first called and keeps the code on disk
          (:mod:`~hedgerow.compile.just_in_time`), where no library fits.

==================  ==========================================================================
``kernels``         :class:`Kernel` and :class:`Intrinsic`, the objects that modules define
``target``          ``HEDGEROW_COMPILE``, the processor, what was built, and the width of vectors
``library``         checks and loads the built library
``digests``         digests of everything that a kernel depends on
``variants``        the kernels that are built (``variants.txt``), and their argument types
``just_in_time``    Numba: the only module that uses its private interfaces
``entry_code``      LLVM code of entries, which Python calls to run built kernels
``read_arguments``  LLVM code that reads the arguments of a call, shared by all entries
``build``           compiles the list and links the library; the package build runs it
==================  ==========================================================================
"""

from hedgerow.compile.kernels import Intrinsic, Kernel, entry_of, kernel
from hedgerow.compile.target import lanes_of_code

__all__ = ["Intrinsic", "Kernel", "entry_of", "kernel", "lanes_of_code"]
