"""Invert a generative process: train a stack of encoders on it, and say how far they found its latents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..kernels.similarity_terms import Similarity
from ..metrics.identifiability import held_out_r2, mean_correlation_coefficient
from ..networks.outputs import Box, Output, Sphere, as_output
from ..simulate.generative_process import Process
from ..spaces.similarities import as_similarity
from ..support.compute import check_memory, resolve_device
from ..support.numbers import check_integer, check_number
from ..training.dispatch import train_source
from ..training.generative_process_batches import ProcessSource, best_temperature
from ..training.penalty_weight import Constant
from ..training.settings import Settings

__all__ = ["Inversion", "invert_process"]

NEGATIVES = ("references", "independent")
SAMPLES = 10_000
"""New samples that the models are scored on, half of them to fit the affine map."""
PAIRS = 4_000
"""New pairs that the terms of the loss are computed from, with as many negatives."""


@dataclass(frozen=True)
class Inversion:
    """A stack of encoders of a generative process, and how far they found its latents.

    scores : a row for each model: seed (of the process), r2 (of the latents by an affine map of the embedding, on
        samples that the map was not fitted to), mcc and mcc_spearman (mean correlation of matched latents and
        dimensions), identity_r2 (r2 of the observations as they are), and, unless supervised, the two terms of the
        contrastive loss on new samples.
    latents : (model, sample, dim), what the scores were computed from, and embedding : (model, sample, dim).
    history : the loss at every training step, (step, model).
    temperature : by which ψ was divided.
    parameters : of the encoders and of their output, such as a learned radius, each (model, ...).
    """

    scores: pd.DataFrame
    latents: np.ndarray
    embedding: np.ndarray
    history: np.ndarray
    temperature: float
    parameters: Mapping[str, Tensor]
    _source: ProcessSource = field(repr=False)

    @property
    def recordings(self) -> np.ndarray:
        """(model,) which mixing each model is an encoder of: models of one number are seeds of the same process."""
        mixings = [id(own.mixing) for own in self._source.processes]
        return np.array([mixings.index(mixing) for mixing in mixings])

    def embed(self, latents: Tensor) -> Tensor:
        """h = f∘g: the embedding (model, n, dim) of the observations of latents (n, dim) or (model, n, dim)."""
        models = len(self.scores)
        own = latents if latents.ndim == 3 else latents.expand(models, *latents.shape)
        with torch.no_grad():
            return self._source.embed(self.parameters, self._source.observe(own.float()))

    def embed_pairs(self, count: int, random_state: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """New latents of the process and their positives, the same for all models, embedded: (model, n, dim)
        each."""
        rng = torch.Generator(self._source.device).manual_seed(random_state + 2**33)
        found = (self.embed(part) for part in self._source.process.sample_pairs(count, rng))
        reference, positive = (part.cpu().numpy() for part in found)
        return reference, positive


def invert_process(
    process: Process | Sequence[Process],
    *,
    similarity: str | Similarity,
    output: str | Output,
    seeds: int = 1,
    steps: int = 3000,
    batch_size: int = 1024,
    learning_rate: float = 1e-2,
    widths: Sequence[int] | None = None,
    temperature: float | None = None,
    negatives: str | int = "references",
    count_positive: bool = True,
    alpha: float = 0.5,
    decorrelate: bool = False,
    homogeneous: bool = False,
    supervised: bool = False,
    start: Inversion | None = None,
    random_state: int = 0,
    device: str = "auto",
    progress: bool = True,
) -> Inversion:
    """Train encoders on a generative process by contrastive learning, and score them against its latents.

    Parameters
    ----------
    process : a process, or several with one distribution of latents and different mixings (`process.with_seed`).
    similarity : ψ of the model. "dot" is a von Mises-Fisher conditional, "squared_l2" a normal one,
        `ascribo.Lp(1)` a Laplace one and `ascribo.Lp(β)` a generalized normal one.
    output : "sphere", "box" (whose sides are learned) or "unbounded"; or an object of `ascribo.networks.outputs`,
        such as `Sphere(learned=True)` for a learned radius.
    seeds : encoders for each process. They train together, as one stack.
    steps, batch_size, learning_rate : of training; the rate falls along a cosine in the second half.
    widths : of the hidden layers; None: 20 · dim three times.
    temperature : by which ψ is divided. None: 1 for "dot"; else the one at which outputs of variance 1 have the
        least
        loss, so that the encoder need not learn a scale.
    negatives : "references" of the same batch, each with itself too; or "independent"
        ones. The first is biased a little and learns much faster: the pair with itself keeps the pull on positives
        strong where no negative is near. A number: only so many of the references are negatives, for batches so
        large that comparing all of them would take most of the time (wide pairs, which need many).
    count_positive : whether the positive is in the denominator of InfoNCE. Without it and with independent
        negatives the loss has no lower bound.
    alpha : weight of the uniformity, beside 1 - alpha of the alignment (Zimmermann et al. 2020, equation 70; 0.5
        is InfoNCE).
    decorrelate : while training, the outputs of a batch are given mean 0 and covariance 1, so that no direction of
        the embedding can stay empty. It finds latents that are otherwise lost for good, of many above all. It
        assumes that the latents have the same variance in all directions, as on a uniform sphere; where they have
        not, go on without it (`start`). Not for a box, nor if supervised.
    homogeneous : encoders of leaky rectifiers without biases, on observations that are scaled around 0 and not
        around their mean, so that h(c·z) = c·h(z) for every c > 0. It assumes that the mixing is so, too, as those
        of `ascribo.simulate.process` are, which have no offsets. Where the marginal is far from uniform the loss
        is least for an embedding that is stretched in the middle and squeezed far out; such an encoder cannot do
        that. For outputs without bounds that are not decorrelated.
    supervised : train the same encoder to predict the latents instead, an upper bound of what it can find.
    start : encoders of the same processes to go on from, such as ones that were trained with more weight on the
        alignment, which is faster where positives are close.
    random_state : initial weights, batches and the samples of the scores depend on it.

    Returns
    -------
    Inversion, with `scores`.

    Examples
    --------
    >>> import ascribo as asc
    >>> made = asc.simulate.process("box", dim=2, conditional="laplace", scale=0.1, layers=2)
    >>> quick = dict(steps=150, batch_size=128, progress=False)
    >>> found = invert_process(made, similarity=asc.Lp(1), output="unbounded", **quick)
    >>> bool(found.scores["mcc"][0] > 0.9)
    True
    """
    processes = _as_processes(process)
    psi, where = as_similarity(similarity), as_output(output)
    for name, value, least in (("seeds", seeds, 1), ("steps", steps, 1), ("batch_size", batch_size, 2)):
        check_integer(name, value, least)
    check_integer("random_state", random_state, 0)
    check_number("learning_rate", learning_rate, above=0)
    if widths is not None and not isinstance(widths, Sequence):
        raise ValueError(f"widths={widths!r}: expected the units of each hidden layer, such as (100, 100).")
    _check(psi, where, negatives, batch_size, alpha)
    if decorrelate and (supervised or isinstance(where, Box) or batch_size <= processes[0].dim):
        raise ValueError(
            "decorrelate=True needs pairs (supervised=False), an output on a sphere or unbounded, and a batch of "
            f"more than the {processes[0].dim} latents; it was given supervised={supervised}, output={where} and "
            f"batch_size={batch_size}."
        )
    if temperature is None:
        temperature = 1.0 if psi.on_sphere else best_temperature(processes[0], psi, batch_size)
    scale = check_number("temperature", temperature, above=0)
    stack = [own for own in processes for _ in range(seeds)]
    models = [int(state) for state in np.random.SeedSequence(random_state).generate_state(len(stack))]
    chosen = resolve_device(device)
    _check_size(len(stack), processes[0], batch_size, negatives, chosen)
    source = ProcessSource(
        *(stack, models),
        widths=(20 * processes[0].dim,) * 3 if widths is None else widths,
        output=where,
        similarity=psi,
        temperature=scale,
        negatives=negatives,
        count_positive=count_positive,
        alpha=alpha,
        decorrelated=decorrelate,
        homogeneous=homogeneous,
        supervised=supervised,
        start=None if start is None else start.parameters,
        device=chosen,
    )
    _check_start(source, start)
    settings = Settings(steps, batch_size, learning_rate, Constant(0.0), device=str(chosen))
    trained = train_source(source, settings, progress=progress)
    parameters = {name: value.to(chosen) for name, value in trained.parameters.items()}
    parameters = source.absorb(parameters) if decorrelate else parameters
    kind = "mse" if supervised else "infonce"
    return _score(source, parameters, trained.history[kind][..., 0], scale, random_state)


def _score(
    source: ProcessSource, parameters: Mapping[str, Tensor], history: np.ndarray, scale: float, seed: int
) -> Inversion:
    rng = torch.Generator(source.device).manual_seed(seed + 2**32)
    pairs = source.process.sample_pairs((len(source.processes), SAMPLES), rng)
    with torch.no_grad():
        seen = source.observe(pairs[0])
        embedded = [source.embed(parameters, x) for x in (seen, source.observe(pairs[1]))]
        near, positive = embedded
        own = slice(0, PAIRS), slice(PAIRS, 2 * PAIRS)  # references, and other latents as negatives
        terms = source.terms([near[:, own[0]], positive[:, own[0]], near[:, own[1]]])
    truth, found, raw = (tensor.cpu().numpy() for tensor in (pairs[0], embedded[0], seen))
    rows = []
    for k, process in enumerate(source.processes):
        row = {
            "seed": process.seed,
            "r2": held_out_r2(found[k], truth[k]),
            "mcc": mean_correlation_coefficient(found[k], truth[k]),
            "mcc_spearman": mean_correlation_coefficient(found[k], truth[k], "spearman"),
            "identity_r2": held_out_r2(raw[k], truth[k]),
        }
        if not source.supervised:
            row |= {"alignment": float(terms[0][k]), "uniformity": float(terms[1][k])}
        rows.append(row)
    return Inversion(pd.DataFrame(rows), truth, found, history, scale, parameters, source)


def _as_processes(given: Process | Sequence[Process]) -> list[Process]:
    processes = [given] if isinstance(given, Process) else list(given) if isinstance(given, Sequence) else []
    if not processes or not all(isinstance(own, Process) for own in processes):
        raise ValueError(
            f"process={given!r}: expected a generative process, as ascribo.simulate.process makes it, or a list of "
            "them."
        )
    return processes


def _check(psi: Similarity, where: Output, negatives: str | int, batch_size: int, alpha: float) -> None:
    if psi.on_sphere and not isinstance(where, Sphere):
        raise ValueError(
            f"similarity={psi!r} compares directions, and the output is {where!r}: use output='sphere', or a "
            "similarity of distances such as 'squared_l2'."
        )
    few = isinstance(negatives, int) and not isinstance(negatives, bool) and 1 <= negatives <= batch_size
    if not few and negatives not in NEGATIVES:
        raise ValueError(
            f"negatives={negatives!r}: expected one of {list(NEGATIVES)}, or a number of references from 1 to "
            f"batch_size={batch_size}."
        )
    if not 0 < check_number("alpha", alpha) < 1:
        raise ValueError(f"alpha={alpha!r}: expected a weight above 0 and below 1.")


def _check_size(models: int, process: Process, batch_size: int, negatives: str | int, device: torch.device) -> None:
    """Refuse batches of which even the observations of a training step would not fit."""
    rows = 3 if negatives == "independent" else 2
    needed = 4 * models * rows * batch_size * process.channels
    check_memory(needed, device, f"batch_size={batch_size:,}: a batch of {models} models", "a smaller batch_size")


def _check_start(source: ProcessSource, start: Inversion | None) -> None:
    """Refuse encoders to start from that are not of the shape of those to be trained."""
    if start is None:
        return
    given = {name: tuple(value.shape) for name, value in start.parameters.items()}
    wanted = {name: tuple(value.shape) for name, value in source.initial(fresh=True).items()}
    if given != wanted:
        raise ValueError(
            "start: expected as many encoders, of the same kind, widths, latents and output, as are to be trained. "
            f"Its parameters have shapes {given}, and theirs are {wanted}."
        )
