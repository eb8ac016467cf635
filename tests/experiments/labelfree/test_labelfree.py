"""The label-free experiments: their data and networks, that runs end in tables, and that masks stay with images."""

import numpy as np
import pytest
import torch

from experiments.labelfree import blocks, consistency, data, networks, pretext, roar, vae
from experiments.shared import stack_training as training

TINY = {"progress": False, "device": "cpu", "fresh": True}


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch, tmp_path):
    """No real data: the named stand-ins."""
    monkeypatch.setenv("ASCRIBO_DATA", str(tmp_path))


def test_stand_ins_are_named_and_in_range():
    images = data.images(50, 20)
    assert "stand-in for MNIST" in images.name and images.train.shape == (50, 1, 28, 28)
    assert 0 <= images.train.min() and images.train.max() <= 1 and set(images.test_labels) <= set(range(10))
    name, beats, abnormal = data.heartbeats()
    assert "stand-in for ECG5000" in name and beats.shape == (5000, 140) and 0.3 < abnormal.mean() < 0.5
    shapes = data.coloured_shapes(30, 10)
    assert shapes.train.shape == (30, 3, 32, 32) and "CIFAR-10" in shapes.name


def test_real_data_where_they_are(data_dir, monkeypatch):
    monkeypatch.setenv("ASCRIBO_DATA", str(data_dir))
    images = data.images(10, 5)
    assert images.name == "MNIST" and images.train.max() == 1 and images.train.shape == (10, 1, 28, 28)
    assert data.heartbeats()[0] == "ECG5000"


def test_architectures_are_those_of_the_paper():
    x = torch.rand(3, 1, 28, 28)
    model = networks.Autoencoder()
    assert model.encoder(x).shape == (3, 4) and model.decoder(model.encoder(x)).shape == x.shape
    assert model.encoder[8].in_features == 288 and model.encoder[8].out_features == 128
    assert networks.SequenceAutoencoder(5).encoder.first.hidden_size == 10
    assert networks.SimCLR().encoder(torch.rand(2, 3, 32, 32)).shape == (2, 512)
    for side, units in ((32, 3), (64, 6)):
        model = networks.VAE(units, side, 100)
        image = torch.rand(2, 1, side, side)
        assert (
            model.encoder(image).shape == (2, units) and model.decoder(torch.zeros(2, units)).shape == image.shape
        )


def test_tc_vae_with_beta_one_is_the_plain_vae():
    torch.manual_seed(0)
    model, x, noise = networks.VAE(3, 32, 100), torch.rand(4, 1, 32, 32), torch.randn(4, 3)
    one, plain = torch.tensor(1.0), torch.tensor(0.0)
    torch.testing.assert_close(model(x, noise, one, one), model(x, noise, one, plain))
    assert model(x, noise, torch.tensor(5.0), plain) > model(x, noise, one, plain)


def test_a_stack_trains_as_its_models_would_alone():
    x = torch.rand(64, 1, 28, 28)

    def build():
        models = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            models.append(networks.Autoencoder())
        return models

    order = torch.arange(64)

    def fit(models):
        count = len(models)
        return training.train(
            models, 64, lambda index, draws: (x[order.expand(count, -1)],) * 2,
            lambda draws: [(x.expand(count, *x.shape),) * 2], epochs=2, batch_size=64, device=torch.device("cpu"),
        )  # fmt: skip

    together = fit(build())
    for k, model in enumerate(build()):
        alone = fit([model])
        assert together.test_losses[-1][k] == pytest.approx(alone.test_losses[-1][0], rel=1e-4)
        with torch.no_grad():  # biases before batch normalisation have no gradient but rounding: compare outputs
            torch.testing.assert_close(
                together.models[k].encoder(x), alone.models[0].encoder(x), rtol=1e-2, atol=1e-3
            )


def test_training_keeps_the_best_epoch_and_stops():
    model = torch.nn.Linear(1, 1)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = model

        def forward(self, x, y):
            return (self.linear(x) - y).square().mean()

    losses = iter([3.0, 1.0, 2.0, 2.0, 2.0, 0.0])
    fixed = lambda draws: [(torch.zeros(1, 1, 1), torch.full((1, 1, 1), next(losses)))]  # noqa: E731
    step = lambda index, draws: (torch.zeros(1, 4, 1), torch.zeros(1, 4, 1))  # noqa: E731
    torch.nn.init.zeros_(model.bias)
    done = training.train([Loss()], 4, step, fixed, epochs=20, batch_size=4, patience=3, device=torch.device("cpu"))
    assert [round(v[0]) for v in done.test_losses] == [9, 1, 4, 4, 4]


def test_blocks_left_out_are_not_drawn():
    recording, spaces, labels = blocks.problem("box", 0, 400, 4)
    options = {"steps": 3, "batch": 32, "seeds": [0], "widths": (4,)}
    _, parameters, stack = blocks.leave_out(recording, spaces, labels, **options)
    assert [name for name, _ in stack] == [-1, 0, 1, 2, 3]
    weights = next(iter(parameters.values()))
    assert len(weights) == 5 and len({float(w.sum()) for w in weights}) == 5


def test_batches_are_the_same_up_to_the_block():
    recording, spaces, labels = blocks.problem("box", 0, 400, 4)
    whole = blocks.Pairs(spaces, recording.variables, recording.epochs)
    without = [
        blocks._Without(whole, spaces, recording.variables, np.where(labels == k, -1, recording.epochs))
        for k in (9, 2)
    ]
    every, some = (pairs.draw(np.random.default_rng(0), 20, 64) for pairs in without)
    assert not (labels[some] == 2).any()
    reference, positive, negative = without[1].rows["position"]
    hit = (labels[every] == 2).any(1)
    assert (some == every)[:, [reference, positive]][np.broadcast_to(~hit[:, None], (20, 2, 64))].all()
    kept = labels[every[:, negative]] != 2
    assert (some[:, negative] == every[:, negative])[kept].all()


@pytest.mark.parametrize(
    ("experiment", "options"),
    [
        (consistency, {"parts": ("mnist", "ecg-features", "ecg-examples", "simclr"), "train": 100, "test": 60,
                       "explained": 50, "epochs": 1, "beat_epochs": 1, "shapes": 64, "points": 2}),
        (roar, {"train": 100, "test": 20, "epochs": 1, "sizes": (50,)}),
        (pretext, {"train": 100, "test": 20, "explained": 10, "epochs": 1}),
        (vae, {"images": 32, "sprites": 32, "test": 10, "samples": 2}),
        (blocks, {}),
    ],
)  # fmt: skip
def test_quick_forms_end_in_tables(experiment, options, tmp_path):
    result = experiment.run(tmp_path, quick=True, **TINY, **options)
    shown = experiment.tables(result)
    assert all(len(table) for table in shown.values())
    assert (tmp_path / f"{result['experiment']}.json").exists() and (
        tmp_path / f"{result['experiment']}.png"
    ).exists()


def test_roles_to_first_order_are_the_exact_influence_for_small_blocks():
    """Leaving out one of many blocks is a small change, so that the first order is near."""
    recording, spaces, labels = blocks.problem("box", 0, 600, 30)
    prepared, parameters, _ = blocks.leave_out(
        recording, spaces, np.where(labels < 1, labels, 1), steps=40, batch=64, seeds=[0], widths=(4,)
    )
    whole = {name: value[:1] for name, value in parameters.items()}
    exact = blocks.explain.contrastive_examples(
        blocks._as_fitted(prepared, whole), recording, blocks=labels, references=300
    ).values
    known, edges = prepared.problem, [torch.from_numpy(e) for e in blocks.segment_bounds(recording.epochs)]
    loss = blocks.ContrastiveLoss(
        *(known.module, spaces, known.objectives, {n: v[0] for n, v in whole.items()}),
        lambda index: blocks._gather(known, torch.as_tensor(known.X), index, edges),
        blocks.draw_comparisons(recording, spaces, labels, references=300),
    )
    found = blocks.by_role(loss, labels)
    assert np.corrcoef(sum(found.values()).ravel(), exact.ravel())[0, 1] > 0.98
    assert np.corrcoef(found["negative"].ravel(), exact.ravel())[0, 1] < 0.9  # one role alone is another number
