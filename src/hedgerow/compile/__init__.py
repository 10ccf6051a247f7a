"""The one door to compiled code: every kernel of the package is made by :func:`kernel`.

A kernel is a Python function of arrays and numbers.  Its machine code comes from one of
two places:

built     a shared library inside the installed package (:mod:`~hedgerow.compile.library`),
          made when the package was built.  Numba is not imported.
just in time   Numba compiles the kernel when it is first called and keeps the code on disk
          (:mod:`~hedgerow.compile.just_in_time`): for losses of the user's, and where no library
          fits.

==================  ==========================================================================
``kernels``         :class:`Kernel` and :class:`Intrinsic`: what stands in the modules
``policy``          ``HEDGEROW_COMPILE`` and the processor that code is made for
``library``         finds, checks and loads the built library
``digests``         what a kernel depends on, as a digest
``variants``        the argument types for which kernels are built: one list, ``variants.txt``
``just_in_time``    Numba, with its private interfaces: the only module that knows them
``entry_code``      LLVM code of entries: what Python calls to run a built kernel
``read_arguments``  LLVM code that reads the arguments of a call, shared by all entries
``build``           compiles the list and links the library: run by the build of the package
==================  ==========================================================================
"""

from hedgerow.compile.kernels import Intrinsic, Kernel, entry_of, kernel
from hedgerow.compile.policy import lanes_of_processor

__all__ = ["Intrinsic", "Kernel", "entry_of", "kernel", "lanes_of_processor"]
