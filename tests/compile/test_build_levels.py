"""Levels of processors share the code of kernels whose digest does not depend on the level."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

LIST_DIGESTS = """
import json
from hedgerow.compile.build import _digests
from hedgerow.compile.variants import read_variants

names = sorted({variant.kernel for variant in read_variants()})
print(json.dumps(dict(zip(names, _digests(names)))))
"""


def digests_for(features: str) -> dict[str, str]:
    environment = {**os.environ, "NUMBA_CPU_FEATURES": features, "HEDGEROW_COMPILE": "always"}
    printed = subprocess.run(
        [sys.executable, "-c", LIST_DIGESTS],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    digests: dict[str, str] = json.loads(printed)
    return digests


@pytest.fixture(scope="module")
def narrow() -> dict[str, str]:
    return digests_for("+avx2")


def test_only_kernels_without_lanes_have_the_same_digest_with_avx512(
    narrow: dict[str, str],
) -> None:
    wide = digests_for("+avx2,+avx512f,+avx512dq")
    differing = {name.partition(":")[0] for name in narrow if narrow[name] != wide[name]}
    assert {
        "hedgerow.growing.core.grow",
        "hedgerow.growing.chunks.stages.nodes",
        "hedgerow.kernels.shapley.row_blocks",
    } <= differing
    same = {name.partition(":")[0] for name in narrow if narrow[name] == wide[name]}
    assert {
        "hedgerow.cart.grow",
        "hedgerow.kernels.tables.binning",
        "hedgerow.kernels.prediction.predict",
    } <= same


def test_digests_do_not_change_from_process_to_process(narrow: dict[str, str]) -> None:
    assert digests_for("+avx2") == narrow
