"""
A report page
=============

``hedgerow report`` writes one self-contained page: scores with intervals, learning curve,
calibration, importances, the rows with the largest loss, and warnings.
"""

# %%
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from hedgerow import HedgerowClassifier
from hedgerow.datasets import load_pima

pima = load_pima()
folder = Path(tempfile.mkdtemp())
with open(folder / "pima.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow([*pima.feature_names, pima.target_name])
    writer.writerows([*row, label] for row, label in zip(pima.X, pima.y, strict=True))

# %%
# In a shell this is ``hedgerow train pima.csv --target Outcome --model pima.hedgerow``, then
# ``hedgerow report pima.hedgerow pima.csv --target Outcome -o report.html``.
command = [sys.executable, "-m", "hedgerow"]
target = ["--target", pima.target_name]
subprocess.run(
    [*command, "train", "pima.csv", *target, "--model", "pima.hedgerow"],
    check=True,
    capture_output=True,
    cwd=folder,
)
subprocess.run(
    [*command, "report", "pima.hedgerow", "pima.csv", *target, "-o", "report.html"],
    check=True,
    capture_output=True,
    cwd=folder,
)
page = (folder / "report.html").read_text("utf-8")
print(f"{len(page) / 1e6:.1f} MB, nothing loaded from elsewhere:", 'src="http' not in page)

# %%
# Such a page begins like this (here of rows that the model was not trained on):
#
# .. image:: /report.png
#    :alt: Warnings, scores with intervals, calibration and confusion, learning curve
#
# The plots of the report are methods of a model, and functions of ``hedgerow.plot``.
model = HedgerowClassifier(random_state=0).fit(pima.X, pima.y)
model.plot_importance("gain")
