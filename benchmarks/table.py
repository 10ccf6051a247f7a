"""Write the figures in ``benchmarks/results/`` into README.md and docs/benchmarks.md.

Every number comes from a file of results.  Rows without measurements are left out.
``--check`` only reports whether the two files are up to date, and whether the engine has
changed too much since it was measured (``engine.py``).
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import engine
from result_files import Result, load, newest_date, newest_engine

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- benchmark:start -->", "<!-- benchmark:end -->"
NAMES = {
    "hedgerow": "Hedgerow",
    "hedgerow_train": "`hedgerow.train`",
    "lightgbm": "LightGBM",
    "lightgbm_quantised": "LightGBM quantised",
    "xgboost": "XGBoost",
    "sklearn_hgb": "scikit-learn HGB",
    "catboost": "CatBoost",
    "hessboost": "hessboost",
    "bonsai": "bonsai-gbt",
}
README_PEERS = ("hedgerow", "lightgbm", "xgboost")
README_ROWS = ("1m_31", "10k", "predict_31")
FIT_ORDER = (
    "1m_31",
    "1m_255",
    "100k",
    "10k",
    "1k",
    "wide",
    "multiclass",
    "missing",
    "heavy_student",
    "heavy_lognormal",
    "flights3m",
    "fremtpl2",
    "weather_aus",
    "adult",
    "california",
)

_ABOUT = """\
Written by `python benchmarks/table.py` from the files in `benchmarks/results/`;
`python benchmarks/run.py --list` says what can be measured.  Do not edit by hand.
`python benchmarks/table.py --check` fails when modules with {limit:.0%} of the engine's lines
have changed since the newest figures.

All libraries get the same rows, trees, leaves, learning rate, bins, smallest leaf, penalties
and threads, and take turns in one process.  XGBoost has no smallest number of rows in a leaf,
only a smallest sum of hessians."""


EARLIER = "†"
_EARLIER_ROWS = f"{EARLIER} measured on an earlier engine than that of the newest row."


def title_of(result: Result, newest: str | None) -> str:
    """Return the title of a row, with a mark if it was measured on an earlier engine."""
    stale = newest is None or result.get("engine") != newest
    title: str = result["title"]
    return f"{title} {EARLIER}" if stale else title


def by_peer(result: Result) -> dict[str, Any]:
    return {item["peer"]: item for item in result["results"]}


def duration(seconds: float) -> str:
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if abs(seconds) < 1.0:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"


_ABLATION = (
    "`python benchmarks/ablation.py` changes one thing at a time on the same rows: 2 threads, "
    "medians of 3 runs in turn, 50 trees (one-hot: 20)."
)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def main_score(item: dict[str, Any]) -> str:
    name, value = next(iter(item["scores"].items()))
    return f"{name} {value:.5g}"


def time_cells(result: Result, peers: list[str], *, scores: bool) -> list[str]:
    """Return the median time of each peer, its ratio to Hedgerow's, and the test score."""
    items = by_peer(result)
    ours = items.get("hedgerow", {}).get("median_s")
    cells = []
    for peer in peers:
        item = items.get(peer)
        if item is None:
            cells.append("")
            continue
        text = duration(item["median_s"])
        if ours and peer != "hedgerow":
            text += f" ({item['median_s'] / ours:.2g}x)"
        if scores and "scores" in item:
            text += f"; {main_score(item)}"
        cells.append(text)
    return cells


def timed(results: dict[str, Result]) -> list[Result]:
    fits = [results[name] for name in FIT_ORDER if name in results]
    rest = [results[n] for n in ("predict_31", "predict_255", "one_row") if n in results]
    return fits + rest


def same_conditions(results: list[Result]) -> None:
    """Raise an error if the figures of one table have different settings or machines."""
    for key in ("trees", "learning_rate", "bins", "threads"):
        found = {result["workload"]: result["settings"][key] for result in results}
        if len(set(found.values())) > 1:
            raise SystemExit(f"the results differ in {key}: {found}; run some of them again")
    for key in ("cpu", "cores"):
        found = {result["workload"]: result["machine"][key] for result in results}
        if len(set(found.values())) > 1:
            raise SystemExit(f"the results differ in {key}: {found}; run some of them again")


def machine_line(results: list[Result]) -> str:
    same_conditions(results)
    machine, settings = results[0]["machine"], results[0]["settings"]
    versions = sorted(
        {
            f"{NAMES.get(item['peer'], item['peer'])} {item['version']}"
            for result in results
            for item in result["results"]
            if "version" in item and item["peer"] in README_PEERS
        }
    )
    return (
        f"Medians of {min(len(i['seconds']) for r in results for i in r['results'])} or more runs "
        f"in turn in one process, {settings['threads']} threads each, on {machine['cores']} cores "
        f"of {machine['cpu']}, Python {machine['python']}; {', '.join(versions)}. "
        f"{settings['trees']} trees, learning rate {settings['learning_rate']}, "
        f"{settings['bins']} bins; times run from the user's arrays to the fitted model, binning "
        "included. In brackets: how many times as long as Hedgerow. After the time: score on test "
        "rows (smaller is better)."
    )


def time_table(chosen: list[Result], peers: list[str], newest: str | None) -> str:
    rows = [[title_of(each, newest), *time_cells(each, peers, scores=True)] for each in chosen]
    text = markdown(["", *(NAMES[peer] for peer in peers)], rows)
    return f"{text}\n\n{_EARLIER_ROWS}" if EARLIER in text else text


def readme_block(results: dict[str, Result]) -> str:
    chosen = [results[name] for name in README_ROWS if name in results]
    if not chosen:
        return "No figures yet: `python benchmarks/run.py 100k && python benchmarks/table.py`."
    return (
        f"{time_table(chosen, list(README_PEERS), newest_engine(results))}\n\n"
        f"{machine_line(chosen)}\n\n"
        "[docs/benchmarks.md](docs/benchmarks.md) has other workloads, libraries and processors."
    )


def peers_of(results: list[Result]) -> list[str]:
    seen = {item["peer"] for result in results for item in result["results"]}
    return [peer for peer in NAMES if peer in seen]


def quality_table(results: dict[str, Result]) -> str:
    chosen = [result for result in results.values() if result["kind"] == "quality"]
    peers = peers_of(chosen)
    rows = []
    for result in chosen:
        items, cells = by_peer(result), []
        metric = next(iter(result["results"][0]["scores"][0]))
        for peer in peers:
            values = [scores[metric] for scores in items.get(peer, {"scores": []})["scores"]]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{statistics.mean(values):.5g} ± {spread:.2g}" if values else "")
        rows.append([title_of(result, newest_engine(results)), metric, *cells])
    return markdown(["", "score", *(NAMES[peer] for peer in peers)], rows)


def plain_table(result: Result, columns: dict[str, str]) -> str:
    rows = []
    for item in result["results"]:
        cells = [
            duration(item[key]) if key.endswith("_s") else f"{item[key]:.0f}" for key in columns
        ]
        rows.append([NAMES.get(item["peer"], item["peer"]), *cells])
    return markdown(["", *columns.values()], rows)


def docs_page(machines: list[dict[str, Result]]) -> str:
    """Return the page with all figures, a section for each machine."""
    parts = ["# Benchmarks", _ABOUT.format(limit=engine.LIMIT)]
    for results in machines:
        parts += machine_section(results)
    return "\n\n".join(parts) + "\n"


def machine_section(results: dict[str, Result]) -> list[str]:
    """Return the figures of one machine; leave out tables without results."""
    newest = newest_engine(results)
    machine = next(iter(results.values()))["machine"]
    parts = [f"## {machine['cpu']}", f"Last measured on {newest_date(results)[:10]}."]
    chosen = timed(results)
    if chosen:
        times = time_table(chosen, peers_of(chosen), newest)
        parts += ["### Time, and test score", machine_line(chosen), times]
    if any(result["kind"] == "quality" for result in results.values()):
        parts += ["### Quality: mean ± standard deviation over seeds", quality_table(results)]
    first_use = {
        "load_s": "import",
        "first_s": "first",
        "second_s": "second",
        "extra_s": "difference",
    }
    sections: tuple[tuple[str, dict[str, str]], ...] = (
        ("memory", {"peak_mib": "peak, MiB", "fit_mib": "of it the fit", "table_mib": "the table"}),
        ("import", {"median_s": "time"}),
        ("first_use", first_use),
        ("default_use", {**first_use, "peak_mib": "peak, MiB"}),
    )
    for kind, columns in sections:
        for result in results.values():
            if result["kind"] == kind:
                title = title_of(result, newest)
                parts += [f"### {title[0].upper()}{title[1:]}", plain_table(result, columns)]
    if "ablation" in results:
        title = title_of(results["ablation"] | {"title": "One switch at a time"}, newest)
        parts += [f"### {title}", _ABLATION, ablation_table(results["ablation"])]
    return parts


def ablation_table(result: Result) -> str:
    rows = [
        [
            row["what"],
            row["side"],
            duration(row["seconds"]),
            f"{row['auc']:.4f}",
            f"{row['mib']:.0f} MiB" if "mib" in row else "",
        ]
        for part in result["parts"].values()
        for row in part
    ]
    return markdown(["", "", "fit", "test AUC", "sorted columns or bins"], rows)


def new_readme(text: str, block: str) -> str:
    pattern = re.compile(f"{re.escape(START)}.*{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"README.md must hold one block {START} ... {END}")
    return pattern.sub(lambda _: f"{START}\n{block}\n{END}", text)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if outdated")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    machines = load()
    readme, page = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
    wanted = {
        readme: new_readme(readme.read_text(encoding="utf-8"), readme_block(machines[0])),
        page: docs_page(machines),
    }
    stale = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if options.check:
        share = engine.changed(newest_engine(machines[0]))
        if share > engine.LIMIT:
            sys.exit(
                f"modules with {share:.0%} of the engine's lines have changed since the newest "
                f"figures (at most {engine.LIMIT:.0%} may): on an idle machine, run "
                "python benchmarks/run.py 1m_31 10k predict && python benchmarks/table.py"
            )
        sys.exit(f"outdated: {', '.join(path.name for path in stale)}" if stale else 0)
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    print(f"written: {', '.join(path.name for path in stale) or 'nothing new'}")


if __name__ == "__main__":
    main()
