r"""Compilation by Numba: the only module that uses the private interfaces of Numba and LLVM.

It is imported only to compile: kernels without fitting built code, and the package itself.

Numba's own on-disk cache notices a change of the file in which a kernel stands, but not
of the kernels that it calls in other files, and it may end with an error where no folder
can be written.  Here

* a file of the cache is named by the digest of all that its kernel depends on
  (:mod:`hedgerow.compile.digests`), so code compiled from an older source can never run,
  and after an edit only the kernels that depend on it are compiled again;
* a read-only folder is used as it is; if the folder is missing or unusable, kernels
  are compiled in each process, and nothing else changes.

The folder is ``$NUMBA_CACHE_DIR`` or, without it, ``$XDG_CACHE_HOME/hedgerow``
(``~/.cache/hedgerow``, ``%LOCALAPPDATA%\hedgerow``).  Numba's cache files are
pickles: the folder must be as trusted as the code, and is made readable by
its owner only.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import caching, event, funcdesc, itanium_mangler, types
from numba.core.codegen import AOTCPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering

from hedgerow.compile import digests, entry_code, gpu_code
from hedgerow.compile.kernels import Kernel

_CHECKED = "-bounds-checked" if numba.config.BOUNDSCHECK else ""
VERSIONS = f"numba-{numba.__version__}-llvmlite-{llvmlite.__version__}{_CHECKED}"
"""Versions that compiled code depends on, in addition to its sources."""


# -- code kept on disk --------------------------------------------------------------------


def cache_root() -> Path:
    """Return the folder below which compiled kernels are kept (it need not exist)."""
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
    """Return the folder for compiled kernels, or None if there is none and none can be made."""
    try:
        folder = cache_root() / VERSIONS
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.listdir(folder)
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    return folder


@functools.cache
def keeps_code() -> bool:
    """Return whether compiled kernels can be written to the folder."""
    folder = cache_folder()
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return folder is not None


def keep(path: Path, content: bytes) -> None:
    """Write a file in one step; do nothing if the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        pass


class _DigestLocator(caching._CacheLocator):  # noqa: SLF001  (no public way)
    """Numba's locator of a kernel: in :func:`cache_folder`, under the digest of its sources."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        relative = Path(py_file).with_suffix("").parts[-2:]
        self._digest = digests.digest_of(py_func)
        self._name = ".".join((*relative, self._digest))

    def ensure_cache_path(self) -> None:
        """Do nothing: the folder exists, and writing shows whether it is writable."""

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _DigestLocator:
        return cls(py_func, py_file)


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = (_DigestLocator,)


class _KernelCache(caching.FunctionCache):
    _impl_class = _KernelCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return kept code, or None where there is none that this version can read."""
        # Another version of this package may have had the classes of arguments elsewhere.
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling may raise any
            if keeps_code():
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if keeps_code():
            super().save_overload(sig, data)


# -- compilers ----------------------------------------------------------------------------


class _InnerLibrary(JITCodeLibrary):
    """Code of one kernel, optimised with its callers and turned into machine code in theirs only.

    ``called`` are the libraries of all that it calls, and of what these call, in the keys: entries
    link each of them once.  Otherwise each caller would link them, and theirs, again.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.called: dict[Any, None] = {}
        self._whole: Any = None

    def add_linking_library(self, library: Any) -> None:
        library._ensure_finalized()  # noqa: SLF001
        self.called.update({library: None, **getattr(library, "called", {})})

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the code of the kernel and of all that it calls, which callers may drop."""
        if self._whole is None:
            self._whole = whole = self._final_module.clone()
            for library in self.called:
                whole.link_in(library._final_module, preserve=True)  # noqa: SLF001
            for function in whole.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._whole


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    """Write LLVM code for callers to link, without an entry for Python."""

    def run_pass(self, state: Any) -> bool:
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # Callers find the code by this object, which must be a built-in function and
        # unique; a call of this object from Python raises a TypeError.
        lowered = lowered._replace(cfunc=object().__reduce_ex__)
        state.targetctx.insert_user_function(lowered.cfunc, lowered.fndesc, [state.library])
        state["cr"] = lowered
        return True


class _Flags(Flags):
    """Compiler options that hash and compare by the options set, not by all fifty values."""

    # Numba looks up functions by their options a hundred thousand times.

    _HASH = hash(Flags())

    def __hash__(self) -> int:
        return self._HASH

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Flags) and self._values == other._values
        return same or super().__eq__(other)


class _KernelCompiler(Compiler):
    """Numba's compiler without the garbage collector, which would scan a million objects."""

    def __init__(self, *arguments: Any) -> None:
        *first, flags, types_of_names = arguments
        super().__init__(*first, _Flags(flags), types_of_names)

    def compile_extra(self, func: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if enabled:
                gc.enable()


class _EntryCompiler(_KernelCompiler):
    """Compiler of kernels that Python calls."""

    def compile_extra(self, func: Any) -> Any:
        _announce()
        return super().compile_extra(func)


@functools.cache
def _announce() -> None:
    """Say on stderr, once in a process, that kernels are compiled, unless ``HEDGEROW_QUIET=1``."""
    kept = f"once per machine, kept in {cache_folder()}" if keeps_code() else "anew in each process"
    if os.environ.get("HEDGEROW_QUIET", "") in ("", "0") and sys.stderr is not None:
        with suppress(OSError, ValueError):  # a closed stream or pipe must not stop the work
            sys.stderr.write(f"hedgerow: compiling kernels ({kept})\n")


def _run_pass(pipeline: Any, _: int, step: Any, state: Any) -> None:
    step.analysis = pipeline._analysis  # noqa: SLF001
    step.run_pass(state)


class _InnerCompiler(_KernelCompiler):
    """Compiler of inner kernels, which need less than half of Numba's passes."""

    # None for closures, ``with``, exceptions and whole arrays; no analysis of variables after each.
    _PASSES = (
        *("TranslateByteCode", "FixupArgs", "IRProcessing", "RewriteSemanticConstants"),
        *("DeadBranchPrune", "GenericRewrites", "ReconstructSSA", "NopythonTypeInference"),
        *("PreLowerStripPhis", "IRLegalization", "NativeLowering", "NoPythonBackend"),
    )

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_InnerLowering if step is NativeLowering else step, text)
            for step, text in pipeline.passes
            if step.__name__ in self._PASSES
        ]
        pipeline._finalized = False  # noqa: SLF001  (no public way to replace a pass)
        pipeline.finalize()
        pipeline._runPass = functools.partial(_run_pass, pipeline)  # noqa: SLF001
        self.state.type_annotation = None
        return [pipeline]


def make_dispatcher(kernel: Kernel, inner: bool) -> Any:
    """Make Numba's dispatcher of a kernel, for calling kernels (``inner``) or for Python."""
    dispatcher = numba.njit(
        nogil=True,
        pipeline_class=_InnerCompiler if inner else _EntryCompiler,
        error_model="numpy",
        forceinline=kernel.inline,
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
        # Reference counting, an atomic addition for each array that is passed on or read,
        # took a quarter to a third of the time of trees on two thousand rows.
        _nrt=False,
    )(kernel.py_func)
    if not inner and cache_folder() is not None:
        dispatcher._cache = _KernelCache(kernel.py_func)  # noqa: SLF001
    return dispatcher


def entry_of(dispatcher: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return compiled code for arguments of these types."""
    entry: Callable[..., Any] = dispatcher.compile(tuple(map(dispatcher.typeof_pyval, arguments)))
    return entry


def type_of_intrinsic(intrinsic: Any) -> Any:
    """Return Numba's type of one of its own intrinsics."""
    cpu_target.typing_context.refresh()  # its module may have been loaded just now
    cpu_target.target_context.refresh()
    return cpu_target.typing_context.resolve_value_type(intrinsic)


def processor_has(feature: str) -> bool:
    """Return whether code is compiled for a processor with this feature (Numba's options count)."""
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return f"+{feature}" in features.split(",")


# -- machine code for the package ---------------------------------------------------------


def quicken() -> None:
    """Turn off what slows a build down: timers of LLVM, long names, what is found out again."""
    event.broadcast = lambda notice: None
    funcdesc.default_mangler = _name_of_function
    ir.Type.get_abi_size = functools.cache(ir.Type.get_abi_size)
    call_type = functools.partialmethod(_call_type, types.Function.get_call_type)
    types.Function.get_call_type = call_type  # type: ignore[method-assign, assignment]


def _name_of_function(name: str, kinds: Any, abi_tags: Any = (), uid: int | None = None) -> str:
    """Return LLVM's name of a function: a number stands for types, thousands of letters."""
    return str(itanium_mangler.mangle(name, kinds if uid is None else (), uid=uid))


def _call_type(function: Any, find: Any, context: Any, arguments: Any, keywords: Any) -> Any:
    """Return the types of a call of one of Numba's functions, which tries all that it may mean."""
    found = function.__dict__.setdefault("_found", {})
    key = arguments, tuple(keywords.items())
    if key not in found:
        found[key] = find(function, context, arguments, keywords)
    return found[key]


class Target(NamedTuple):
    """A kind of machine: LLVM's name of the system, of the processor, and its features."""

    triple: str
    processor: str
    features: str


class _TargetCodegen(AOTCPUCodegen):
    """Writes object files for any kind of machine, with Numba's order of passes."""

    def __init__(self, target: Target) -> None:
        self._target = target
        super().__init__("hedgerow", target.processor)

    def _init(self, llvm_module: Any) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self._tm = llvm.Target.from_triple(self._target.triple).create_target_machine(
            cpu=self._target.processor,
            features=self._target.features,
            opt=3,
            reloc="pic",
            codemodel="default",
        )
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        self._loopvect, self._opt_level = False, 0

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        module.triple = self._target.triple
        return module

    def adopt(self, module: Any) -> None:
        """Retarget a module that was written for this machine and is not optimised."""
        module.triple, module.data_layout = self._target.triple, self._data_layout

    def assembly_of(self, module: Any) -> str:
        """Optimise a module for the target and return its assembly text."""
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(self._tm, options)
        builder.getModulePassManager().run(module, builder)
        text: str = self._tm.emit_assembly(module)
        return text


_codegen = functools.cache(_TargetCodegen)


@global_compiler_lock
def write_code(kernel: Kernel, argument_types: tuple[Any, ...]) -> Any:
    """Have Numba find the types of a kernel and write its LLVM code."""
    dispatcher = kernel.inner_dispatcher
    dispatcher.compile(argument_types)
    return dispatcher.overloads[argument_types]


@global_compiler_lock
def write_entry(kernel: Kernel, argument_types: tuple[Any, ...], symbol: str) -> bytes:
    """Return the LLVM code of a kernel with an entry that takes Python objects, as bitcode."""
    compiled = write_code(kernel, entry_code.kinds_of_entry(argument_types))
    entry = cpu_target.target_context.codegen().create_library(symbol)
    module = entry.create_ir_module(symbol)
    entry_code.write_entry(module, compiled, symbol)
    entry.add_ir_module(module)
    whole = entry._final_module  # noqa: SLF001
    whole.link_in(compiled.library._get_module_for_linking(), preserve=True)  # noqa: SLF001
    code: bytes = whole.as_bitcode()
    return code


@global_compiler_lock
def machine_code(bitcode: bytes, symbol: str, target: Target) -> bytes:
    """Return the object file of the LLVM code of an entry."""
    codegen = _codegen(target)
    module = llvm.parse_bitcode(bitcode)
    codegen.adopt(module)
    entry = codegen.create_library(symbol)
    entry._final_module = module  # noqa: SLF001
    entry.finalize()
    _hide_all_but(module, symbol)
    code: bytes = entry.emit_native_object()
    return code


@global_compiler_lock
def build_support(build: str, target: Target) -> bytes:
    """Return an object file with the code that all entries of a library share."""
    codegen = _codegen(target)
    support = codegen.create_library("hedgerow_support")
    module = support.create_ir_module("hedgerow_support")
    entry_code.write_support(module, build)
    support.add_ir_module(module)
    support.finalize()
    code: bytes = support.emit_native_object()
    return code


@global_compiler_lock
def build_ptx(entries: Sequence[tuple[Kernel, tuple[Any, ...], str]], target: Target) -> bytes:
    """Compile kernels for a GPU (:mod:`hedgerow.compile.ptx`)."""
    codegen = _codegen(target)
    written = codegen.create_library("hedgerow_ptx").create_ir_module("hedgerow_ptx")
    parts = []
    for kernel, argument_types, symbol in entries:
        compiled = write_code(kernel, argument_types)
        gpu_code.write_entry(written, compiled, symbol)
        parts.append(compiled.library._get_module_for_linking())  # noqa: SLF001
    module = llvm.parse_assembly(str(written))
    for part in parts:
        copy = part.clone()
        codegen.adopt(copy)
        module.link_in(copy)
    _hide_all_but(module, *(symbol for _, _, symbol in entries))
    text: str = codegen.assembly_of(module)
    return text.encode()


def _hide_all_but(module: Any, *symbols: str) -> None:
    """Keep names inside the object file: other entries hold copies of the same functions."""
    for item in (*module.functions, *module.global_variables):
        if item.is_declaration:
            # Numba's frexp and ldexp are the C functions, in a library of its own.
            item.name = item.name.removeprefix("numba_")
        elif item.name not in symbols:
            item.linkage = "internal"
