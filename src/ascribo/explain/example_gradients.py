"""The loss of each example as a function of the encoder's parameters alone, and its derivatives.

Crabbé & van der Schaar (2022), definition 3.1, count only the parameters of the encoder that is explained, not
those of a decoder behind it. So a loss here is what the rest of the model makes of a representation: ℓ(f(x), x).
All is computed in evaluation mode, on copies of the modules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap

from .lstm import unrolled

__all__ = ["ExampleLoss"]


class ExampleLoss:
    """ℓ(f(x), x) of single examples, by the flat vector θ of the encoder's parameters.

    Parameters
    ----------
    encoder : nn.Module, (batch, ...) -> (batch, dim).
    loss : function or module of (z, x), representations (batch, dim) and examples (batch, ...), -> (batch,) losses.
        With `views` z is (batch, view, dim). It must not draw random numbers: expectations are over fixed draws.
    views : function, optional. From examples (batch, ...) to the inputs the encoder sees of each (batch, view,
        ...), such as copies with fixed noise; by default the example itself.
    """

    def __init__(
        self, encoder: nn.Module, loss: Callable[..., Tensor], views: Callable[[Tensor], Tensor] | None = None
    ):
        if not isinstance(encoder, nn.Module):
            raise ValueError(
                f"the encoder is a {type(encoder).__name__}: a loss has gradients for an nn.Module only."
            )
        if loss is None or not callable(loss):
            raise ValueError(
                "this method needs the loss the encoder was trained with: pass loss=, a function of "
                "representations and examples (z, x) that returns one loss for each example."
            )
        self.encoder, self.views = unrolled(encoder), views
        self.loss = unrolled(loss) if isinstance(loss, nn.Module) else copy.copy(loss)
        chosen = {name: p.detach() for name, p in self.encoder.named_parameters() if p.requires_grad}
        if not chosen:
            raise ValueError("the encoder has no parameter that requires a gradient: nothing of it was trained.")
        self.names, self.shapes = list(chosen), [p.shape for p in chosen.values()]
        self.theta = torch.cat([p.flatten() for p in chosen.values()])
        for part in (self.encoder, self.loss):
            if isinstance(part, nn.Module):
                part.requires_grad_(False)

    @property
    def parameters(self) -> int:
        """How many numbers θ has."""
        return len(self.theta)

    def represent(self, theta: Tensor, x: Tensor) -> Tensor:
        """(batch, dim), or (batch, view, dim)."""
        parts = theta.split([shape.numel() for shape in self.shapes])
        named = {n: p.view(s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}
        if self.views is None:
            return functional_call(self.encoder, named, (x,)).flatten(1)
        seen = self.views(x)
        z = functional_call(self.encoder, named, (seen.flatten(0, 1),))
        return z.flatten(1).unflatten(0, seen.shape[:2])

    def check_gradient(self, x: Tensor) -> None:
        """Refuse an encoder whose representations do not depend on its parameters as far as autograd can see."""
        with torch.enable_grad():
            if not self.represent(self.theta.clone().requires_grad_(), x).requires_grad:
                raise ValueError(
                    "the encoder's output has no gradient with respect to its parameters (it is detached, "
                    "converted to numpy, or computed without gradients): use method='nearest_neighbours' or "
                    "'simplex', which need none."
                )

    def losses(self, theta: Tensor, x: Tensor) -> Tensor:
        """(batch,) losses of a batch of examples."""
        values = self.loss(self.represent(theta, x), x)
        if values.shape != x.shape[:1]:
            raise ValueError(
                f"the loss returned shape {tuple(values.shape)} for {len(x)} examples: expected one number for "
                f"each, ({len(x)},). Use reduction='none', and average over the features of an example only."
            )
        return values

    def gradients(self, x: Tensor) -> Tensor:
        """∂ℓ/∂θ of each example of a batch: (batch, parameter)."""
        return self._mapped(grad(lambda theta, one: self.losses(theta, one[None])[0]), x)

    def jacobians(self, x: Tensor) -> Tensor:
        """∂f/∂θ of each example, all its views: (batch, view · dim, parameter)."""
        return self._mapped(jacrev(lambda theta, one: self.represent(theta, one[None]).flatten()), x)

    def curvatures(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """First derivatives (batch, view · dim) and positive part of the second (batch, view · dim, view · dim) of
        the loss with respect to the representation."""
        z = self.represent(self.theta, x).detach()

        def one(values: Tensor, example: Tensor) -> Tensor:
            return self.loss(values.view(1, *z.shape[1:]), example[None])[0]

        flat = z.flatten(1)
        first = self._vmapped(grad(one), (0, 0))(flat, x)
        values, axes = torch.linalg.eigh(self._vmapped(hessian(one), (0, 0))(flat, x).double())
        return first, (axes * values.clamp_min(0)[:, None]) @ axes.mT

    def hessian_product(self, x: Tensor, vectors: Tensor) -> Tensor:
        """Σ ∂²ℓ/∂θ² v over a batch of examples, for several vectors (vector, parameter)."""
        slope = grad(lambda theta: self.losses(theta, x).sum())
        return vmap(lambda v: jvp(slope, (self.theta,), (v,))[1])(vectors)

    def _mapped(self, function: Callable[..., Tensor], x: Tensor) -> Tensor:
        return self._vmapped(function, (None, 0))(self.theta, x).detach()

    def _vmapped(self, function: Callable[..., Tensor], axes: tuple) -> Callable[..., Tensor]:
        mapped = vmap(function, axes, randomness="error")

        def call(*arguments: Tensor) -> Tensor:
            try:
                return mapped(*arguments)
            except RuntimeError as error:
                if "randomness" not in str(error) and "running" not in str(error):
                    raise
                raise ValueError(
                    "the loss draws random numbers or has batch normalisation in training mode: fix the draws "
                    "(views= with fixed noise), and put its modules into evaluation mode."
                ) from error

        return call
