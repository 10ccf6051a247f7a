r"""The one door to Numba: every kernel of the package is made by :func:`kernel`.

Numba's own on-disk cache notices a change of the file in which a kernel
stands, but not of the kernels that it calls in other files, and it may end
with an error where no folder can be written.  Here

* the cache folder is named by a digest of *all* kernel sources together with
  the versions of Numba and llvmlite, so code compiled from an older source
  can never run, and a reinstall of the same sources keeps the cache;
* a missing, read-only or unusable folder means that kernels are compiled in
  each process; nothing else changes.

The folder is ``$NUMBA_CACHE_DIR`` or, without it, ``$XDG_CACHE_HOME/hedgerow``
(``~/.cache/hedgerow``, ``%LOCALAPPDATA%\\hedgerow``).  Numba's cache files are
pickles: the folder must be as trusted as the code, and is made readable by
its owner only.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.event import TimingListener, register, unregister
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering

logger = logging.getLogger("hedgerow")

_PACKAGE = Path(__file__).parent
_KERNEL_SOURCES = ("compile.py", "arrays.py", "kernels", "growing", "objectives")


def _open_kernels() -> bool:
    return os.environ.get("HEDGEROW_OPEN_KERNELS", "") not in ("", "0")


@functools.cache
def source_digest() -> str:
    """Digest of everything that decides what the compiled kernels do."""
    digest = hashlib.blake2b(digest_size=10)
    digest.update(f"{numba.__version__} {llvmlite.__version__}".encode())
    for name in _KERNEL_SOURCES:
        place = _PACKAGE / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def cache_root() -> Path:
    """Folder below which compiled kernels are kept (it need not exist)."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen) / "hedgerow"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    else:
        base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hedgerow"


@functools.cache
def cache_folder() -> Path | None:
    """The folder for kernels of these sources, or None where none can be written."""
    try:
        folder = cache_root() / source_digest()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    return folder


class _DigestLocator(caching._CacheLocator):  # noqa: SLF001  (no public way)
    """Tells Numba to keep a kernel in :func:`cache_folder`, whatever its file's age."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        relative = Path(py_file).with_suffix("").parts[-2:]
        self._name = ".".join((*relative, str(py_func.__code__.co_firstlineno)))

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _DigestLocator:
        return cls(py_func, py_file)


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = (_DigestLocator,)


class _KernelCache(caching.FunctionCache):
    _impl_class = _KernelCacheImpl


class _InnerLibrary(JITCodeLibrary):
    """Code that is only ever linked into that of a caller.

    It is neither optimised nor turned into machine code by itself: the caller's
    is, with this in it.  Otherwise LLVM works on a kernel anew at each level of
    calls above it.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    """Write LLVM code for callers to link, without an entry for Python."""

    def run_pass(self, state: Any) -> bool:
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # Callers know the code by this object, which has to be a built-in function
        # and unlike any other; called from Python, this one ends with a TypeError.
        lowered = lowered._replace(cfunc=object().__reduce_ex__)
        state.targetctx.insert_user_function(lowered.cfunc, lowered.fndesc, [state.library])
        state["cr"] = lowered
        return True


class _Flags(Flags):
    """Compiler options that hash and compare by what is set, not by all fifty values.

    Numba looks functions up by them a hundred thousand times.
    """

    _HASH = hash(Flags())

    def __hash__(self) -> int:
        return self._HASH

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Flags) and self._values == other._values
        return same or super().__eq__(other)


class _KernelCompiler(Compiler):
    """Numba's compiler with two brakes off.

    The garbage collector: it would look through a million objects that live to
    the end, again and again.  And the comparison of options (:class:`_Flags`).
    """

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,  # noqa: A002  (Numba's name)
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def compile_extra(self, func: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if enabled:
                gc.enable()


class _InnerCompiler(_KernelCompiler):
    """For kernels that only other kernels call."""

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = [
            (_InnerLowering if step is NativeLowering else step, text)
            for step, text in pipeline.passes
        ]
        pipeline.passes = passes
        pipeline._finalized = False  # noqa: SLF001  (no public way to replace a pass)
        pipeline.finalize()
        return [pipeline]


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    inline: bool = False,
    inner: bool = False,
    allocates: bool = False,
) -> Any:
    """Compile ``function`` with Numba: no Python objects, no interpreter lock, cached.

    Division by zero follows IEEE 754 (``error_model="numpy"``) and no fast-math
    is allowed, so that NaN, infinities and the order of operations keep their
    meaning and results have the same bits on every machine.

    Parameters
    ----------
    function : callable
        A pure function of arrays and numbers.
    inline : bool, default=False
        Ask LLVM to copy the body into each caller.  For small functions that
        stand in an inner loop.
    inner : bool, default=False
        Only other kernels call this one, so the code by which Python calls it
        is left out: a quarter of the time of the first compilation, as it has
        to take apart every array of every argument.  With
        ``HEDGEROW_OPEN_KERNELS=1`` in the environment a call from Python compiles the
        kernel once more, with it, for tests that call such a kernel by itself; what
        other kernels call stays as it is.
    allocates : bool, default=False
        The kernel makes arrays, or arrays of addresses (``carray``).  All others do
        without Numba's counting of references, an atomic addition for each array that is
        handed on or looked at: a quarter to a third of the time of trees on two thousand
        rows.  Their callers hold all arrays.  A kernel that makes one all the same does
        not compile, nor does one that copies by ``a[:n] = b[:n]``, which may go through
        a new array, or one that returns an array which is no argument (in a tuple it
        may, to kernels that do not count).
    """
    if function is None:
        return functools.partial(kernel, inline=inline, inner=inner, allocates=allocates)
    dispatcher = numba.njit(
        nogil=True,
        pipeline_class=_InnerCompiler if inner else _KernelCompiler,
        error_model="numpy",
        forceinline=inline,
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
        _nrt=allocates,
    )(function)
    if numba.config.DISABLE_JIT:
        return dispatcher
    if not inner and cache_folder() is not None:
        dispatcher._cache = _KernelCache(function)  # noqa: SLF001
    if inner and _open_kernels():
        dispatcher.__class__ = _OpenedDispatcher
        dispatcher.opened = functools.cache(
            functools.partial(kernel, function, inline=inline, allocates=allocates)
        )
    return dispatcher


def entry_of(kernel: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """The compiled code of a kernel for arguments of the same types as ``args``.

    A call of the kernel itself looks at the type of every array in every tuple, to find
    this code: 7 of 8 us for the state of a fit (``benchmarks/calls.py``), which is much
    beside a tree of few rows.  Who calls what this returns vouches for the types.
    """
    if not isinstance(kernel, Dispatcher):  # compilation is turned off
        return kernel
    entry: Callable[..., Any] = kernel.compile(tuple(map(kernel.typeof_pyval, args)))
    return entry


class _OpenedDispatcher(CPUDispatcher):
    """An inner kernel that Python may call too: that goes to a twin which is not inner."""

    opened: Callable[[], Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.opened()(*arguments)


def compile_inner(function: Callable[..., Any]) -> Any:
    """Compile a function of a user's, or one that is made while the program runs.

    It is compiled in each process anew: what it means depends on more than the sources
    of this package, by whose digest kernels are kept.
    """
    if isinstance(function, Dispatcher):
        return function
    return numba.njit(nogil=True, error_model="numpy")(function)


def is_cached() -> bool:
    """Whether kernels of these sources were compiled on this machine before."""
    folder = cache_folder()
    return folder is not None and any(folder.glob("*.nbi"))


@contextmanager
def compile_seconds() -> Iterator[Callable[[], float]]:
    """Count the seconds in which this process compiles or loads kernels.

    Yields
    ------
    callable
        Gives the seconds so far.
    """
    listener = TimingListener()
    register("numba:compiler_lock", listener)
    try:
        yield lambda: listener.duration if listener.done else 0.0
    finally:
        unregister("numba:compiler_lock", listener)


@functools.cache
def announce_compilation() -> None:
    """Say once per process, quietly, that the first use has to compile kernels."""
    if is_cached():
        return
    where = cache_folder()
    kept = f"kept in {where}" if where else "no cache folder can be written: not kept"
    logger.info("compiling kernels, a few seconds, once per machine (%s)", kept)
