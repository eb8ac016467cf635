"""Aligned coordinates: white, common to all seeds, and back again."""

import torch

from ascribo.networks.seed_alignment import align

BLOCKS = {"a": slice(0, 3), "b": slice(3, 5)}


def seeds():
    g = torch.Generator().manual_seed(0)
    base = torch.randn(1, 3000, 5, generator=g) * torch.tensor([5.0, 1.0, 0.2, 3.0, 1.0])
    out = [base]
    for _ in range(3):
        turn = torch.block_diag(torch.randn(3, 3, generator=g), torch.randn(2, 2, generator=g))
        out.append(base @ turn + torch.randn(5, generator=g))
    return torch.cat(out)


def test_blocks_become_white_and_equal():
    z = seeds()
    for reference in (0, 2):
        aligned = align(z, BLOCKS, reference)
        u = aligned.to_aligned(z)
        for where in BLOCKS.values():
            covariance = u[0, :, where].T @ u[0, :, where] / 3000
            torch.testing.assert_close(covariance, torch.eye(where.stop - where.start), atol=1e-2, rtol=0)
        for seed in range(4):
            torch.testing.assert_close(u[seed], u[0], atol=2e-2, rtol=1e-2)


def test_basis_and_inverse_are_inverse_and_block_diagonal():
    aligned = align(seeds(), BLOCKS)
    product = aligned.basis @ aligned.inverse
    torch.testing.assert_close(product, torch.eye(5).expand(4, 5, 5), atol=1e-4, rtol=0)
    assert aligned.basis[:, :3, 3:].abs().max() == 0 and aligned.basis[:, 3:, :3].abs().max() == 0


def test_consensus_is_the_reference_embedding_when_seeds_agree():
    z = seeds()
    for reference in (0, 3):
        aligned = align(z, BLOCKS, reference)
        torch.testing.assert_close(aligned.consensus(z, torch.ones(4, 5)), z[reference], atol=5e-2, rtol=5e-2)


def test_consensus_ignores_seeds_that_do_not_count():
    z = seeds()
    z[1] = torch.randn(3000, 5)
    weight = torch.ones(4, 5)
    weight[1] = 0
    torch.testing.assert_close(align(z, BLOCKS).consensus(z, weight), z[0], atol=5e-2, rtol=5e-2)


def test_a_collapsed_block_stays_finite():
    z = seeds()
    z[2, :, :3] = 0.1
    aligned = align(z, BLOCKS)
    assert torch.isfinite(aligned.to_aligned(z)).all()
