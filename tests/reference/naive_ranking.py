"""Naive twins of the ranking kernels, by definition."""

from __future__ import annotations

import math

import numpy as np

from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.objectives.ranking.lambdas import GAIN_STREAM, PAIR_STREAM


def ranking(score) -> list[int]:
    """Return the rows by descending score; ties keep their order."""
    return sorted(range(len(score)), key=lambda i: (-score[i], i))


def dcg(gains, most=None) -> float:
    """Return the DCG of gains in the order of the list."""
    return sum(gain / math.log2(2 + rank) for rank, gain in enumerate(gains[:most]))


def ndcg(labels, score, most=None, gain=lambda label: 2.0**label - 1.0) -> float:
    """Return the NDCG; rows of equal scores have the mean of their gains."""
    ideal = dcg(sorted(map(gain, labels), reverse=True), most)
    ties = [[gain(labels[k]) for k in range(len(score)) if score[k] == value] for value in score]
    found = [sum(ties[i]) / len(ties[i]) for i in ranking(score)]
    return dcg(found, most) / ideal if ideal > 0 else 1.0


def average_precision(relevant, most=None) -> float:
    """Return the average precision of a list of booleans."""
    n = sum(relevant)
    if n == 0:
        return 1.0
    most = len(relevant) if most is None else min(most, len(relevant))
    found = [sum(relevant[: r + 1]) / (r + 1) for r in range(most) if relevant[r]]
    return sum(found) / min(n, most)


def score_of(kind, labels, score, most=None) -> float:
    """Return a metric of one query by its name."""
    listed = [labels[i] for i in ranking(score)]
    top = listed[:most]
    if kind == "ndcg":
        return ndcg(labels, score, most)
    if kind == "map":
        return average_precision([label > 0 for label in listed], most)
    if kind == "mrr":
        return next((1.0 / (rank + 1) for rank, label in enumerate(top) if label > 0), 0.0)
    if kind == "precision":
        return sum(label > 0 for label in top) / len(top)
    if kind == "recall":
        return sum(label > 0 for label in top) / max(sum(label > 0 for label in labels), 1)
    if kind == "err":
        return err(labels, score, max(labels), most)
    raise AssertionError(kind)


def pair_auc(labels, score) -> float | None:
    """Return the share of the pairs with different labels in the right order; None without any."""
    found = [
        (float(score[i] > score[j]) + float(score[i] == score[j]) / 2)
        for i in range(len(labels))
        for j in range(len(labels))
        if labels[i] > labels[j]
    ]
    return sum(found) / len(found) if found else None


def err(labels, score, largest, most=None) -> float:
    total, goes_on = 0.0, 1.0
    for rank, i in enumerate(ranking(score)[:most]):
        satisfied = (2.0 ** labels[i] - 1.0) / 2.0**largest
        total += goes_on * satisfied / (rank + 1)
        goes_on *= 1.0 - satisfied
    return total


def change_by_swap(kind, listed, i, j, most) -> float:
    """Return the change by swapping ranks i and j, by computing the score twice."""
    swapped = list(listed)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    if kind == "ndcg":
        ideal = dcg(sorted(listed, reverse=True), most)
        return abs(dcg(listed) - dcg(swapped)) / ideal
    if kind == "map":
        return abs(average_precision(listed) - average_precision(swapped))
    n = len(listed)
    pairs = sum(listed[a] != listed[b] for a in range(n) for b in range(a))
    return n / pairs


def pair_gradients(
    kind, values, score, *, most=None, sigmoid=1.0, normalize=False, rows=None, drawn=0,
    seed=0, round_=0,
):  # fmt: skip
    """Return g and h of the rows of one query, pair by pair; ``values`` identify the rows."""
    n = len(values)
    g, h = np.zeros(n), np.zeros(n)
    if len(set(values)) == 1:
        return g, h
    order = ranking(score)
    listed = [values[i] for i in order]
    rank = {place: r for r, place in enumerate(order)}
    if drawn:
        pairs = list(_drawn(values, rows, drawn, seed, round_, rank))
    else:
        most_ranks = n if most is None else most
        pairs = [(i, j) for i in range(min(n - 1, most_ranks)) for j in range(i + 1, n)]
    spread = score[order[0]] - score[order[-1]]
    total = 0.0
    for i, j in pairs:
        if listed[i] == listed[j]:
            continue
        high, low = (order[i], order[j]) if listed[i] > listed[j] else (order[j], order[i])
        mass = change_by_swap(kind, listed, i, j, most) / (drawn or 1)
        if kind == "plain" and drawn:
            mass = 1.0 / drawn
        if normalize and spread > 0:
            mass /= 0.01 + abs(score[high] - score[low])
        p = 1.0 / (1.0 + math.exp(sigmoid * (score[high] - score[low])))
        g[high] -= sigmoid * p * mass
        g[low] += sigmoid * p * mass
        h[high] += sigmoid**2 * p * (1 - p) * mass
        h[low] += sigmoid**2 * p * (1 - p) * mass
        total += 2 * sigmoid * p * mass
    if normalize and total > 0:
        factor = math.log2(1 + total) / total
        g, h = g * factor, h * factor
    return g, h


def _drawn(values, rows, drawn, seed, round_, rank):
    by_value = sorted(range(len(values)), key=lambda i: (-values[i], i))
    for place in range(len(values)):
        others = [i for i in by_value if values[i] != values[place]]
        for k in range(drawn):
            index = int(rows[place]) * drawn + k
            number = int(hash_range(seed, PAIR_STREAM + round_, index, index + 1)[0])
            partner = others[number % len(others)]
            yield tuple(sorted((rank[place], rank[partner])))


def pair_loss(values, score, sigmoid=1.0) -> float:
    """Return the number of rows times the mean logistic loss of the pairs."""
    losses = [
        math.log1p(math.exp(-sigmoid * (score[a] - score[b])))
        for a in range(len(values))
        for b in range(len(values))
        if values[a] > values[b]
    ]
    return len(values) * sum(losses) / len(losses) if losses else 0.0


def softmax(score):
    e = np.exp(score - np.max(score))
    return e / e.sum()


def shares(labels, noise):
    phi = 2.0 ** np.asarray(labels) - noise
    return phi / phi.sum()


def cross_entropy(labels, score, noise) -> float:
    return float(-(shares(labels, noise) * np.log(softmax(score))).sum())


def noise_of(rows, seed, round_):
    words = [int(hash_range(seed, GAIN_STREAM + round_, int(r), int(r) + 1)[0]) for r in rows]
    return np.array([(word >> 11) * 2.0**-53 for word in words])


def cross_entropy_gradients(labels, score, noise, terms=3):
    """Return the first derivative, and the terms that LightGBM adds to it."""
    if len(set(labels)) == 1:
        return np.zeros(len(labels)), np.zeros(len(labels))
    rho = softmax(score)
    term = rho - shares(labels, noise)
    g = term.copy()
    for _ in range(terms - 1):
        part = term / (1.0 - rho)
        term = rho * (part.sum() - part)
        g += term
    return g, rho * (1.0 - rho)
