"""From recordings to fitted models: many at once are what each is alone."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.utils import check_random_state

import ascribo as asc
from ascribo.data.segments import hold_out
from ascribo.model.fitting import finish, fit_many, make_targets, prepare
from ascribo.networks.model_stack import Embedder
from ascribo.training.decoders import decode
from ascribo.training.dispatch import train
from ascribo.training.penalty_weight import Constant, as_schedule
from ascribo.training.settings import Settings

ENCODER = asc.MLP((16,))
SPACES = {"position": asc.Follow(["x", "y"], dim=2), "speed": asc.Regress("x"), "rest": asc.Time(dim=1)}
SETTINGS = Settings(steps=60, batch_size=64, learning_rate=1e-3, schedule=Constant(0.0))


def data(seed=0, channels=(4, 4), steps=800):
    return asc.simulate.box(seed, observed=2, hidden=1, channels=channels, steps=steps)


def prepared(recording, **options):
    return prepare(recording, SPACES, encoder=ENCODER, **options)


@pytest.fixture(scope="module")
def many():
    """Two recordings of one shape and one of another, with penalties of their own."""
    recordings = [data(0), data(1), data(2, channels=(4, 6), steps=900)]
    seeds = [[3, 4], [5], [6, 7]]
    schedules = [as_schedule(weight) for weight in (0.0, 0.3, 0.1)]
    return recordings, seeds, schedules, fit_many(
        [prepared(r) for r in recordings], seeds, schedules, SETTINGS, progress=False
    )  # fmt: skip


def test_many_on_a_cpu_are_what_the_estimator_fits():
    """But for the last digits: here models train as a stack, the estimator's one by one."""
    recording = data()
    estimator = asc.ContrastiveEmbedding(
        SPACES, seeds=2, steps=60, batch_size=64, penalty=0.3, encoder=ENCODER, random_state=7, early_stop=None,
        device="cpu", progress=False,
    ).fit(recording)  # fmt: skip
    seeds = check_random_state(7).randint(np.iinfo(np.int32).max, size=2).tolist()
    ((model, fit),) = fit_many([prepared(recording)], [seeds], [as_schedule(0.3)], SETTINGS, progress=False)
    own = estimator.model_
    for name, value in own.parameters.items():
        torch.testing.assert_close(model.parameters[name], value, rtol=0, atol=0.02)
    for name, value in own.decoder.items():
        torch.testing.assert_close(model.decoder[name], value, rtol=0, atol=0.05)
    torch.testing.assert_close(model.alignment.basis, own.alignment.basis, rtol=0.1, atol=0.05)
    np.testing.assert_array_equal(model.usable, own.usable)
    np.testing.assert_allclose(fit.table()["bits"], estimator.goodness_of_fit_["bits"], atol=0.02)
    assert model.channels == own.channels and model.regressions.keys() == {"speed"}


def test_each_has_its_own_schedule_seeds_and_shape(many):
    recordings, seeds, schedules, fitted = many
    assert [model.seeds for model, _ in fitted] == [2, 1, 2]
    assert [len(model.channels) for model, _ in fitted] == [8, 8, 10]
    for recording, own, schedule, (model, fit) in zip(recordings, seeds, schedules, fitted, strict=True):
        ((alone, judged),) = fit_many([prepared(recording)], [own], [schedule], SETTINGS, progress=False)
        for name, value in alone.parameters.items():
            torch.testing.assert_close(model.parameters[name], value, rtol=0, atol=0.02)
        for name, value in alone.decoder.items():  # decoders of one shape are one stack: rounding may differ
            torch.testing.assert_close(model.decoder[name], value, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(fit.bits, judged.bits)
    norms = [model.parameters["0.weight"][0].norm() for model, _ in fitted[:2]]
    assert norms[0] != norms[1]


def test_the_settings_own_schedule_is_not_used(many):
    recordings, seeds, schedules, fitted = many
    plan = Settings(steps=60, batch_size=64, learning_rate=1e-3, schedule=schedules[1])
    trained = train(prepared(recordings[1]).problem, seeds[1], plan, progress=False)
    torch.testing.assert_close(fitted[1][0].parameters["0.weight"], trained.parameters["0.weight"], rtol=0, atol=0)


def test_decoders_read_their_own_models_embedding(many):
    """The decoder of each seed predicts the channels of its recording, and better than that of another seed."""
    recordings, _, _, fitted = many
    model = fitted[2][0]
    X = model.standardise(recordings[2].X)
    u = model.alignment.to_aligned(model.embedder.embed(model.parameters, X, recordings[2].epochs))
    errors = {
        swap: float((decode(model.decoder, u.flip(0) if swap else u) - X).square().mean()) for swap in (False, True)
    }
    assert errors[False] < 0.9 * errors[True]


def test_one_scale_keeps_the_proportions_of_the_channels():
    recording = data()
    spread = recording.X.std(0, dtype=np.float64)
    own, one = prepared(recording), prepared(recording, one_scale=True)
    np.testing.assert_allclose(own.scale, spread)
    np.testing.assert_allclose(one.scale, np.full(8, np.sqrt((spread**2).mean())))
    np.testing.assert_allclose(own.problem.X.std(0, correction=0), 1, rtol=1e-4)
    np.testing.assert_allclose(one.problem.X.std(0, correction=0), spread / one.scale, rtol=1e-4)
    assert one.problem.X.square().mean() == pytest.approx(1, rel=1e-4)
    for item in (own, one):
        np.testing.assert_allclose(item.problem.X.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(item.problem.X.numpy() * item.scale + item.mean, recording.X, atol=1e-4)


def test_what_is_held_out_is_not_trained_on():
    item = prepared(data(), validation_fraction=0.2)
    training = item.problem.segments
    assert item.held_out and ((training >= 0) ^ (item.validation_segments >= 0)).all()
    assert (item.validation_segments >= 0).mean() == pytest.approx(0.2, abs=0.01)
    drawn = item.problem.pairs.draw(np.random.default_rng(0), 20, 64)
    assert (training[drawn] >= 0).all()
    judged = item.validation_pairs.draw(np.random.default_rng(0), 20, 64)
    assert (item.validation_segments[judged] >= 0).all()
    assert not prepared(data(), validation_fraction=0).held_out


def test_regressions_are_standardised_with_what_is_trained_on():
    recording = data()
    item = prepared(recording)
    used = item.problem.segments >= 0
    x = recording.variables["x"].to_numpy()
    np.testing.assert_allclose(item.regressions["speed"].ravel(), [x[used].mean(), x[used].std()])
    targets = make_targets(SPACES, recording, item.regressions)
    assert set(targets) == {"speed"} and targets["speed"].shape == (800, 1)
    np.testing.assert_allclose(targets["speed"][used].mean(), 0, atol=1e-5)
    np.testing.assert_array_equal(item.problem.targets["speed"], targets["speed"])


def test_what_cannot_be_held_out_is_said_and_judged_on_the_training_data():
    recording = data(steps=400)
    variables = recording.variables.copy()
    variables.loc[hold_out(np.zeros(400, int), 0.1)[1] >= 0] = np.nan
    with pytest.warns(UserWarning, match="nothing could be held out"):
        item = prepared(asc.Recording(recording.X, variables))
    assert not item.held_out and item.validation_pairs is item.problem.pairs


def test_the_best_seed_is_the_one_others_are_aligned_to():
    item = prepared(data())
    good = train(item.problem, [0], Settings(150, 64, 3e-3, Constant(0.0)), progress=False).parameters
    embedder = Embedder(item.problem.module, SPACES)
    untrained = embedder.initial(item.problem.module, [1])
    both = {name: torch.cat([untrained[name], good[name]]) for name in good}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((model, fit),) = finish([item], [both], [[0, 1]], batch_size=64, decoder_steps=50, progress=False)
    assert fit.bits.sum(1).argmax() == 1 and model.alignment.reference == 1
    assert model.usable.shape == (2, 3) and model.usable[1, 0]
