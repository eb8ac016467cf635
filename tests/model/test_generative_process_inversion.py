"""Encoders of small generative processes find their latents, as far as theory says and no further."""

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.networks.outputs import Sphere
from ascribo.spaces.similarities import Dot, SquaredL2
from ascribo.training.batch_source import DeviceSource
from ascribo.training.generative_process_batches import ProcessSource, best_temperature

QUICK = dict(device="cpu", progress=False, batch_size=256)


def box(**given):
    return asc.simulate.process("box", **{"dim": 3, "layers": 2, "seed": 1, "scale": 0.1, **given})


@pytest.fixture(scope="module")
def laplace():
    made = box(conditional="laplace")
    return asc.invert_process(
        [made, made.with_seed(2)], similarity=asc.Lp(1), output="unbounded", steps=300, **QUICK
    )


def test_laplace_pairs_identify_up_to_permutation(laplace):
    assert laplace.scores["mcc"].min() > 0.97 and laplace.scores["r2"].min() > 0.95
    assert laplace.scores["identity_r2"].max() < 0.95
    assert laplace.scores["seed"].tolist() == [1, 2]
    assert laplace.embedding.shape == laplace.latents.shape == (2, 10_000, 3)
    assert laplace.history.shape == (300, 2)
    assert np.mean(laplace.history[-20:]) < np.mean(laplace.history[:2]) - 0.5


def test_the_embedding_of_given_latents(laplace):
    z = laplace.embed(torch.from_numpy(laplace.latents[:, :100])).numpy()
    np.testing.assert_allclose(z, laplace.embedding[:, :100], rtol=1e-4, atol=1e-4)
    assert laplace.embed(torch.rand(7, 3)).shape == (2, 7, 3)


def test_normal_pairs_identify_up_to_rotation_unless_the_output_is_a_box():
    made = [box(conditional="normal", seed=seed) for seed in range(2)]
    free, bound = (
        asc.invert_process(made, similarity="squared_l2", output=output, steps=300, **QUICK).scores
        for output in ("unbounded", "box")
    )
    assert free["r2"].min() > 0.97 and free["mcc"].mean() < 0.95
    assert bound["mcc"].mean() > 0.97


def test_a_learned_radius_is_the_root_of_temperature_times_concentration():
    made = asc.simulate.process("sphere", dim=3, concentration=6.0, layers=1)
    found = asc.invert_process(
        made,
        similarity="dot",
        output=Sphere(1.0, learned=True),
        temperature=0.5,
        negatives="independent",
        steps=300,
        **QUICK,
    )
    assert found.parameters["radius"].item() == pytest.approx(np.sqrt(0.5 * 6.0), rel=0.03)
    assert found.scores["r2"][0] > 0.99


def test_supervised_models_are_the_upper_bound():
    made = [box(conditional="normal", seed=seed) for seed in (1, 2)]
    found = asc.invert_process(
        made, similarity="squared_l2", output="unbounded", supervised=True, steps=300, **QUICK
    )
    assert found.scores["mcc"].min() > 0.99 and "alignment" not in found.scores


def test_a_model_is_the_same_in_any_company_and_again():
    made = box(conditional="normal")
    alone, company = (
        asc.invert_process(made, similarity="squared_l2", output="unbounded", seeds=seeds, steps=20, **QUICK)
        for seeds in (1, 2)
    )
    np.testing.assert_allclose(alone.history[:, 0], company.history[:, 0], rtol=1e-4)
    again = asc.invert_process(made, similarity="squared_l2", output="unbounded", steps=20, **QUICK)
    assert np.array_equal(alone.history, again.history)


def test_more_uniformity_spreads_and_more_alignment_gathers():
    made = box(conditional="normal")
    tight, wide = (
        asc.invert_process(
            made, similarity="squared_l2", output="unbounded", alpha=alpha, steps=100, **QUICK
        ).scores
        for alpha in (0.3, 0.7)
    )
    assert wide["uniformity"][0] < tight["uniformity"][0] and wide["alignment"][0] > tight["alignment"][0]


@pytest.mark.parametrize("negatives", ["references", "independent"])
@pytest.mark.parametrize("count_positive", [True, False])
def test_the_loss_is_its_definition(negatives, count_positive):
    source = ProcessSource(
        [box(conditional="normal")], [0], widths=(8,), similarity=SquaredL2(), negatives=negatives,
        temperature=0.3, count_positive=count_positive, alpha=0.8,
    )  # fmt: skip
    assert isinstance(source, DeviceSource)
    parameters = source.initial()
    batch = source.draw(0, 1, 40)[0]
    found = source.loss(parameters, batch, torch.zeros(1), None)
    rows = source.embed(parameters, batch.flatten(1, 2))[0].double().split(40)
    far = torch.cdist(rows[0], rows[2] if negatives == "independent" else rows[0]) ** 2 / 0.3
    near = (rows[0] - rows[1]).square().sum(-1) / 0.3
    total = (-far).exp().sum(1) + (count_positive * (-near).exp())
    uniformity = total.log().mean() - np.log(40 + count_positive)
    assert found.infonce.item() == pytest.approx(float(near.mean() + uniformity + np.log(40)), rel=1e-5)
    assert found.total.item() == pytest.approx(float(2 * (0.2 * near.mean() + 0.8 * uniformity)), rel=1e-5)


def test_observations_of_batches_are_white_and_of_their_own_process():
    made = [box(conditional="normal", seed=seed, channels=6) for seed in (1, 2)]
    source = ProcessSource(made, [0, 1], widths=(8,), similarity=SquaredL2())
    x = source.observe(torch.stack([made[0].sample(5000, 3)] * 2))
    assert not torch.allclose(x[0], x[1])
    for own in x:
        spread = torch.linalg.eigvalsh(torch.cov(own.T))
        assert spread.max() < 1.1 and spread[3:].min() > 0.5
    host = source.draw(0, 2, 16)
    assert len(host) == 2 and host[0].shape == (2, 2, 16, 6)
    assert source.sampler(16)(torch.Generator().manual_seed(0)).shape == (2, 2, 16, 6)


def test_the_best_temperature_has_the_least_loss():
    wide = asc.simulate.process("sphere", dim=3, concentration=4.0)
    assert best_temperature(wide, Dot()) == pytest.approx(1 / 4, rel=0.15)
    made = box(conditional="normal", scale=0.05, dim=6)
    found = best_temperature(made, SquaredL2())
    assert found > 5 * 2 * 0.05**2 * 12  # far wider than the pairs: no negative is as near as a positive
    z, near = (part / part.std(1, keepdim=True) for part in made.sample_pairs((1, 1024), 0))

    def loss(temperature):
        pull = (z - near).square().sum(-1) / temperature
        push = (-torch.cdist(z, z).square() / temperature).logsumexp(-1)
        return (pull + torch.logaddexp(push, -pull)).mean()

    assert loss(found) < loss(found / 1.5) and loss(found) < loss(found * 1.5)
    matched = best_temperature(made, SquaredL2(), negatives="independent")
    assert matched == pytest.approx(2 * 0.05**2 * 12, rel=0.15)  # that of the pairs, latents having variance 1 / 12


def test_outputs_keep_the_variance_they_start_with(laplace):
    assert laplace.embedding.std(1) == pytest.approx(np.ones((2, 3)), rel=0.25)


def test_fewer_negatives_are_the_first_references():
    made = box(conditional="normal")
    few = ProcessSource([made], [0], widths=(8,), similarity=SquaredL2(), negatives=10)
    z = few.embed(few.initial(), few.draw(0, 1, 40)[0].flatten(1, 2)).split(40, 1)
    near = (z[0] - z[1]).square().sum(-1)
    total = (-torch.cdist(z[0], z[0][:, :10]).square()).exp().sum(-1) + (-near).exp()
    assert few.terms(z)[1].item() == pytest.approx(float(total.log().mean() - np.log(11)), rel=1e-4)


def test_pairs_are_embedded_by_all_models(laplace):
    reference, positive = laplace.embed_pairs(50, 3)
    assert reference.shape == positive.shape == (2, 50, 3)
    assert np.abs(reference - positive).mean() < 0.5 * reference.std()
    np.testing.assert_array_equal(laplace.embed_pairs(50, 3)[0], reference)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(similarity="dot"), "use output='sphere'"),
        (dict(output="torus"), "expected one of"),
        (dict(negatives="hard"), "expected one of"),
        (dict(negatives=257), "from 1 to batch_size=256"),
        (dict(alpha=1.0), "above 0 and below 1"),
        (dict(alpha="0.5"), "alpha='0.5': expected a number"),
        (dict(process="box"), "expected a generative process"),
        (dict(process=[]), "expected a generative process"),
        (dict(batch_size=1), "batch_size=1: expected an integer of at least 2"),
        (dict(batch_size=10**12), "a smaller batch_size"),
        (dict(learning_rate=-1), "learning_rate=-1: expected a number above 0"),
        (dict(temperature=float("inf")), "temperature=inf"),
        (dict(widths=8), "units of each hidden layer"),
        (dict(negatives=True), "negatives=True"),
        (dict(seeds=True), "seeds=True"),
        (dict(random_state=-1), "random_state=-1"),
        (dict(steps=0), "at least 1"),
        (dict(temperature=0.0), "above 0"),
    ],
)
def test_bad_input_is_refused_in_words(given, said):
    with pytest.raises(ValueError, match=said):
        usual = {"process": box(conditional="normal"), "similarity": "squared_l2", "output": "unbounded"}
        asc.invert_process(**{**usual, **QUICK, **given})


def test_training_goes_on_from_other_encoders():
    made = box(conditional="normal")
    how = {"similarity": "squared_l2", "output": "box", **QUICK}
    early = asc.invert_process(made, alpha=0.3, steps=60, **how)
    late = asc.invert_process(made, start=early, steps=1, learning_rate=1e-9, **how)
    np.testing.assert_allclose(late.embedding, early.embedding, atol=1e-5)
    for other in (dict(seeds=2), dict(widths=(7,)), dict(output="unbounded")):
        with pytest.raises(ValueError, match="expected as many encoders"):
            asc.invert_process(made, start=early, steps=1, **{**how, **other})


def test_processes_of_one_stack_have_one_distribution():
    with pytest.raises(ValueError, match="only mixings differ"):
        asc.invert_process(
            [box(conditional="normal"), box(conditional="laplace")],
            similarity="squared_l2",
            output="unbounded",
            **QUICK,
        )


def test_a_loss_in_float16_has_the_gradients_of_float32():
    """What a GPU trains with; float16 is computed on a CPU here, to the same digits."""
    for similarity, negatives in ((SquaredL2(), "references"), (asc.Lp(1), "independent"), (asc.Lp(3), 40)):
        outcomes = []
        for half in (False, True):
            source = ProcessSource(
                [box(conditional="normal"), box(conditional="normal", seed=2)],
                [0, 1],
                widths=(30, 30),
                similarity=similarity,
                negatives=negatives,
                half=half,
            )
            parameters = {name: value.requires_grad_() for name, value in source.initial().items()}
            (batch,) = source.draw(0, 1, 128)
            loss = source.loss(parameters, batch, torch.zeros(2), None)
            outcomes.append([loss.total.detach(), *torch.autograd.grad(loss.total, list(parameters.values()))])
        for exact, got in zip(*outcomes, strict=True):
            # rounding turns a few of the signs that the slope of |x| is made of
            assert (got - exact).norm() < 3e-2 * exact.norm() + 1e-5, similarity


def heavy(dim=4, **given):
    """A process whose marginal bends ordinary encoders."""
    made = asc.simulate.process(
        "unbounded", dim=dim, marginal="laplace", conditional="normal", scale=0.05, layers=2, **given
    )
    return made, {"similarity": "squared_l2", "output": "unbounded", "widths": (48, 48, 48), **QUICK}


def test_an_encoder_without_offsets_is_homogeneous_before_and_after_training():
    made, how = heavy()
    for steps in (1, 60):
        found = asc.invert_process(
            [made, made.with_seed(1)],
            homogeneous=True,
            steps=steps,
            learning_rate=1e-9 if steps == 1 else 1e-2,
            **how,
        )
        assert set(found.parameters) == {f"{layer}.weight" for layer in (0, 2, 4, 6)}
        z = 3 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
        one = found.embed(z)
        for factor in (1e-3, 0.5, 7.0):
            torch.testing.assert_close(found.embed(factor * z), factor * one, rtol=1e-4, atol=2e-5 * factor)
        assert one.std() > 0.5 and found.embed(0 * z).abs().max() == 0


def test_without_offsets_a_heavy_marginal_does_not_bend_the_embedding():
    made, how = heavy()
    plain, found = (
        asc.invert_process(made, homogeneous=wanted, steps=400, **how).scores["r2"][0] for wanted in (False, True)
    )
    assert found > 0.985 and found > plain + 0.01


def test_training_without_offsets_goes_on_from_such_a_model():
    made, how = heavy()
    early = asc.invert_process(made, homogeneous=True, steps=40, **how)
    late = asc.invert_process(made, homogeneous=True, start=early, steps=1, **{**how, "learning_rate": 1e-9})
    np.testing.assert_allclose(late.embedding, early.embedding, atol=1e-5)
    longer = asc.invert_process(made, homogeneous=True, start=early, steps=100, **how)
    assert longer.scores["r2"][0] > early.scores["r2"][0]
    with pytest.raises(ValueError, match="of the same kind"):
        asc.invert_process(made, start=early, steps=1, **how)


@pytest.mark.parametrize("changes", [{"decorrelate": True}, {"output": "box"}, {"output": "sphere"}])
def test_what_cannot_be_without_offsets_is_refused(changes):
    made, how = heavy()
    with pytest.raises(ValueError, match="homogeneous=True needs output='unbounded'"):
        asc.invert_process(made, homogeneous=True, steps=1, **{**how, **changes})


def test_being_without_offsets_is_part_of_what_a_source_is():
    made, _ = heavy()
    kinds = [
        ProcessSource([made], [0], widths=(8,), similarity=SquaredL2(), homogeneous=wanted)
        for wanted in (False, True)
    ]
    assert kinds[0].digest() != kinds[1].digest()
    assert not kinds[1].half and not kinds[1]._centre.any()
    with pytest.raises(ValueError, match="have no bias"):
        kinds[1].absorb(kinds[1].initial())
    with pytest.raises(ValueError, match="in float32"):
        ProcessSource([made], [0], widths=(8,), similarity=SquaredL2(), homogeneous=True, half=True)
