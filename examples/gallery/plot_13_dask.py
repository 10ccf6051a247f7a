"""
Training on a Dask cluster
==========================

The Dask estimators train on the workers that hold the partitions.  The model has the same bytes as
one that is trained on a single machine.
"""

# %%
import dask.array as da
import numpy as np

from distributed import Client, LocalCluster
from hedgerow import DaskHedgerowRegressor, HedgerowRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 5))
y = X[:, 0] + np.sin(3.0 * X[:, 1])
params = {"n_estimators": 30, "learning_rate": 0.1, "early_stopping": False}

# %%
# Two workers in this process stand for two machines.
with LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
    with Client(cluster) as client:
        model = DaskHedgerowRegressor(**params)
        model.fit(da.from_array(X, chunks=(1000, 5)), da.from_array(y, chunks=1000), client=client)
alone = HedgerowRegressor(**params).fit(X, y)
print("same bytes:", model.booster_.to_bytes() == alone.booster_.to_bytes())
