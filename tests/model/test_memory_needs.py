"""A budget of memory is kept to, changes no result, and is refused where it cannot be kept to.

What a process takes is measured in a process of its own (see `main`): the most resident memory, pages of mapped
files included, above what it had before all the calls.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ascribo as asc
from ascribo.model.fitting_together import why_not_together

linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process has in memory is known on Linux")
SPACES = {"x": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
SMALL = dict(steps=60, penalty=0.01, batch_size=128, encoder=asc.MLP((32, 32)), random_state=0, progress=False)


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(0, observed=1, hidden=1, channels=(6, 6), steps=4000)


def test_results_do_not_depend_on_the_budget(data, tmp_path):
    found = []
    for memory in (None, "1GB"):
        model = asc.ContrastiveEmbedding(SPACES, seeds=2, memory=memory, **SMALL).fit(data)
        maps = model.attribute(data)
        page = model.report(data, tmp_path / "report.html", maps=maps)
        found.append([model.transform(data), maps.by_space.values, maps.calls()["p"].to_numpy(), model.score(data)])
        assert page.stat().st_size > 100_000
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    with_budget = asc.screen(data, {"x": SPACES["x"]}, memory="1GB").calls
    assert with_budget.equals(asc.screen(data, {"x": SPACES["x"]}).calls)


def test_what_does_not_fit_is_refused_with_what_would_do(data, tmp_path):
    model = asc.ContrastiveEmbedding(SPACES, seeds=1, memory="20MB", **SMALL)
    with pytest.raises(
        ValueError, match=r"memory='20MB' is too little: fitting 4,000 .* at least memory='(\d+)MB'"
    ) as said:
        model.fit(data)
    enough = str(said.value).split("at least memory='")[1].split("'")[0]
    model.set_params(memory=enough).fit(data)
    model.set_params(memory="20MB")
    for call, what in (
        (model.transform, "the embedding of"),
        (model.embed_seeds, "the embedding of"),
        (model.score, "scoring"),
        (model.attribute, "unique_variance of"),
        (lambda d: model.attribute(d, method="neuron_gradient"), "neuron_gradient of"),
        (lambda d: model.report(d, tmp_path / "report.html"), "the report on"),
    ):
        with pytest.raises(
            ValueError, match=f"memory='20MB' is too little: {what} 4,000 time steps of 12 channels"
        ):
            call(data)
    with pytest.raises(ValueError, match="screening 4,000 time steps of 12 channels"):
        asc.screen(data, {"x": SPACES["x"]}, memory="20MB")
    assert not (tmp_path / "report.html").exists()


def halves(data):
    return {"rat1": data[:2000], "rat2": data[2000:].take_channels(data.channel_names[:9])}


def test_sessions_do_not_depend_on_the_budget_and_are_refused_with_what_would_do(data):
    sessions, found = halves(data), []
    for memory in (None, "1GB"):
        shared = asc.SharedEmbedding(SPACES, seeds=2, memory=memory, **SMALL).fit(sessions)
        shared.add_session("rat3", data[1000:3000])
        maps = shared.attribute(sessions)
        found.append([*shared.transform(sessions).values(), *(m.by_space.values for m in maps.values())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    small = asc.SharedEmbedding(SPACES, seeds=2, memory="20MB", **SMALL)
    with pytest.raises(
        ValueError, match=r"memory='20MB' is too little: fitting 2 sessions of 4,000 time steps in all .* at least"
    ) as said:
        small.fit(sessions)
    enough = str(said.value).split("at least memory='")[1].split("'")[0]
    small.set_params(memory=enough).fit(sessions)
    small.set_params(memory="20MB")
    for call, what in (
        (lambda: small.add_session("rat3", data[1000:3000]), "fitting 1 session of 2,000 time steps"),
        (lambda: small.transform(sessions), "the embedding of 4,000 time steps in all"),
        (lambda: small.transform(sessions["rat1"], "rat1"), "the embedding of 2,000 time steps"),
        (lambda: small.attribute(sessions["rat1"], "rat1"), "unique_variance of 2,000 time steps of 12 channels"),
        (lambda: small.consistency(sessions), "the embedding of 2,000 time steps"),
    ):
        with pytest.raises(ValueError, match=f"memory='20MB' is too little: {what}"):
            call()


def test_a_saved_shared_model_keeps_its_budget(data, tmp_path):
    shared = asc.SharedEmbedding(SPACES, seeds=1, memory="1GB", **SMALL).fit(halves(data))
    again = asc.load(shared.save(tmp_path / "run"))
    assert again.memory == "1GB" and all(part.memory is None for part in again.sessions_.values())


def test_explanations_keep_to_the_budget_of_the_model(data):
    model = asc.ContrastiveEmbedding(SPACES, seeds=1, **SMALL).fit(data)
    blocks = np.arange(len(data)) // 1000
    calls = {
        "explaining 4,000 time steps": lambda: asc.explain.features(model, data, method="saliency"),
        "examples for 500 time steps from 4,000": lambda: asc.explain.examples(model, data, data[:500]),
        "examples from 4,000 time steps": lambda: asc.explain.contrastive_examples(
            model, data, blocks=blocks, references=80, negatives=40, iterations=2
        ),
    }
    for what, call in calls.items():
        plain = call()
        model.set_params(memory="20MB")
        with pytest.raises(ValueError, match=f"memory='20MB' is too little: {what} .* at least") as said:
            call()
        model.set_params(memory=str(said.value).split("at least memory='")[1].split("'")[0])
        np.testing.assert_array_equal(call(), plain)
        model.set_params(memory=None)


@pytest.mark.parametrize(
    ("given", "said"), [("2 cats", "expected a size"), (0, "expected a size"), (-1, "expected a size")]
)
def test_what_is_no_size_is_refused(data, given, said):
    with pytest.raises(ValueError, match=said):
        asc.ContrastiveEmbedding(SPACES, memory=given, **SMALL).fit(data)


def test_processes_have_memory_of_their_own(data):
    with pytest.raises(ValueError, match="n_jobs=2: every process takes memory of its own"):
        asc.ContrastiveEmbedding(SPACES, memory="1GB", n_jobs=2, **SMALL).fit(data)


def test_what_does_not_keep_to_a_budget_says_so(data):
    model = asc.ContrastiveEmbedding(SPACES, memory="1GB", **{**SMALL, "steps": 20})
    for call in (lambda: asc.shift_test(model, data), lambda: asc.evidence.split_half(model, data)):
        with pytest.raises(ValueError, match="does not keep to a budget of memory; use model"):
            call()
    with pytest.raises(ValueError, match="select_dimension does not keep to a budget"):
        asc.select_dimension(data, spaces=SPACES, space="x", memory="1GB")
    assert "one fit at a time" in why_not_together(model)


def test_leaving_out_constant_channels_takes_a_copy(data):
    X = np.c_[np.tile(data.X, 5), np.ones(len(data), np.float32)]
    model = asc.ContrastiveEmbedding(SPACES, seeds=1, memory=900_000, drop_constant=True, **SMALL)
    with pytest.raises(ValueError, match="a copy of 60 of the channels takes about 1MB"):
        model.fit(asc.Recording(X, data.variables))


@linux
def test_a_recording_larger_than_the_budget(tmp_path):
    """Recorded, fitted, embedded, scored, attributed, screened and reported within 600 MB,
    from a file of 1 GB."""
    steps, channels = 1_020_000, 250
    rng = np.random.default_rng(0)
    x = np.abs(np.cumsum(0.2 * rng.standard_normal(steps)) % 4 - 2) - 1
    np.save(tmp_path / "variable.npy", x)
    noise = rng.standard_normal((30_000, channels)).astype(np.float32)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (steps, channels))
    for start in range(0, steps, len(noise)):
        X[start : start + len(noise)] = noise
        X[start : start + len(noise), :125] += x[start : start + len(noise), None]
    X.flush()
    del X
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    taken = json.loads(done.stdout.splitlines()[-1])
    called = {"recording", "fit", "transform", "score", "attribute", "gradient", "screen", "report"}
    called |= {"features", "examples", "sessions", "sessions transform", "sessions attribute"}
    assert set(taken) == called
    assert max(taken.values()) < 600, taken


def main(folder: str) -> None:
    """Prints the megabytes that each call took at most."""
    import torch

    from ascribo.attribution.unique_variance import design, score
    from ascribo.model import fitting
    from ascribo.screening import space_tests

    torch.set_num_threads(1)
    fitting.DECODED = design.MOST_TIME_STEPS = space_tests.MOST_TIME_STEPS = 5_000  # as few of 1 GB as of 20 GB
    score.MOST_TRAINING_STEPS = 30
    model = asc.ContrastiveEmbedding(SPACES, seeds=1, memory="600MB", **{**SMALL, "batch_size": 512})
    small = asc.simulate.box(0, observed=1, hidden=1, channels=(10, 10), steps=2000)
    model.fit(small).report(small, Path(folder, "small.html"))  # all is imported before memory is counted
    taken: dict[str, float] = {}
    before = resident()

    def measured(name, work):
        over, most = threading.Event(), [0]

        def look() -> None:
            while not over.wait(0.002):
                most.append(resident())

        watch = threading.Thread(target=look, daemon=True)
        watch.start()
        found = work()
        over.set()
        watch.join()
        taken[name] = round((max(most) - before) / 1e6, 1)  # with what earlier calls left
        return found

    X, x = np.load(Path(folder, "x.npy"), mmap_mode="r"), np.load(Path(folder, "variable.npy"))
    recording = measured("recording", lambda: asc.Recording(X, {"x": x}))
    measured("fit", lambda: model.fit(recording))
    assert np.isfinite(measured("transform", lambda: model.transform(recording))).all()
    measured("score", lambda: model.score(recording))
    maps = measured("attribute", lambda: model.attribute(recording))
    measured("gradient", lambda: model.attribute(recording, method="neuron_gradient", samples=500))
    measured("screen", lambda: asc.screen(recording, {"x": SPACES["x"]}, memory="600MB"))
    measured("report", lambda: model.report(recording, Path(folder, "report.html"), maps=maps))
    measured("features", lambda: asc.explain.features(model, recording, index=np.arange(0, 40_000, 4)))
    measured("examples", lambda: asc.explain.examples(model, recording[:8000], recording[:4000]))
    half = len(recording) // 2
    sessions = {"first": recording[:half], "second": recording[half:]}
    shared = asc.SharedEmbedding(SPACES, seeds=2, memory="600MB", **{**SMALL, "batch_size": 256})
    measured("sessions", lambda: shared.fit(sessions))
    measured("sessions transform", lambda: shared.transform(sessions))
    measured("sessions attribute", lambda: shared.attribute(sessions))
    print(json.dumps(taken))


def resident() -> int:
    """Bytes of this process in memory, mapped files included."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


if __name__ == "__main__":
    main(sys.argv[1])
