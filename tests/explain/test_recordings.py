"""On recordings: explanations of time steps find the channels that carry a space, as the attribution map does."""

import warnings

import numpy as np
import pytest

import ascribo as asc
from ascribo.metrics import auroc


@pytest.fixture(scope="module")
def fitted():
    data = asc.simulate.box(observed=2, hidden=2, channels=(10, 10), steps=3000, seed=1)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    options = {"encoder": asc.MLP((32, 32)), "seeds": 1, "steps": 400, "batch_size": 256, "random_state": 0}
    model = asc.ContrastiveEmbedding(spaces, **options, progress=False, device="cpu")
    return model.fit(data), data


@pytest.mark.parametrize("method", ["integrated_gradients", "saliency", "feature_ablation"])
def test_explained_time_steps_find_the_channels_that_the_map_finds(fitted, method):
    model, data = fitted
    truth = data.truth.sel(space="position").values
    scores = asc.explain.features(model, data, index=np.arange(0, 3000, 15), method=method, space="position")
    explained = auroc(np.abs(scores).mean("time").values, truth)
    mapped = model.attribute(data, method="neuron_gradient").auroc(data.truth, "position")
    assert mapped > 0.9 and explained > 0.9, f"auROC {explained:.2f}, of the map {mapped:.2f}"
    # the other space is carried by all channels: its explanation must not look like that of position
    rest = asc.explain.features(model, data, index=np.arange(0, 3000, 15), method=method, space="rest")
    assert auroc(np.abs(rest).mean("time").values, truth) < explained


@pytest.mark.parametrize("named", [True, False])
def test_explaining_a_recording_says_nothing_about_feature_names(named):
    """scikit-learn's warning is for arrays without names; a recording knows its channels."""
    data = asc.simulate.box(observed=2, hidden=2, steps=600)
    data = data if named else asc.Recording(np.asarray(data.X), data.variables)
    small = {"encoder": asc.MLP((4,)), "seeds": 1, "steps": 5, "random_state": 0, "progress": False}
    model = asc.ContrastiveEmbedding({"position": asc.Follow(["x", "y"], dim=2)}, **small, penalty=0.0).fit(data)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*feature names")
        asc.explain.features(model, data, index=[3])
        asc.explain.examples(model, data[:500], data[500:])
        asc.explain.contrastive_examples(model, data, blocks=np.arange(600) // 300, references=20)
