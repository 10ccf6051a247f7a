"""Naive twins of the kernels in hedgerow.kernels.tables.binning and .hashing: slow and exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

_WORD = 2**64


def mix64(bits):
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % _WORD
    return bits ^ (bits >> 31)


def hash64(seed, stream, index):
    step = 0x9E3779B97F4A7C15
    start = mix64((mix64((seed + step) % _WORD) + stream * step) % _WORD)
    return mix64((start + (index + 1) * step) % _WORD)


def bin_of(value, cuts, missing_bin):
    """Return the number of cuts below the value; Python compares ints and floats exactly."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing_bin
    return sum(cut < value for cut in cuts)


def masses_of(values, weights):
    """Return ascending (value, mass) of the values that are not missing."""
    pairs = sorted(
        ((v, Fraction(w)) for v, w in zip(values, weights, strict=True) if not math.isnan(v)),
        key=lambda pair: pair[0],
    )
    return [
        (value, sum(w for _, w in group))
        for value, group in itertools.groupby(pairs, key=lambda pair: pair[0])
    ]


def light_target(masses, max_bins):
    target, bins_left = sum(masses) / max_bins, max_bins
    for _ in range(8):
        heavy = [mass for mass in masses if mass >= target]
        if max_bins - len(heavy) == bins_left or len(heavy) >= max_bins:
            break
        bins_left = max_bins - len(heavy)
        target = (sum(masses) - sum(heavy)) / bins_left
    return target, bins_left


def choose_cuts(masses, max_bins):
    """Return the indices c of cuts between the distinct values c - 1 and c."""
    if len(masses) <= max_bins:
        return list(range(1, len(masses)))
    heavy_mass, bins_left = light_target(masses, max_bins)
    mass_left = heavy_mass * bins_left
    target, held, cuts = heavy_mass, 0, []
    for index, mass in enumerate(masses):
        heavy = mass >= heavy_mass
        goal = target / 2 if heavy else target - mass / 2
        if held > 0 and bins_left > 0 and held > goal and len(cuts) < max_bins - 1:
            cuts.append(index)
            bins_left -= 1
            mass_left, held = mass_left - held, 0
            target = mass_left / bins_left if bins_left else math.inf
        if not heavy:
            held += mass
        elif index + 1 < len(masses) and len(cuts) < max_bins - 1:
            cuts.append(index + 1)
            mass_left, held = mass_left - held, 0
            target = mass_left / bins_left if bins_left else math.inf
    return cuts
