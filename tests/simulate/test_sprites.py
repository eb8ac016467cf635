"""dSprites-like images: the grid, the pictures, and that factors do what they say."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.simulate.sprites import FACTORS

GRID = asc.simulate.sprites()


def one(**changed: int) -> torch.Tensor:
    """One image; factors that are not given stand in the middle."""
    middle = {"shape": 2, "scale": 5, "orientation": 0, "x": 16, "y": 16}
    return GRID.render([list({**middle, **changed}.values())])[0, 0]


def test_numbers_and_factors_are_each_others_inverse():
    index = torch.randint(len(GRID), (1000,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(GRID.index(GRID.factors(index)), index)
    assert GRID.factors([1]).tolist() == [[0, 0, 0, 0, 1]] and len(GRID) == np.prod(list(FACTORS.values()))
    values = GRID.latents(GRID.factors([0, len(GRID) - 1]))
    np.testing.assert_allclose(values[0], [0, 0.5, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(values[1], [2, 1, 2 * np.pi * 39 / 40, 1, 1], rtol=1e-6)


def test_images_are_binary_and_whole_at_every_corner():
    corners = [[s, 5, t, x, y] for s in range(3) for t in range(40) for x in (0, 31) for y in (0, 31)]
    images = GRID.render(corners)
    assert images.shape == (480, 1, 64, 64) and set(images.unique().tolist()) == {0.0, 1.0}
    for side in (images[..., 0, :], images[..., -1, :], images[..., 0], images[..., -1]):
        assert not side.any()  # never cut off
    assert (images.sum((1, 2, 3)) > 250).all()


def test_x_and_y_move_by_pixels_and_scale_by_area():
    assert torch.equal(one(x=20), one(x=16).roll(4, 1)) and torch.equal(one(y=12), one(y=16).roll(-4, 0))
    for shape in range(3):
        area = [GRID.render([[shape, k, t, 0, 0] for t in range(40)]).sum().item() for k in range(6)]
        np.testing.assert_allclose(np.sqrt(np.divide(area, area[5])), np.linspace(0.5, 1, 6), atol=0.01)


def test_orientation_turns_the_image_as_the_shape_allows():
    # ten steps of nine degrees: a quarter of a turn, exact on the pixels around the centre (32, 32)
    for shape in range(3):
        assert torch.equal(one(shape=shape, orientation=10), torch.rot90(one(shape=shape), -1))
    assert torch.equal(one(shape=0), one(shape=0, orientation=10))  # a square looks the same
    assert torch.equal(one(shape=1), one(shape=1, orientation=20)) and not torch.equal(
        one(shape=1), one(shape=1, orientation=10)
    )
    turns = torch.stack([one(orientation=k) for k in range(40)]).flatten(1)
    assert len(turns.unique(dim=0)) == 40  # every turn of a heart is another image


def test_sampling_is_uniform_and_repeats():
    factors = GRID.sample(20_000, 3)
    assert torch.equal(factors, GRID.sample(20_000, 3))
    for k, size in enumerate(FACTORS.values()):
        share = factors[:, k].bincount(minlength=size) / len(factors)
        np.testing.assert_allclose(share, 1 / size, atol=5 * np.sqrt(1 / size / len(factors)))


def test_batches_run_through_the_grid():
    batches = GRID.batches(7)
    first = next(batches)
    assert torch.equal(GRID.index(first[0]), torch.arange(7)) and torch.equal(first[1], GRID.render(first[0]))
    assert int(GRID.index(next(batches)[0])[0]) == 7


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="orientation outside 0 to 39"):
        GRID.render([[0, 0, 40, 0, 0]])
    with pytest.raises(ValueError, match=r"expected \(\.\.\., 5\)"):
        GRID.render([[0, 0]])
    with pytest.raises(ValueError, match="expected whole numbers"):
        GRID.render(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="outside 0 to 737279"):
        GRID.factors([737_280])


@pytest.fixture
def small_grid(monkeypatch):
    """A grid of 4 x 4 places: 11,520 images."""
    monkeypatch.setitem(FACTORS, "x", 4)
    monkeypatch.setitem(FACTORS, "y", 4)
    return GRID


def test_all_images_are_those_of_the_batches(small_grid):
    images = small_grid.all_images()
    assert images.shape == (11_520, 1, 64, 64) and images.dtype == torch.uint8
    assert torch.equal(images[777].float(), small_grid.render(small_grid.factors(777)))


def status(name: str) -> int:
    """Bytes of memory of this process: VmRSS, what it has, or VmHWM, the most it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="this system counts from the start only"
)
def test_codes_lie_in_memory_once(small_grid):
    """A list of batches that is joined at the end takes twice as much as was asked for."""
    small_grid.draw(small_grid.sample(256, 0))
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    codes = small_grid.codes(lambda images: images.flatten(1), 256)
    assert codes.shape == (11_520, 4096) and status("VmHWM") - before < 1.3 * 4 * codes.numel()
    assert torch.equal(codes[5000], small_grid.render(small_grid.factors(5000)).flatten())


def test_one_image_needs_no_axis():
    assert GRID.render([0, 0, 0, 0, 0]).shape == (1, 64, 64) and int(GRID.index([2, 5, 39, 31, 31])) == 737_279
    with pytest.raises(ValueError, match="scale outside 0 to 5"):
        GRID.render([0, 6, 0, 0, 0])


def test_codes_have_one_dimension(small_grid):
    widths = iter([2, 1])
    with pytest.raises(ValueError, match=r"returned shape \(60, 1\); expected \(60, 2\)"):
        small_grid.codes(lambda images: torch.zeros(len(images), next(widths)), 60)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_the_same():
    factors = GRID.sample(500)
    assert torch.equal(asc.simulate.sprites("cuda").render(factors).cpu(), GRID.render(factors))


def test_what_an_encoder_must_return_and_where_sprites_can_be():
    grid = asc.simulate.sprites()
    for call, said in [
        (lambda: grid.codes(lambda images: torch.zeros(len(images)), 60), r"expected \(60, dimension\)"),
        (lambda: grid.codes(lambda images: torch.zeros(3, 2), 60), r"expected \(60, dimension\)"),
        (lambda: grid.codes(lambda images: torch.zeros(1, 1).expand(len(images), 10**7), 60), "GB are free"),
        (lambda: grid.sample(-1), "count=-1"),
        (lambda: asc.simulate.sprites("tpu"), "device='tpu' cannot be used"),
    ]:
        with pytest.raises(ValueError, match=said):
            call()
