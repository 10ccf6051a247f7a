"""
Ranking
=======

Put the rows of each query in order: search results, offers, candidates.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from hedgerow import HedgerowRanker

rng = np.random.default_rng(0)
n_queries, per_query = 200, 20
qid = np.repeat(np.arange(n_queries), per_query)
X = rng.normal(size=(len(qid), 8))
relevance = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + rng.normal(scale=0.5, size=len(qid))
y = np.digitize(relevance, [0.5, 1.5, 2.5])  # grades from 0 to 3
train = qid < 150

# %%
# LambdaMART weights the gradient of a pair of rows by the change of NDCG if the two rows are
# swapped.
ranker = HedgerowRanker(n_estimators=100, eval_metric=["ndcg@5", "map@5"])
ranker.fit(
    X[train], y[train], qid=qid[train],
    X_val=X[~train], y_val=y[~train], qid_val=qid[~train],
)  # fmt: skip
print("ndcg of the other queries:", round(ranker.score(X[~train], y[~train], qid=qid[~train]), 3))

# %%
# Plot the mean grade at each position, ordered by the model and at random.
scores = ranker.predict(X[~train]).reshape(-1, per_query)
grades = y[~train].reshape(-1, per_query)
ordered = np.take_along_axis(grades, np.argsort(-scores, axis=1), axis=1)
plt.plot(np.arange(1, per_query + 1), ordered.mean(axis=0), "o-", label="by the ranker")
plt.axhline(grades.mean(), color="grey", linestyle="--", label="at random")
plt.xlabel("position")
plt.ylabel("mean grade")
plt.legend()
