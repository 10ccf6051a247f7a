"""Make a page that predicts in the browser: the engine of this package as WebAssembly.

::

    pip install 'hedgerow[jit]' ziglang
    hedgerow train rows.csv --target price -o model.hedgerow
    python examples/browser/make.py model.hedgerow site
    python -m http.server --directory site

LLVM compiles the kernel that walks trees to WebAssembly as it does to machine code, so raw scores
have the same bits as here.  The folder gets ``predict.wasm`` (11 kB),
``tables.bin`` and ``model.json`` (the model), ``hedgerow.mjs`` (:func:`load`, for browsers and
Node) and ``index.html``.

Columns have to be numbers: reading text and dates is Python, which a browser does not have.
Leaves with lines are not taken either.  The package itself does not run in the browser: its
kernels are called through the interpreter's C interface with pointers of 64 bits, and Pyodide has
32.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.np import arrayobj

import hedgerow
from hedgerow.compile import just_in_time
from hedgerow.compile.variants import find_kernel, parse_types, read_variants
from hedgerow.kernels.prediction.predict import WALK_BLOCK, walk_space
from hedgerow.model.predict import NO_CATEGORIES, NO_NUMBERS, Predictor

HERE = Path(__file__).parent
KERNEL = "hedgerow.kernels.prediction.predict:walk_trees"
WASM = just_in_time.Target("wasm32-unknown-unknown", "generic", "")
WORD = ir.IntType(64)


# -- the program --------------------------------------------------------------------------


def compile_kernel(path: Path) -> None:
    """Write a module with the function ``predict(address)``.

    At the address are words of 64 bits: an argument that is a number is one word, an array its
    address and shape, a tuple its items.
    """
    kinds = next(parse_types(one.types) for one in read_variants() if one.kernel == KERNEL)
    compiled = just_in_time.write_code(find_kernel(KERNEL), kinds)
    context, signature = compiled.target_context, compiled.signature
    library = context.codegen().create_library("predict")
    module = library.create_ir_module("predict")
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD.as_pointer()]), "predict")
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    words = iter(range(2**31))

    def word() -> Any:
        return builder.load(builder.gep(entry.args[0], [WORD(next(words))]))

    values = [value_of(context, builder, kind, word) for kind in signature.args]
    form = context.call_conv.get_function_type(signature.return_type, signature.args)
    kernel = ir.Function(module, form, compiled.fndesc.llvm_func_name)
    context.call_conv.call_function(builder, kernel, signature.return_type, signature.args, values)
    builder.ret_void()
    library.add_ir_module(module)
    whole = library._final_module
    whole.link_in(compiled.library._get_module_for_linking(), preserve=True)
    code = just_in_time.machine_code(whole.as_bitcode(), "predict", WASM)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "predict.o"
        made.write_bytes(code)
        link = [sys.executable, "-m", "ziglang", "wasm-ld", "--no-entry", "--export=predict"]
        subprocess.run([*link, str(made), "-o", str(path)], check=True)


def value_of(context: Any, builder: Any, kind: Any, word: Callable[[], Any]) -> Any:
    """Return the next value of a Numba type, made from words."""
    if isinstance(kind, types.BaseTuple):
        items = [value_of(context, builder, item, word) for item in kind.types]
        return context.make_tuple(builder, kind, items)
    if not isinstance(kind, types.Array):
        return word()
    item = context.get_data_type(kind.dtype)
    data = builder.inttoptr(word(), item.as_pointer())
    shape = [word() for _ in range(kind.ndim)]
    size = WORD(context.get_abi_sizeof(item))
    strides = [size]
    for length in shape[:0:-1]:  # arrays in C order
        strides.insert(0, builder.mul(strides[0], length))
    array = arrayobj.make_array(kind)(context, builder)
    arrayobj.populate_array(array, data, shape, strides, size, meminfo=None)
    return array._getvalue()


# -- the model ----------------------------------------------------------------------------


def describe(booster: hedgerow.Booster) -> tuple[dict[str, Any], bytes]:
    """Return the model as the arguments of the kernel, and its arrays one after another."""
    model, forest = booster.model, booster.model.forest
    if set(model.split_schema.kinds) != {"float"} or model.split_schema != model.schema:
        raise SystemExit("the page reads numbers only: train without text, dates and crosses.")
    if forest.slopes is not None:
        raise SystemExit("the page has no lines in leaves: train with linear_leaves=False.")
    predictor, block = Predictor(forest, model.split_schema.kinds), WALK_BLOCK
    values = np.zeros((block, forest.n_features))
    batch = predictor._batch(values, walks=True)
    (_, coding, *place), walk = batch.rows, predictor.tables.walk64
    contents, scores, steps = (
        predictor.tables.contents,
        np.zeros((forest.n_outputs, block)),
        [1, block],
    )
    if forest.vectors is not None:  # the scores of a row are neighbours
        scores, steps = np.zeros((block, contents.vectors.shape[1])), [contents.vectors.shape[1], 1]
    space, no_leaves = walk_space(len(walk[0]), block, block), np.zeros((0, 0), dtype=np.int32)
    arrays, leaves = bytearray(), (*contents[1:], NO_NUMBERS, 0)

    def words(argument: Any, name: str = "") -> list[Any]:
        """Return the words of an argument; ``[offset]`` stands for an address, text for a room."""
        if isinstance(argument, tuple):
            return [word for item in argument for word in words(item)]
        if not isinstance(argument, np.ndarray):
            return [str(argument)]
        if name:
            return [name, *map(str, argument.shape)]
        arrays.extend(bytes(-len(arrays) % 64))
        offset = len(arrays)
        arrays.extend(np.ascontiguousarray(argument).tobytes())
        return [[offset], *map(str, argument.shape)]

    arguments = [
        *words(values.ravel().view(np.int64), "rows"), *words((coding, *place, tuple(walk))),
        *words(scores, "scores"), *words((block, 0)), "stop", *words((0, forest.n_trees)),
        *words(NO_CATEGORIES), *words(space, "space"), *words(leaves), *words(no_leaves),
    ]  # fmt: skip
    described = {
        "features": list(model.schema.names),
        "block": block,
        "scores": scores.size,
        "steps": steps,  # from a row to the next in the scores, and from an output to the next
        "base_score": np.asarray(forest.base_score, dtype=np.float64).tolist(),
        "space": len(space),
        "arguments": arguments,
    }
    return described, bytes(arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="model file")
    parser.add_argument("folder", type=Path, help="folder of the page")
    given = parser.parse_args()
    model = hedgerow.load(given.model)
    described, arrays = describe(getattr(model, "booster_", model))
    given.folder.mkdir(parents=True, exist_ok=True)
    compile_kernel(given.folder / "predict.wasm")
    (given.folder / "model.json").write_text(json.dumps(described), encoding="utf-8")
    (given.folder / "tables.bin").write_bytes(arrays)
    for name in ("hedgerow.mjs", "index.html"):
        shutil.copy(HERE / name, given.folder / name)
    print(f"{given.folder}: {sum(one.stat().st_size for one in given.folder.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
