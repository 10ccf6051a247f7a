"""Kernels and intrinsics as the modules of the package define them."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hedgerow.compile import library
from hedgerow.compile.target import compile_policy
from hedgerow.errors import CompilationError

if TYPE_CHECKING:
    from hedgerow.compile.library import Entry


class Kernel:
    """A function of arrays and numbers that runs as machine code.

    A call runs built code if there is code for the types of the arguments.  Otherwise the
    kernel is compiled just in time, if ``HEDGEROW_COMPILE`` allows it.

    Attributes
    ----------
    py_func : callable
        The Python function.
    name : str
        ``module:function``, the name in the list of variants.
    inline, inner : bool
        See :func:`kernel`.
    """

    def __init__(self, function: Callable[..., Any], inline: bool, inner: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.inline, self.inner = inline, inner
        self._entries: tuple[Entry, ...] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel."""
        entries = self._entries
        if entries is None:
            entries = self._entries = self._find_entries()
        for entry in entries:
            result = entry.run(*arguments)
            if result is not NotImplemented:
                return result
        return self.dispatcher(*arguments)

    def entry(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the code for arguments of these types, which saves the search at each call."""
        if self._entries is None:
            self._entries = self._find_entries()
        for entry in self._entries:
            if entry.fits(*arguments) is True:
                return entry.run
        dispatcher = self.dispatcher  # raises if nothing may be compiled
        from hedgerow.compile import just_in_time

        return just_in_time.entry_of(dispatcher, arguments)

    def _find_entries(self) -> tuple[Entry, ...]:
        if self.inner or compile_policy() == "always":
            return ()
        return library.entries_of(self)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of this kernel, for calls from Python."""
        if self.inner and os.environ.get("HEDGEROW_OPEN_KERNELS", "") in ("", "0"):
            raise TypeError(f"{self.name} is an inner kernel: only other kernels call it.")
        could_be_built = self.name.startswith("hedgerow.") and not self.inner
        policy, reason = compile_policy(), ""
        if policy == "never" or (policy == "strict" and could_be_built):
            reason = f"HEDGEROW_COMPILE is {policy!r}"
            remedy = "Unset HEDGEROW_COMPILE to let Numba compile it."
        elif os.environ.get("NUMBA_DISABLE_JIT", "") not in ("", "0"):
            reason = "NUMBA_DISABLE_JIT is set"
            remedy = "Unset it to let Numba compile."
        elif importlib.util.find_spec("numba") is None:
            reason = "Numba is not installed"
            remedy = "Install it with: pip install 'hedgerow[jit]'"
        if reason:
            state = f" {library.state()}" if could_be_built else ""
            error = CompilationError(
                f"{self.name} has to be compiled, but {reason}.{state} {remedy}"
            )
            error.could_be_built = could_be_built
            raise error
        from hedgerow.compile import just_in_time

        return just_in_time.make_dispatcher(self, inner=False)

    @functools.cached_property
    def inner_dispatcher(self) -> Any:
        """Numba's dispatcher of this kernel, for calls from other kernels."""
        from hedgerow.compile import just_in_time

        return just_in_time.make_dispatcher(self, inner=True)

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of this object inside a kernel."""
        return self.inner_dispatcher._numba_type_

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


class Intrinsic:
    """An LLVM instruction by name; a module that is loaded only for compilation defines it.

    Parameters
    ----------
    module, name : str
        Module and name of the definition for Numba.
    counts_lanes : bool, default=False
        Whether its code depends on ``lanes_of_code()``.
    """

    def __init__(self, module: str, name: str, counts_lanes: bool = False) -> None:
        self.module, self.name, self.counts_lanes = module, name, counts_lanes

    def __call__(self, *arguments: Any) -> Any:
        """Raise TypeError: only kernels use intrinsics."""
        raise TypeError(f"{self.name} is an instruction of compiled code: only kernels use it.")

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """Numba's type of this object inside a kernel."""
        from hedgerow.compile import just_in_time

        return just_in_time.type_of_intrinsic(
            getattr(importlib.import_module(self.module), self.name)
        )

    def __repr__(self) -> str:
        return f"<intrinsic {self.name}>"


def kernel(
    function: Callable[..., Any] | None = None, *, inline: bool = False, inner: bool = False
) -> Any:
    """Let ``function`` run as machine code, without Python objects and interpreter lock."""
    # IEEE division by zero and no fast-math: results have the same bits on every machine.
    # A kernel makes no arrays and counts no references: its callers hold all arrays.
    if function is None:
        return functools.partial(kernel, inline=inline, inner=inner)
    return Kernel(function, inline, inner)


def entry_of(kernel: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return the code of a kernel for arguments of the same types as ``arguments``."""
    return kernel.entry(arguments) if isinstance(kernel, Kernel) else kernel
