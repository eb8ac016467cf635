"""Rendered scenes: what is in an image, shards that survive an interruption. Needs mitsuba, an extra."""

import numpy as np
import pytest

import ascribo as asc
from ascribo.simulate import scenes


def test_latents_are_checked():
    with pytest.raises(ValueError, match=r"expected \(n, 10\), all from -1 to 1"):
        asc.simulate.render_scenes(np.zeros((3, 9)), "unused")
    with pytest.raises(ValueError, match="all from -1 to 1"):
        asc.simulate.render_scene(np.full(10, 2.0))
    draws = asc.simulate.sample_scenes(2000)
    assert draws.min() < -0.99 and draws.max() > 0.99 and abs(draws.mean()) < 0.02


def test_shards_are_kept_and_damaged_ones_rendered_again(tmp_path, monkeypatch):
    seen = []

    def instead(latents, *, side, samples, seed):
        seen.append(seed)
        return np.full((3, side, side), round(100 * (latents[0] + 1)), np.uint8)

    monkeypatch.setattr(scenes, "render_scene", instead)
    latents, how = asc.simulate.sample_scenes(10), {"side": 4, "shard": 4, "progress": False}
    none = asc.simulate.render_scenes(latents[:4], tmp_path, seconds=0.0, **how)
    assert len(none.images) == 4 and len(seen) == 4
    whole = asc.simulate.render_scenes(latents, tmp_path, **how)
    assert whole.images.shape == (10, 3, 4, 4) and len(seen) == 10  # the first shard was there
    np.testing.assert_array_equal(whole.latents, latents)
    first, second, _ = sorted(tmp_path.glob("scenes-*.npz"))
    first.write_bytes(first.read_bytes()[:100])
    again = asc.simulate.render_scenes(latents, tmp_path, **how)
    assert len(seen) == 14 and np.array_equal(again.images, whole.images)
    second.unlink()
    assert len(asc.simulate.read_scenes(tmp_path).images) == 6
    with pytest.raises(FileNotFoundError, match="no rendered scenes"):
        asc.simulate.read_scenes(tmp_path / "nowhere")


def test_every_latent_changes_the_image():
    pytest.importorskip("mitsuba", reason="needs mitsuba: pip install ascribo[scenes]")
    middle = asc.simulate.render_scene(np.zeros(10), side=32)
    assert middle.shape == (3, 32, 32) and middle.dtype == np.uint8 and middle.std() > 20
    np.testing.assert_array_equal(middle, asc.simulate.render_scene(np.zeros(10), side=32))
    for k, name in enumerate(asc.simulate.SCENE_FACTORS):
        for value in (-1.0, 1.0):
            latents = np.zeros(10)
            latents[k] = value
            other = asc.simulate.render_scene(latents, side=32)
            assert np.abs(other.astype(float) - middle).mean() > 1, name
