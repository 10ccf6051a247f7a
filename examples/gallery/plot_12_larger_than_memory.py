"""
Tables larger than memory
=========================

Hedgerow reads rows from files in batches, bins them, and stores the bins in a folder.  The model
has the same bytes as one that is trained in memory.
"""

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from hedgerow import Dataset, train

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
tables = []
for month in range(4):
    table = pd.DataFrame(rng.normal(size=(5000, 6)), columns=list("abcdef"))
    table["y"] = table["a"] * table["b"] + rng.normal(scale=0.1, size=5000)
    table.to_parquet(folder / f"month-{month}.parquet")
    tables.append(table)

# %%
params = {"n_estimators": 50, "max_leaves": 31}
from_files = train(params, Dataset.from_files(folder, target="y", memory_limit="64 MB"))
rows = pd.concat(tables)
in_memory = train(params, Dataset(rows.drop(columns="y"), rows["y"]))
print("same bytes:", from_files.to_bytes() == in_memory.to_bytes())

# %%
from_files.plot_tree(0, max_depth=3)
