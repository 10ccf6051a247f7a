"""A graph of ONNX during construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.convert.writers.plain import PlainModel

INT64 = 7
"""Number of the type in ONNX."""


class Graph:
    """Parts of a graph during construction.

    Attributes
    ----------
    plain : PlainModel
    nodes, inputs, outputs, constants : list
        As in ``GraphProto`` of ONNX.
    known : set of str
        Outputs of the nodes.
    """

    def __init__(self, plain: PlainModel) -> None:
        self.plain = plain
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self.known: set[str] = set()

    def node(self, kind: str, given: list[str], out: str, domain: str = "", **options: Any) -> str:
        """Add an operator with one output, and return the output's name."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, given, [out], domain=domain, **options))
        self.known.add(out)
        return out

    def constant(self, name: str, values: AnyArray) -> str:
        """Add a constant."""
        self.constants.append(tensor(values, name))
        return name

    def number(self, name: str, value: float) -> str:
        """Add a constant number of shape (1, 1)."""
        return self.constant(name, np.array([[value]]))

    def output(self, name: str, kind: int, shape: list[Any]) -> None:
        """Declare an output."""
        from onnx import helper

        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))


def tensor(values: AnyArray, name: str) -> Any:
    """Return an array as a tensor; texts have the dtype object."""
    from onnx import numpy_helper

    return numpy_helper.from_array(values, name)
