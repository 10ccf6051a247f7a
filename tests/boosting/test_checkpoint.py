"""Laws of checkpoints.

* After a fit is stopped at any point, the same call gives the model of an uninterrupted fit.
* Damage to the folder never changes the model: the fit warns, or raises an error.
* A checkpoint of another fit is refused, and the message says what differs.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.boosting.loop import driver as driver_module
from hedgerow.boosting.loop import fit as fit_module
from hedgerow.boosting.loop.driver import INTERRUPTS
from hedgerow.boosting.loop.setup import resolved as resolved_module
from hedgerow.cli.main import main
from hedgerow.errors import InterruptedFitWarning, ParameterError, StorageError
from hedgerow.io import checkpoint_folder, checkpoint_parts, model_to_bytes

N_ROWS = 400
SMALL = {"n_estimators": 9, "max_leaves": 6, "min_samples_leaf": 5, "n_jobs": 1}
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Stopped(Exception):
    pass


def stop_at(number):
    def callback(state):
        if state.round == number:
            raise Stopped

    return callback


def table(n_classes=2, n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, 5)), 1)
    X[rng.uniform(size=X.shape) < 0.05] = np.nan
    score = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]) + 0.3 * rng.normal(size=n_rows)
    if n_classes == 0:
        return X, score
    edges = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return X, np.digitize(score, edges).astype(float)


def weights(n_rows=N_ROWS):
    weight = np.random.default_rng(5).uniform(0.2, 3.0, n_rows)
    weight[::17] = 0.0
    return weight


def binary(**params):
    X, y = table()
    return {"objective": "logistic", **SMALL, **params}, Dataset(X, y), None


def softmax(**params):
    X, y = table(n_classes=3)
    return {"objective": "softmax", **SMALL, **params}, Dataset(X, y), None


def weighted(**params):
    X, y = table()
    return {"objective": "logistic", **SMALL, **params}, Dataset(X, y, weights()), None


def watched(**params):
    params, data, _ = binary(**params)
    return params, data, Dataset(*table(seed=1))


OOB = {"subsample": 0.6, "oob_score": True}
DART = {"boosting": "dart", "drop_rate": 0.4, "skip_drop": 0.2, "learning_rate": 0.3}
FITS = {
    "gbdt": lambda: binary(),
    "goss": lambda: binary(sampling="goss"),
    "early stopping": lambda: watched(patience=5, learning_rate=1.0, n_estimators=40),
    "dart": lambda: watched(**DART, n_estimators=16, early_stopping=False),
    "dart, softmax, subsample": lambda: softmax(**DART, subsample=0.7),
    "forest": lambda: binary(boosting="rf", **OOB, max_leaves=20),
    "exact": lambda: watched(tree_method="exact", subsample=0.8),
}
"""Kinds of state that a checkpoint keeps; ``test_paths.py`` stops a fit of each feature."""


@pytest.fixture(autouse=True)
def _no_warning_and_no_flush(monkeypatch):
    """Skip flushes of the disk: they matter for power cuts only, and wait for other processes."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def content(booster):
    return model_to_bytes(booster.model)


def run(fit, folder=None, **more):
    params, data, valid = fit
    more = {"checkpoint": folder, **more} if folder is not None else more
    return content(train(params, data, valid, **more))


def parts_of(folder):
    return sorted(path.name for path in Path(folder).glob("hedgerow-rounds-*"))


# -- stopped in process -------------------------------------------------------------


@pytest.mark.parametrize("name", FITS)
def test_a_stopped_fit_goes_on_to_the_same_bytes(name, tmp_path) -> None:
    fit = FITS[name]()
    whole = run(fit)
    for number in (1, 4, 5):  # the callback of round 1 runs before round 1 is stored
        with pytest.raises(Stopped):
            run(fit, tmp_path, callbacks=stop_at(number))
    kept = parts_of(tmp_path)
    assert [part[16:33] for part in kept] == ["00000001-00000003", "00000004-00000004"]
    assert run(fit, tmp_path) == whole
    names = parts_of(tmp_path)
    assert names[:2] == kept
    assert run(fit, tmp_path) == whole  # all of it from the checkpoint
    assert parts_of(tmp_path) == names


def test_number_of_threads_may_change(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(resolved_module, "_CELLS_PER_THREAD", 1)
    params, data, valid = weighted(subsample=0.5)
    whole = run((params | {"n_jobs": 1}, data, valid))
    for n_jobs, number in ((2, 4), (3, 7)):
        with pytest.raises(Stopped):
            run((params | {"n_jobs": n_jobs}, data, valid), tmp_path, callbacks=stop_at(number))
    assert run((params | {"n_jobs": 1}, data, valid), tmp_path) == whole


@pytest.mark.parametrize("name", ["gbdt", "dart", "forest", "early stopping"])
def test_n_estimators_may_change(name, tmp_path) -> None:
    params, data, valid = FITS[name]()
    for n_estimators in (5, 12, 12, 3):  # more, the same again, and fewer than are there
        fit = (params | {"n_estimators": n_estimators}, data, valid)
        assert run(fit, tmp_path) == run(fit)


def test_a_finished_fit_returns_without_training(tmp_path) -> None:
    reported = []
    fit = binary()
    whole = run(fit, tmp_path, callbacks=reported.append)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(reported) == SMALL["n_estimators"]
    assert run(fit, tmp_path, callbacks=reported.append) == whole
    assert len(reported) == SMALL["n_estimators"]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_fit_that_stopped_early_is_finished_whatever_n_estimators(tmp_path) -> None:
    params, data, valid = FITS["early stopping"]()
    whole = train(params, data, valid, checkpoint=tmp_path)
    assert whole.num_rounds < len(whole.evals_result["validation"]["loss"]) < 40
    names = parts_of(tmp_path)
    run((params | {"n_estimators": 60}, data, valid), tmp_path)
    assert parts_of(tmp_path) == names


def test_a_fit_that_a_callback_ended_is_finished(tmp_path) -> None:
    fit = binary()
    ended = run(fit, tmp_path, callbacks=lambda state: state.round == 4)
    assert run(fit, tmp_path) == ended
    assert parts_of(tmp_path)[-1].endswith("00000004.safetensors")


def test_callbacks_see_the_rounds_that_are_left_with_the_whole_history(tmp_path) -> None:
    params, data, valid = watched()
    whole, reported = [], []
    train(params, data, valid, callbacks=lambda s: whole.append((s.round, _plain(s.history))))
    with pytest.raises(Stopped):
        train(params, data, valid, callbacks=stop_at(4), checkpoint=tmp_path)
    train(
        params, data, valid, checkpoint=tmp_path,
        callbacks=lambda s: reported.append((s.round, _plain(s.history))),
    )  # fmt: skip
    assert reported == whole[3:]


def _plain(history):
    return {rows: {name: list(curve) for name, curve in c.items()} for rows, c in history.items()}


def test_an_interrupt_writes_a_last_part_and_a_second_leaves_the_estimator(
    tmp_path, monkeypatch
) -> None:
    X, y = table()

    def interrupt(state):
        if state.round == 6:
            raise KeyboardInterrupt

    model = HedgerowClassifier(**SMALL).fit(X[:200], y[:200])
    before = content(model.booster_)
    model.set_params(callbacks=interrupt)
    monkeypatch.setattr(INTERRUPTS, "last", -math.inf)
    with pytest.warns(InterruptedFitWarning, match="6 of"):
        model.fit(X, y, checkpoint=tmp_path)
    assert len(model.evals_result_.get("validation", {"": [0] * 6}).popitem()[1]) == 6
    assert model.stopped_by_ == "interrupt"
    interrupted = content(model.booster_)
    with pytest.raises(KeyboardInterrupt):  # the second one
        model.set_params(random_state=1).fit(X, y)
    assert content(model.booster_) == interrupted != before
    model.set_params(random_state=None)
    assert parts_of(tmp_path) == ["hedgerow-rounds-00000001-00000005.safetensors"]
    model.set_params(callbacks=None).fit(X, y, checkpoint=str(tmp_path))
    assert content(model.booster_) == content(HedgerowClassifier(**SMALL).fit(X, y).booster_)


# -- killed -------------------------------------------------------------------------


def fork_child(work):
    """Fork a child that calls ``work`` and exits with status 0; return its process number."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


# -- faults of the disk ---------------------------------------------------------------

CALLS = ("open", "write", "fsync", "replace", "unlink", "listdir", "makedirs", "ftruncate")


class Faults:
    """Call ``harm`` at system call number ``at``, or at all calls from this one on."""

    def __init__(self, monkeypatch, harm, at=0, lasting=False):
        self.calls, self._harm, self._at, self._lasting = 0, harm, at, lasting
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, real):
        def call(*arguments, **options):
            self.calls += 1
            if self.calls == self._at or (self._lasting and self.calls > self._at > 0):
                self._harm(name, real, arguments)
            return real(*arguments, **options)

        return call


def disk_full(name, real, arguments):
    if name == "write":
        real(arguments[0], arguments[1][: len(arguments[1]) // 2])  # a part of it gets there
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def killed(name, real, arguments):
    if name == "write":
        real(arguments[0], arguments[1][: len(arguments[1]) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def error_message(work):
    """Return the message of the error that ``work`` raises, or None if its result is right."""
    try:
        assert work()
    except StorageError as error:
        return str(error)


def begun(fit, folder, number=4):
    """Return a folder with three rounds, and its contents."""
    with pytest.raises(Stopped):
        run(fit, folder, callbacks=stop_at(number))
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.safetensors")}


@pytest.mark.parametrize("lasting", [False, True])
def test_faults_at_any_call_never_give_another_model(lasting, tmp_path, monkeypatch) -> None:
    fit = binary(n_estimators=4)
    whole, failed, warned = run(fit), 0, 0
    for at in range(1, 1000):
        folder = tmp_path / str(at)
        kept = begun(fit, folder) if at % 2 else {}
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            faults = Faults(patch, disk_full, at, lasting)
            message = error_message(lambda to=folder: run(fit, to, checkpoint_every=0) == whole)
        assert str(folder) in (message or str(folder))
        failed += message is not None
        warned += bool(found)
        assert all("could not be added" in str(warning.message) for warning in found)
        for name, data in kept.items():
            assert (folder / name).read_bytes() == data
        assert run(fit, folder) == whole
        assert not list(folder.glob(".*"))
        if faults.calls < at:
            break
    assert failed >= 3
    assert warned > 5


@pytest.mark.slow
@forks
def test_kills_at_any_call(tmp_path, monkeypatch) -> None:
    fit = binary(n_estimators=3)
    whole = run(fit)

    def work(folder, at):
        Faults(pytest.MonkeyPatch(), killed, at)
        run(fit, folder, checkpoint_every=0)

    for at in range(1, 1000):
        folder = tmp_path / str(at)
        if at % 2:
            begun(fit, folder, 2)
        _, status = os.waitpid(fork_child(lambda f=folder, n=at: work(f, n)), 0)
        assert run(fit, folder) == whole
        assert not list(folder.glob(".*"))
        if not os.WIFSIGNALED(status):
            break
    assert at > 20


def test_interrupts_at_any_call(tmp_path, monkeypatch) -> None:
    fit = binary(n_estimators=2)
    whole = run(fit)

    def interrupt(*_):
        raise KeyboardInterrupt

    for at in range(1, 1000):
        folder, stopped = tmp_path / str(at), False
        with monkeypatch.context() as patch:
            patch.setattr(INTERRUPTS, "last", -math.inf if at % 2 else math.inf)
            Faults(patch, interrupt, at)
            try:
                run(fit, folder, checkpoint_every=0)
            except (KeyboardInterrupt, InterruptedFitWarning):  # warnings are errors here
                stopped = True
        assert run(fit, folder) == whole
        if not stopped:
            break
    assert at > 20


def test_a_part_that_cannot_be_read_is_an_error_and_stays(tmp_path, monkeypatch) -> None:
    fit = binary()
    kept = begun(fit, tmp_path)

    def broken(path, mode):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_folder, "open", broken, raising=False)
        with pytest.raises(StorageError, match=r"cannot be read: .*\.safetensors: Input/output"):
            run(fit, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.safetensors")} == kept
    assert run(fit, tmp_path) == run(fit)


def test_a_folder_that_cannot_be_written_fails_before_training(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(fit_module, "with_rows_aside", lambda *_: pytest.fail("trained"))
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(StorageError, match=f"checkpoint folder '{path}' cannot be used"):
            run(binary(), path)
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        with pytest.raises(StorageError, match="Permission denied"):
            run(binary(), closed)


def test_two_fits_in_one_folder(tmp_path) -> None:
    fit = binary()

    def second(state):
        with pytest.raises(StorageError, match=f"using the checkpoint.*process {os.getpid()}"):
            run(fit, tmp_path)
        raise Stopped

    with pytest.raises(Stopped):
        run(fit, tmp_path, callbacks=second)
    assert run(fit, tmp_path) == run(fit)


def test_other_files_stay(tmp_path) -> None:
    others = ["notes.txt", "hedgerow-rounds-1-2.safetensors", ".x.tmp", "fit.safetensors"]
    for name in others:
        (tmp_path / name).write_text("mine")
    dead = tmp_path / ".hedgerow-rounds-00000001-00000002.safetensors.0123abcd.tmp"
    dead.write_text("half")
    run(binary(), tmp_path)
    assert all((tmp_path / name).read_text() == "mine" for name in others)
    assert not dead.exists()


def test_a_relative_folder_stays_the_same_place(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    run(binary(), "kept", callbacks=lambda _: os.chdir(tmp_path / "elsewhere"))
    assert len(parts_of(tmp_path / "kept")) == 1


# -- damage ---------------------------------------------------------------------------


def damages():
    yield "gone", lambda path: path.unlink()
    yield "a folder", lambda path: (path.unlink(), path.mkdir())

    def flip(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)

    yield "a bit", flip


@pytest.mark.parametrize("damage", [d for _, d in damages()], ids=[name for name, _ in damages()])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_damage_costs_time_alone(damage, which, tmp_path) -> None:
    fit = weighted(subsample=0.5, n_estimators=6)
    whole = run(fit)
    for number in (3, 5):
        with pytest.raises(Stopped):
            run(fit, tmp_path, callbacks=stop_at(number))
    run(fit, tmp_path)
    names = parts_of(tmp_path)
    assert len(names) == 3
    path = tmp_path / names[which]
    damage(path)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        message = error_message(lambda: run(fit, tmp_path) == whole)
    if message is not None:  # a folder in the place of a file is no damage
        assert path.is_dir()
        assert str(path) in message
        return
    vanished_last = which == 2 and not found
    if not vanished_last:
        done = (0, 2, 4)[which]
        assert f"Training goes on from round {done}." in str(found[0].message)
    if not path.is_dir():
        ends = [0] + [int(name[25:33]) for name in parts_of(tmp_path)]
        assert [int(name[16:24]) for name in parts_of(tmp_path)] == [end + 1 for end in ends[:-1]]
        assert run(fit, tmp_path) == whole


def test_parts_of_another_fit_are_not_taken(tmp_path) -> None:
    one, other = binary(), binary(learning_rate=0.2)
    run(one, tmp_path / "one")
    run(other, tmp_path / "other")
    name = parts_of(tmp_path / "one")[0]
    (tmp_path / "one" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    for _ in range(2):  # also after a part that cannot be read
        with pytest.raises(ParameterError, match=r"another fit: learning_rate was 0\.2 and is"):
            run(one, tmp_path / "one")
        (tmp_path / "one" / "hedgerow-rounds-00000001-00000002.safetensors").write_text("none")
    assert name in parts_of(tmp_path / "one")


# -- other fits -----------------------------------------------------------------------


def changed(fit, **changes):
    params, data, valid = fit
    new = {name: changes.get(name, getattr(data, name)) for name in ("X", "y", "weight", "offset")}
    return {**params, **changes.get("params", {})}, Dataset(**new), changes.get("valid", valid)


def other_fits():
    X, y = table()
    moved = X.copy()
    moved[7, 3] = 5.0
    flipped = y.copy()
    flipped[3] = 1.0 - y[3]
    base = weighted()
    pandas = pytest.importorskip("pandas")
    yield "max_leaves was 6 and is 7", changed(base, params={"max_leaves": 7})
    yield "random_state was 0 and is 3", changed(base, params={"seed": 3})
    yield "early_stopping was 'auto' and is True", changed(base, params={"early_stopping": True})
    yield (
        "objective was logistic and is exponential",
        changed(base, params={"objective": "exponential"}),
    )
    yield (
        r"eval_metric was  and is auc \(higher is better\)",
        changed(base, params={"eval_metric": "auc"}),
    )
    yield (
        r"monotone_constraints was None and is \(1, 0, 0, 0, 0\)",
        changed(base, params={"monotone_constraints": {"x0": 1}}),
    )
    yield "X has changed", changed(base, X=moved)
    yield "X has changed", changed(base, X=X.astype(np.float32))
    yield "y has changed", changed(base, y=flipped)
    yield "columns have changed", changed(base, X=pandas.DataFrame(X, columns=list("abcde")))
    yield "sample_weight has changed", changed(base, weight=weights()[::-1])
    yield "sample_weight is gone", changed(base, weight=None)
    yield "offset is new", changed(base, offset=np.ones(N_ROWS))
    yield "X_val is new; y_val is new", changed(base, valid=Dataset(X, y))
    yield "rows was 376 and is 375", changed(base, X=X[:-1], y=y[:-1], weight=weights()[:-1])


@pytest.mark.parametrize("number", range(15))
def test_another_fit_is_refused_by_name(number, tmp_path) -> None:
    message, other = list(other_fits())[number]
    fit = weighted()
    begun(fit, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ParameterError, match=f"holds another fit: .*{message}.*start anew"):
        run(other, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert run(fit, tmp_path) == run(fit)


def test_a_folder_without_rounds_may_be_taken(tmp_path) -> None:
    with pytest.raises(Stopped):
        run(binary(), tmp_path, callbacks=stop_at(1))
    assert parts_of(tmp_path) == []
    other = binary(learning_rate=0.2)
    assert run(other, tmp_path) == run(other)


def test_another_version_is_refused(tmp_path, monkeypatch) -> None:
    fit = binary()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_parts, "VERSION", "9")
        begun(fit, tmp_path)
    names = parts_of(tmp_path)
    with pytest.raises(ParameterError, match="written by another version"):
        run(fit, tmp_path)
    assert parts_of(tmp_path) == names


@pytest.mark.parametrize("path", [3, b"x", "", "a\0b", 1.5, True])
def test_what_is_no_path_is_refused(path) -> None:
    with pytest.raises(ParameterError, match="checkpoint must be the path of a folder"):
        train({}, Dataset(*table()), checkpoint=path)


@pytest.mark.parametrize("every", [-1, np.inf, np.nan, "10", None, True])
def test_what_is_no_time_is_refused(every, tmp_path) -> None:
    with pytest.raises(ParameterError, match="checkpoint_every must be a number of seconds"):
        train({}, Dataset(*table()), checkpoint=tmp_path, checkpoint_every=every)


def test_time_without_folder_is_refused() -> None:
    X, y = table()
    with pytest.raises(ParameterError, match="has no effect without checkpoint"):
        HedgerowClassifier().fit(X, y, checkpoint_every=3)


# -- the command line, other stores ------------------------------------------------------


def test_the_command_line_goes_on(tmp_path, capsys, monkeypatch) -> None:
    X, y = table(n_classes=0)
    file = tmp_path / "t.csv"
    np.savetxt(file, np.column_stack([np.nan_to_num(X), y]), delimiter=",",
               header="a,b,c,d,e,y", comments="")  # fmt: skip
    command = ["train", str(file), "--target", "y", "--set", "n_estimators=8", "--model"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    more = [str(tmp_path / "again"), "--checkpoint", str(tmp_path / "kept")]
    with monkeypatch.context() as patch:
        patch.setattr(driver_module.Watch, "after_round", _interrupted_at(5))
        assert main([*command, *more]) == 130
    assert parts_of(tmp_path / "kept") == ["hedgerow-rounds-00000001-00000004.safetensors"]
    assert main([*command, *more]) == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()
    assert main([*command, *more, "--set", "max_leaves=4"]) == 2
    assert "max_leaves was 31 and is 4" in capsys.readouterr().err


def _interrupted_at(number):
    real = driver_module.Watch.after_round

    def after_round(self, state):
        if state.n_rounds == number:
            raise KeyboardInterrupt
        return real(self, state)

    return after_round


def test_folders_are_opened_before_data_are_read(tmp_path) -> None:
    """A wrong folder is an error at once, not after hours of binning."""
    taken = tmp_path / "taken"
    taken.write_text("no folder")
    calls: list[int] = []

    def batches():
        calls.append(1)
        yield np.zeros((40, 2)), np.arange(40.0)

    data = Dataset.from_batches(batches, memory_limit="40 MB")
    with pytest.raises(StorageError, match="taken"):
        train({"n_estimators": 2}, data, checkpoint=taken)
    assert not calls
    train({"n_estimators": 2}, data, checkpoint=tmp_path / "free")
    train({"n_estimators": 3}, data, checkpoint=tmp_path / "free")


def test_runs_with_little_time_have_trees_of_one_kind(tmp_path) -> None:
    """The clock decides only the number of rounds; the next run continues with them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400)
    whole = HedgerowRegressor(random_state=0, time_budget=1e6).fit(X, y, checkpoint=tmp_path / "a")
    runs = [
        HedgerowRegressor(random_state=0, time_budget=seconds).fit(X, y, checkpoint=tmp_path / "b")
        for seconds in (1e-6, 0.05, 1e6)
    ]
    for model in (whole, *runs):
        assert len(model.chosen_params_["tried"]) == 1
        assert model.chosen_params_["learning_rate"] == whole.chosen_params_["learning_rate"]
    assert runs[0].n_iter_ == 1
    assert model_to_bytes(runs[2].booster_.model) == model_to_bytes(whole.booster_.model)
