"""Experiments on images: their short forms, the loss terms, baselines, pairs by nearest neighbours."""

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.networks.outputs import Box
from experiments.images import scenes, sprites
from experiments.images.augmentations import augment
from experiments.images.pair_source import ImageSource, train_within, with_statistics
from experiments.images.sprite_models import SlowVAE, laplace_divergence, made_tracks
from experiments.images.sprite_scores import SIZES, score_codes
from experiments.shared.image_networks import TileVAE
from experiments.shared.runner import make_plan

GRID = asc.simulate.sprites()


def test_divergence_from_a_laplace_distribution_is_its_integral():
    mean, log_variance, rate = torch.tensor([0.7]), torch.tensor([-0.5]), 3.0
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    normal = torch.distributions.Normal(mean.double(), (log_variance / 2).exp().double())
    laplace = torch.distributions.Laplace(0.0, 1 / rate)
    value = (normal.log_prob(z).exp() * (normal.log_prob(z) - laplace.log_prob(z))).sum() * (z[1] - z[0])
    torch.testing.assert_close(
        laplace_divergence(mean, log_variance, rate).double()[0], value, rtol=1e-4, atol=1e-4
    )


def test_slow_vae_pulls_the_codes_of_a_pair_together():
    torch.manual_seed(0)
    model = SlowVAE(10)
    first, second = (5 * GRID.render(GRID.sample(4, seed)) for seed in (0, 1))
    with torch.no_grad():
        model.mean.weight.mul_(30)
        cost = [model(first, own, *_settings(10.0)) - model(first, own, *_settings(0.0)) for own in (first, second)]
    assert 0 < cost[0] < cost[1] - 1


def _settings(gamma):
    return torch.zeros(8, 10), torch.tensor(1.0), torch.tensor(gamma), torch.tensor(6.0)


def test_scores_of_the_true_factors_are_perfect_and_of_one_of_them_not():
    factors = GRID.factors(torch.arange(len(GRID))).numpy()
    counts = {"points": 300, "pairs": 16, "samples": 2000, "fitted": 300, "dci": 0}
    found = score_codes(factors, **counts)
    assert found["BetaVAE"] > 0.98 and found["FactorVAE"] == 1 and found["MCC"] > 0.999
    one = np.repeat(factors[:, [3]], 5, 1)
    assert score_codes(one, **counts)["FactorVAE"] < 0.4


def test_a_few_steps_lower_the_loss_and_have_both_terms():
    def draw(shape, rng):
        first, second = asc.simulate.laplace_pairs(GRID, shape, rng)
        return GRID.draw(first), GRID.draw(second)

    source = ImageSource(lambda: TileVAE(3).encoder, [0, 1], draw, similarity=asc.Lp(1), alpha=[0.5, 0.9])
    trained, steps = train_within(source, steps=40, batch_size=32, learning_rate=3e-3)
    curve = trained.history["infonce"]
    assert steps == 40 and curve.shape == (40, 2, 2)
    loss = 0.5 * curve[:, 0, 0] + 0.5 * curve[:, 0, 1]
    assert loss[-5:].mean() < loss[:5].mean() - 0.05
    assert curve[-5:, 1, 1].mean() < curve[-5:, 0, 1].mean()  # more weight on uniformity, more of it


def _source(**how):
    def draw(shape, rng):
        x = torch.rand(*shape, 3, 16, 16, generator=rng)
        return x, x + 0.1

    def build():
        return scenes._encoder("four convolutions", 8, 16, how.get("dim", 4))

    rest = {name: value for name, value in how.items() if name != "dim"}
    return ImageSource(build, [0, 1], draw, similarity=asc.Lp(2), together=False, **rest)


def test_independent_negatives_are_cross_entropy_over_all_positives():
    source = _source(independent=True)
    parameters = source.initial()
    batch = source.sampler(12)(torch.Generator().manual_seed(0))
    found = source.loss(parameters, batch, torch.zeros(2), None)
    z, positive = source.embed(parameters, torch.cat(batch, 1)).chunk(2, 1)
    logits = -(z[:, :, None] - positive[:, None]).square().sum(-1)
    own = torch.arange(12).expand(2, 12)
    entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1), own.flatten(), reduction="none").view(2, 12)
    torch.testing.assert_close(found.infonce.sum(1), entropy.mean(1) - np.log(12), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.total, found.infonce.sum(), rtol=1e-5, atol=1e-5)


def test_training_goes_on_with_another_number_of_outputs():
    wide, fresh = _source(dim=7), _source(dim=4)
    trained, _ = train_within(wide, steps=2, batch_size=8, learning_rate=1e-2, constant_rate=True)
    on = _source(dim=4, start=trained.parameters, output=Box())
    found = on.initial()
    assert set(found) == {*fresh.initial(), "half_width"} and (found["half_width"] == Box().half_width).all()
    last = {name for name in fresh.initial() if name.startswith("1.")}
    assert len(last) == 2
    for name, value in fresh.initial().items():
        assert torch.equal(found[name], value if name in last else trained.parameters[name])


def test_layers_compute_in_half_precision_on_a_cpu_where_asked():
    whole, half = _source(), _source(half=True)
    x = torch.rand(2, 6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    one, two = (source.embed(source.initial(), x) for source in (whole, half))
    assert two.dtype == torch.float32 and not torch.equal(one, two)
    torch.testing.assert_close(one, two, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", scenes.ENCODERS)
def test_encoders_of_scenes_have_as_many_outputs_as_asked(name):
    assert scenes._encoder(name, 8, 32, 5)(torch.zeros(2, 3, 32, 32)).shape == (2, 5)


def test_an_encoder_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="encoder='resnet': expected one of 'four convolutions'"):
        scenes.cases(make_plan(scenes.FULL, encoder="resnet"))


def test_simulated_tracks_move_little_most_of_the_time():
    step = (made_tracks(50, 30)[:, 1] - made_tracks(50, 30)[:, 0]).abs()
    assert step.median() < 0.03 and step.max() > 0.15


@pytest.mark.parametrize("at_once", [1, 1000, 2**20])
def test_the_nearest_image_is_never_the_same_and_else_the_nearest(at_once, monkeypatch):
    monkeypatch.setattr(scenes, "DISTANCES_AT_ONCE", at_once)
    points = torch.rand(200, 10, generator=torch.Generator().manual_seed(0)) * 2 - 1
    own = torch.arange(200).view(2, 100)
    wanted = points[own] + 0.05
    found = scenes.nearest_others(points, wanted, own)
    away = torch.cdist(wanted.flatten(0, 1), points)
    away[torch.arange(200), own.flatten()] = torch.inf
    assert torch.equal(found.flatten(), away.argmin(1)) and not (found == own).any()


def test_two_views_of_an_image_differ_and_stay_images():
    x = torch.rand(2, 5, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 2 - 1
    rng = torch.Generator().manual_seed(1)
    one, two = augment(x, rng), augment(x, rng)
    assert one.shape == x.shape and one.abs().max() <= 1 and not torch.allclose(one, two)


def test_each_model_has_the_statistics_of_its_own_layers():
    """Measured on one batch they are those of that batch: the embedding is that of training."""

    def build():
        layers = torch.nn.Conv2d(1, 4, 4, 4), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()
        return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 2))

    source = ImageSource(build, [0, 1], lambda *_: (), similarity=asc.Lp(1), together=False)  # type: ignore[arg-type]
    parameters, images = source.initial(), GRID.draw(GRID.sample(400, 1))
    with torch.no_grad():
        trained = source.embed(parameters, images.expand(2, *images.shape))
        embed = with_statistics(source, parameters, [images])
        for k in (0, 1, 0):
            assert (embed(images, k) - trained[k]).norm() < 1e-3 * trained[k].norm()
        alone = embed(images[:1], 0)
        torch.testing.assert_close(alone, embed(images, 0)[:1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(embed(images, 0), embed(images, 1), atol=0.01)


def test_sprites_in_short(tmp_path, monkeypatch):
    """In place of the supervised model, which has hardly been trained, one that knows the factors."""
    encode = sprites._encode

    def knows(grid, made, factors, k):
        codes = encode(grid, made, factors, k)
        return -factors[:, ::-1].astype(codes.dtype) if made.models[k]["name"] == "supervised" else codes

    monkeypatch.setattr(sprites, "_encode", knows)
    result = sprites.run(tmp_path, quick=True, device="cpu", progress=False, data=("LAP",))
    shown = sprites.tables(result)
    assert (tmp_path / "sprites.png").exists() and len(shown) == 2
    models = [model for row in result["rows"] for model in row["models"]]
    names = ["AU(0.5, 1)", "AU(0.99, 1)", "AU(0.5, 1), other negatives", "β-VAE", "SlowVAE", "supervised"]
    assert [model["name"] for model in models] == names
    assert {one["models"] for one in result["uniformity"]} == {2}  # of all weights, with the same negatives
    *untrained, supervised = [model["scores"] for model in models]
    assert supervised["MCC"] > 0.999 and supervised["FactorVAE"] >= 0.9 and supervised["Modularity"] > 0.85
    for scores in untrained:  # at chance, but for what images show by themselves: 0.36 to 0.48 and 0 to 0.3
        assert 0.2 < scores["MCC"] < 0.7 and scores["FactorVAE"] < 0.6
    assert {"alignment", "uniformity"} <= models[0].keys()


def test_scenes_in_short(tmp_path, monkeypatch):
    """In place of the supervised model, which has hardly been trained, one that knows the latents."""
    truth, prepare = [], scenes.with_statistics

    def instead(latents, folder, **how):  # mitsuba is an extra: colours that tell the latents stand in
        side = how["side"]
        truth.append(torch.as_tensor(latents)[-scenes.QUICK["test"] :])
        colours = np.abs(np.asarray(latents)[:, :3, None, None]) * np.ones((1, 1, side, side))
        return asc.simulate.Scenes((255 * colours).astype(np.uint8), np.asarray(latents))

    def knows(source, parameters, known):
        embed = prepare(source, parameters, known)
        return (lambda images, k: -truth[0].flip(1)) if source.supervised else embed

    monkeypatch.setattr(asc.simulate, "render_scenes", instead)
    monkeypatch.setattr(scenes, "with_statistics", knows)
    result = scenes.run(tmp_path, quick=True, device="cpu", progress=False)
    assert [row["name"] for row in result["rows"]] == ["Normal → box", "augmentations → sphere", "supervised"]
    assert [len(row["loss"]) for row in result["rows"]] == [3, 1, 1]  # stages of training
    assert len(scenes.tables(result)) == 1 and (tmp_path / "scenes.png").exists()
    *untrained, supervised = result["rows"]
    assert supervised["r2"][0] > 0.999 and supervised["mcc"] == [1.0]
    for row in untrained:  # ten outputs that hardly know the latents
        assert row["r2"][0] < 0.5 and 0.1 < row["mcc"][0] < 0.7


def test_what_is_not_a_data_set_is_refused():
    from experiments.images.sprite_models import sample_pairs

    with pytest.raises(ValueError, match="expected one of"):
        sample_pairs(GRID, "NAT")
    assert SIZES == [3, 6, 40, 32, 32]


def test_sprites_go_on_where_they_stopped(tmp_path, monkeypatch):
    """What was trained is not trained again, and codes that have no scores yet are scored."""
    plan = make_plan(sprites.FULL, sprites.QUICK, data=("LAP",), whole_grid=True, dci=0)
    wanted = [case for case in sprites.cases(plan) if case["kind"] != "VAE"]
    how = {"jobs": 1, "fresh": False, "progress": False, "device": "cpu"}
    codes = np.random.default_rng(0).normal(size=(len(GRID), 2, 5)).astype(np.float32)
    trained = []

    def train(grid, **case):
        trained.append(case["kind"])
        models = [{"alpha": alpha, "seed": 0, "name": "AU"} for alpha in (0.5, 0.99)]
        return {"kind": case["kind"], "data": "LAP", "steps": 1, "seconds": 0.0, "models": models}, codes

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sprites, "_train", train)
    monkeypatch.setattr(sprites, "_score", stopped)
    with pytest.raises(KeyboardInterrupt):
        sprites._rows(wanted, tmp_path, **how)
    monkeypatch.undo()
    monkeypatch.setattr(sprites, "_train", stopped)
    rows, there = sprites._rows(wanted, tmp_path, **how)
    assert trained == ["AU", "AU", "supervised"] and there == 3
    for row, case in zip(rows, wanted, strict=True):
        counts = {key: case[key] for key in sprites.COUNTS}
        for k, model in enumerate(row["models"]):  # each has the scores of its own codes
            assert model["scores"] == score_codes(codes[:, k], **counts)
            assert model["scores"]["MCC"] < 0.2
    assert rows[0]["models"][0]["scores"] != rows[0]["models"][1]["scores"]
