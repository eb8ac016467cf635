"""The scikit-learn face: from a recording and its variables to an embedding and an attribution map."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import xarray as xr
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .alignment import align
from .attribution import METHODS, AttributionMaps, decoder_embedding, decoder_inputs, fit_decoder
from .checks import check_parameters, check_recording, resolve_spaces
from .embedder import Embedder
from .encoders import build_encoder, window_of
from .evidence import goodness_of_fit
from .model import FittedModel
from .objective import objectives_of
from .pairs import Pairs, hold_out, regression_statistics, regression_targets
from .penalty import Auto, schedule_of
from .recording import Recording
from .spaces import Regress, layout
from .training import Problem, Settings, one_thread, train_in_processes

__all__ = ["ContrastiveEmbedding"]

DECODED = 100_000
"""Most time steps a decoder is fitted to."""


class ContrastiveEmbedding(TransformerMixin, BaseEstimator):
    """Embed a recording by regularized contrastive learning and attribute its spaces to its channels.

    Parameters
    ----------
    spaces : dict name -> space
        Blocks of the embedding and what drives them: `Follow`, `Time`, `Discrete`, `Regress`. None: a space
        "variables" that follows all of y, one dimension each, beside a `Time` space "rest" of 3 dimensions;
        without y only the latter.
    hybrid : "whole" or "separate"
        Whether a time objective sees the dimensions of all spaces (the papers' choice) or only its own.
    seeds : int
        Number of models, trained together from different initial values and batches.
    steps, batch_size : int
        Training steps, and references, positives and negatives in each.
    penalty : "auto", a number, or a schedule
        Weight λ of ‖J_f‖²: see `ascribo.penalty`.
    encoder : "mlp", "convolution", MLP(...), Convolution(...) or an nn.Module
    device : "auto", "cpu", "cuda", ...
    random_state : int, RandomState or None
    learning_rate : float
    exact_penalty : bool
        Compute ‖J_f‖² exactly rather than by one random projection a step.
    early_stop : float or None
        Stop when loss and penalty move by less than this share of their total change.
    validation_fraction : float
        Share of the recording, in ten blocks of time, kept from training to measure the goodness of fit.
        0: measure it on the training data.
    drop_constant : bool
        Leave out channels that never change, instead of refusing them.
    n_jobs : int or None
        Processes over which the seeds are spread on a CPU (None: 1). Each uses one thread.
    checkpoint : path or None
        A folder in which the state is kept while fitting; a killed fit, started again, goes on from there.
    progress : bool
        Show a progress bar for anything that takes over two seconds.

    Attributes
    ----------
    goodness_of_fit_ : DataFrame
        One row per space: space, infonce, chance, bits, collapsed, left_out (time steps whose variables are
        missing), held_out (False if the recording was too short to hold anything out).
    history_ : Dataset
        infonce (step, seed, space), penalty and lambda (step, seed); the λ found, one per seed, is
        `history_.attrs["lambda"]`.
    kept_channels_ : list of int
        Positions of the channels in use; fewer than X has only with drop_constant=True.
    model_ : FittedModel
        The encoders and decoders themselves.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=2, hidden=2, steps=2000)
    >>> spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    >>> model = asc.ContrastiveEmbedding(spaces, seeds=1, steps=30, random_state=0)
    >>> model.fit(data).transform(data).shape
    (2000, 4)
    """

    def __init__(
        self,
        spaces=None,
        *,
        hybrid="whole",
        seeds=4,
        steps=3000,
        batch_size=512,
        penalty="auto",
        encoder="mlp",
        device="auto",
        random_state=None,
        learning_rate=1e-3,
        exact_penalty=False,
        early_stop=1e-3,
        validation_fraction=0.1,
        drop_constant=False,
        n_jobs=None,
        checkpoint=None,
        progress=True,
    ):
        self.spaces = spaces
        self.hybrid = hybrid
        self.seeds = seeds
        self.steps = steps
        self.batch_size = batch_size
        self.penalty = penalty
        self.encoder = encoder
        self.device = device
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.exact_penalty = exact_penalty
        self.early_stop = early_stop
        self.validation_fraction = validation_fraction
        self.drop_constant = drop_constant
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, X, y=None):
        """Fit all seeds to X (time, channel) and y (time, variable), or to a `Recording`."""
        check_parameters(self)
        given = Recording.of(X, y)
        spaces = resolve_spaces(self.spaces, given)
        recording = check_recording(self, given, spaces)
        device = _device(self.device)
        module = build_encoder(self.encoder, recording.X.shape[1], sum(s.dim for s in spaces.values()))
        objectives = objectives_of(spaces, self.hybrid)
        pairs, training, judged, testing = _split(recording, spaces, module, self.validation_fraction)
        statistics = {
            name: regression_statistics(space, recording.variables, np.flatnonzero(training >= 0))
            for name, space in spaces.items()
            if isinstance(space, Regress)
        }
        targets = _targets(spaces, recording.variables, statistics)
        settings = Settings(
            steps=int(self.steps),
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            schedule=schedule_of(self.penalty),
            exact_penalty=bool(self.exact_penalty),
            early_stop=self.early_stop,
            device=str(device),
        )
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=self.seeds).tolist()
        mean, scale = recording.X.mean(0, dtype=np.float64), recording.X.std(0, dtype=np.float64)
        standard = torch.from_numpy(recording.X).sub(torch.from_numpy(mean).float())
        standard /= torch.from_numpy(scale).float()
        with one_thread():
            trained = train_in_processes(
                Problem(module, spaces, objectives, standard, training, pairs, targets),
                seeds,
                settings,
                n_jobs=1 if self.n_jobs is None or device.type != "cpu" else self.n_jobs,
                progress=self.progress,
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            )
            standard = standard.to(device)
            embedder = Embedder(module, spaces)
            parameters = {name: value.to(device) for name, value in trained.parameters.items()}
            fit = goodness_of_fit(
                *(embedder, parameters, spaces, standard, testing, judged, targets),
                batch=min(int(self.batch_size), int((testing >= 0).sum())),
                seed=seeds[0],
            )
            # The way back from the embedding to the channels, from each step's neighbours in time.
            steps, neighbours = decoder_inputs(recording.epochs, DECODED, np.random.default_rng(seeds[0]))
            embed = partial(embedder.embed, parameters, standard, recording.epochs)
            z = decoder_embedding(embed(steps), (embed(neighbours[:, 0]) + embed(neighbours[:, 1])) / 2, spaces)
            alignment = align(z.cpu(), layout(spaces), reference=int(fit.bits.sum(1).argmax()))
            decoder = fit_decoder(
                alignment.to(device).to_aligned(z),
                standard[torch.from_numpy(steps).to(device)],
                seeds,
                steps=min(1500, max(50, int(self.steps))),
                progress=self.progress,
            )
        self.model_ = FittedModel(
            spaces=spaces,
            module=module,
            channels=tuple(recording.channel_names),
            mean=mean,
            scale=scale,
            parameters=trained.parameters,
            decoder=decoder,
            alignment=alignment,
            counted=~fit.collapsed,
            regressions=statistics,
        )
        if self.checkpoint is not None:  # nothing is left to resume
            for file in Path(self.checkpoint).glob("seeds-*.safetensors"):
                file.unlink()
        self.goodness_of_fit_ = fit.table()
        self.goodness_of_fit_["held_out"] = judged is not pairs
        if judged is not pairs:
            self.goodness_of_fit_["left_out"] += [pairs.left_out[name] for name in spaces]
        self.history_ = _history(trained.history, [o.space for o in objectives])
        if isinstance(settings.schedule, Auto) and not all(self.history_.attrs["lambda"]):
            warnings.warn(
                f"penalty='auto' found no λ within steps={self.steps}: the encoders are not regularized. Use more "
                "steps, or a fixed penalty.",
                stacklevel=2,
            )
        self.n_features_in_ = given.X.shape[1]
        self.kept_channels_ = [given.channel_names.index(name) for name in recording.channel_names]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if given.named_channels:
            self.feature_names_in_ = np.array(given.channel_names, dtype=object)
        return self

    def transform(self, X, seed=None):
        """Embedding of X (time, channel) or of a `Recording`: (time, dim) float32.

        seed : one seed's own embedding. None: the mean over seeds, each space aligned to the best seed's first;
            seeds in which a space collapsed do not count for it.
        """
        recording = self._check(X)
        with one_thread():
            model = self.model_.to(_device(self.device))
            z = model.embedder.embed(model.parameters, model.standardise(recording.X), recording.epochs)
        if seed is None:
            return model.consensus(z).cpu().numpy()
        if not isinstance(seed, int | np.integer) or not 0 <= seed < len(z):
            raise ValueError(f"seed={seed!r}: the model has seeds 0 to {len(z) - 1}.")
        return z[seed].cpu().numpy()

    def score(self, X, y=None):
        """Bits above chance, log₂ N - InfoNCE, summed over spaces and averaged over seeds; higher is better.

        Pass held-out data. N is the number of candidates, at most `batch_size`.
        """
        recording = self._check(X, y)
        spaces, model = self.model_.spaces, self.model_.to(_device(self.device))
        resolve_spaces(spaces, recording)
        pairs = Pairs(spaces, recording.variables, recording.epochs)
        targets = _targets(spaces, recording.variables, model.regressions)
        with one_thread():
            fit = goodness_of_fit(
                *(model.embedder, model.parameters, spaces, model.standardise(recording.X)),
                *(recording.epochs, pairs, targets),
                batch=int(min(self.batch_size, len(recording))),
            )
        return float(fit.bits.mean(0).sum())

    def attribute(self, X, method="generative_gradient", samples=20_000) -> AttributionMaps:
        """Which channels carry which space.

        Parameters
        ----------
        X : (time, channel) or `Recording`, as a rule the one the model was fitted to.
        method : "generative_gradient" (the decoder's Jacobian; the best of the three), or the papers'
            "inverted_neuron_gradient" (pseudo-inverse of the encoder's Jacobian) and "neuron_gradient".
        samples : average over this many time steps, evenly spaced; None for all.
        """
        if method not in METHODS:
            raise ValueError(f"method={method!r}: expected one of {list(METHODS)}.")
        if samples is not None and (not isinstance(samples, int | np.integer) or samples < 1):
            raise ValueError(f"samples={samples!r}: expected an integer of at least 1, or None for all.")
        recording = self._check(X)
        steps = np.arange(len(recording))
        if samples is not None and samples < len(steps):
            steps = np.linspace(0, len(steps) - 1, int(samples)).astype(np.int64)
        model = self.model_.to(_device(self.device))
        if not model.counted.any():
            raise ValueError(
                f"all spaces ({', '.join(model.spaces)}) have collapsed: their held-out InfoNCE is at chance, so "
                "there is nothing to attribute. See model.goodness_of_fit_."
            )
        with one_thread():
            maps = model.attribute(recording, method, steps)
        for name, why in maps.refused.items():
            warnings.warn(f"space {name!r} has no map: {why}", stacklevel=2)
        if maps.rank_deficient > 0.5:
            warnings.warn(
                f"{method}: {maps.rank_deficient:.0%} of the samples were left out of the map: their Jacobian has "
                "no inverse, because an output is at its limit or the recording has fewer dimensions. "
                "method='generative_gradient' uses all samples.",
                stacklevel=2,
            )
        return maps

    def save(self, folder):
        """Write the fitted model to a folder; `ascribo.load` reads it."""
        from .saving import save

        check_is_fitted(self)
        return save(self, folder)

    def get_feature_names_out(self, input_features=None):
        """Names of the embedding dimensions: the space's name and a number."""
        check_is_fitted(self)
        names = [f"{name}{k}" for name, space in self.model_.spaces.items() for k in range(space.dim)]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _check(self, X, y=None) -> Recording:
        """X as a recording of the channels the model was fitted to."""
        check_is_fitted(self)
        recording = Recording.of(X, y)
        if isinstance(X, pd.DataFrame | np.ndarray):  # names in another order, or missing
            validate_data(self, X=X, reset=False, skip_check_array=True)  # type: ignore[arg-type]
        elif recording.named_channels and hasattr(self, "feature_names_in_"):
            fitted = list(self.feature_names_in_)
            if recording.channel_names != fitted:
                raise ValueError(
                    f"the channels are {recording.channel_names[:4]}..., the model was fitted to {fitted[:4]}...: "
                    "pass the same channels in the same order (recording.take_channels does both)."
                )
        if recording.X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {recording.X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        if len(self.kept_channels_) < self.n_features_in_:
            recording = recording.take_channels([recording.channel_names[k] for k in self.kept_channels_])
        return recording


def _split(recording: Recording, spaces, module, fraction: float):
    """Pairs and segments to train on, and to judge on; the same ones twice if nothing can be held out."""
    epochs, variables = recording.epochs, recording.variables
    if fraction > 0:
        reach = max(max(getattr(s, "offsets", (getattr(s, "offset", 1),))) for s in spaces.values())
        training, testing = hold_out(epochs, fraction, least=max(20, 4 * reach, 2 * window_of(module)))
        try:
            return Pairs(spaces, variables, training), training, Pairs(spaces, variables, testing), testing
        except ValueError as error:
            warnings.warn(
                f"nothing could be held out ({error}): the goodness of fit is measured on the training data. Use a "
                "longer recording or a larger validation_fraction.",
                stacklevel=3,
            )
    pairs = Pairs(spaces, variables, epochs)
    return pairs, epochs, pairs, epochs


def _targets(spaces, variables: pd.DataFrame, statistics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: regression_targets(spaces[name], variables, value) for name, value in statistics.items()}


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name!r} cannot be used here ({error}): use 'auto' or 'cpu'.") from error
    return device


def _history(curves: dict[str, np.ndarray], objectives: list[str]) -> xr.Dataset:
    weights = curves["lambda"]
    last = [column[np.isfinite(column)][-1] for column in weights.T]
    return xr.Dataset(
        {
            "infonce": (("step", "seed", "space"), curves["infonce"]),
            "mse": (("step", "seed", "regression"), curves["mse"]),
            "penalty": (("step", "seed"), curves["penalty"]),
            "lambda": (("step", "seed"), weights),
        },
        coords={"space": objectives},
        attrs={"lambda": [float(value) for value in last]},
    )
