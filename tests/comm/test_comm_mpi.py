"""Collectives between two processes of an MPI job."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed (hedgerow[mpi])")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec (pip install mpich)")

SCRIPT = """
import sys
import numpy as np
from mpi4py import MPI
from hedgerow.comm.mpi import MpiRanks, run_rank
from tests.helpers.ranks import run_ranks

def collectives(ranks):
    rng = np.random.default_rng(ranks.rank)
    array = rng.integers(-2**60, 2**60, 100_003)
    ranks.barrier()
    return [
        ranks.allreduce(array),
        ranks.allreduce(array[:12].reshape(3, 4).T, "max"),
        ranks.reduce_scatter(array, [0, 7, array.size]),
        ranks.reduce_scatter(array, [0, 0, array.size]),
        ranks.allgather(b"" if ranks.rank else b"from zero"),
        ranks.allgather(b""),
    ]

def check(ranks):
    assert ranks.size == 2, ranks.size
    expected = run_ranks(2, collectives)[ranks.rank]
    for found, right in zip(collectives(ranks), expected, strict=True):
        if isinstance(right, list):
            assert found == right
        else:
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, right)
    alone = MpiRanks(MPI.COMM_WORLD.Split(ranks.rank))
    assert (alone.rank, alone.size) == (0, 1)
    assert alone.allreduce(np.array([ranks.rank])) == ranks.rank
    if "fail" in sys.argv and ranks.rank == 1:
        raise KeyError("on purpose")
    if "stuck" in sys.argv or "fail" in sys.argv:
        ranks.barrier()
    print("same as between threads")

run_rank(check)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert MPIEXEC is not None
    return subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_results_are_those_of_ranks_in_threads() -> None:
    ended = run()
    if "unable to" in ended.stderr.lower() and "launch" in ended.stderr.lower():
        pytest.skip(f"mpiexec does not start processes here: {ended.stderr[:200]}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("same as between threads") == 2


def test_an_error_in_one_process_ends_the_job() -> None:
    ended = run("fail")
    assert ended.returncode != 0
    assert "on purpose" in ended.stderr
    assert "same as between threads" not in ended.stdout
