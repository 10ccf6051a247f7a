"""
Predict one row at a time
=========================

``predict_one`` takes a row as a dict, takes microseconds, and is thread-safe.
"""

# %%
import time
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowClassifier

rng = np.random.default_rng(0)
X = {"age": rng.integers(18, 90, 2000), "city": rng.choice(["Oslo", "Rome"], 2000)}
y = (X["age"] / 90 + (X["city"] == "Oslo") + rng.normal(size=2000)) > 1
model = HedgerowClassifier(n_estimators=100).fit(X, y)

# %%
print(model.predict_one({"age": 39, "city": "Oslo"}))
print(model.predict_one({"age": None, "city": "Paris"}))  # a missing value and an unknown category

# %%
# Four threads may share a model, because prediction does not change it.
rows = [{"age": int(age), "city": "Rome"} for age in range(18, 90)]
with ThreadPoolExecutor(4) as pool:
    predictions = list(pool.map(model.predict_one, rows))
plt.plot(range(18, 90), [np.ravel(p)[-1] for p in predictions])
plt.xlabel("age")

# %%
start = time.perf_counter()
for _ in range(1000):
    model.predict_one(rows[0])
print(f"{(time.perf_counter() - start) * 1000:.1f} us a row")
