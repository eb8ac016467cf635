"""The scikit-learn face: from a recording and its variables to an embedding and an attribution map."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from ..attribution import AttributionMaps, attribute
from ..attribution.calls import missing_variables
from ..attribution.encoded import seed_weights
from ..attribution.registry import SAMPLES, check_options
from ..data.accept import as_recording, in_kind
from ..data.recording import Recording
from ..data.segments import evenly
from ..spaces.base import dimension_names, reported
from ..spaces.pairs import Pairs
from ..support.compute import one_thread, resolve_device
from ..training.checkpoints import checkpoint_file, discard_checkpoints
from ..training.penalty import Auto, as_schedule
from ..training.settings import Settings
from ..training.train import train
from .checks import check_parameters, check_recording, check_treatment, resolve_spaces
from .fitted import FittedModel
from .fitting import Prepared, finish, make_targets, prepare
from .goodness import Fit, goodness_of_fit
from .parameters import ContrastiveEstimator
from .saving import save

__all__ = ["ContrastiveEmbedding"]


@dataclass(eq=False, repr=False)
class ContrastiveEmbedding(TransformerMixin, ContrastiveEstimator):
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
        Weight λ of ‖J_f‖²: see `ascribo.training.penalty`.
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
        missing), bits_low and bits_high (95%, over blocks of time), held_out (False if the recording was too short
        to hold anything out).
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

    n_jobs: int | None = field(default=None, kw_only=True)

    def fit(self, X, y=None):
        """Fit all seeds to X (time, channel) and y (time, variable), or to a `Recording`."""
        check_parameters(self)
        given = as_recording(X, y)
        spaces = resolve_spaces(self.spaces, given)
        recording = check_recording(self, given, spaces)
        settings = Settings.from_parameters(self)
        prepared = prepare(
            recording,
            spaces,
            encoder=self.encoder,
            hybrid=self.hybrid,
            validation_fraction=self.validation_fraction,
        )
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=self.seeds).tolist()
        with one_thread():
            trained = train(
                prepared.problem,
                seeds,
                settings,
                n_jobs=self.n_jobs,
                progress=self.progress,
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            )
            ((model, fit),) = finish(
                [prepared],
                [trained.parameters],
                [seeds],
                batch_size=settings.batch_size,
                decoder_steps=settings.decoder_steps,
                device=settings.device,
                progress=self.progress,
            )
        if self.checkpoint is not None:  # nothing is left to resume
            discard_checkpoints(checkpoint_file(Path(self.checkpoint), [seed]) for seed in seeds)
        history = history_of(trained.history, [o.space for o in prepared.problem.objectives])
        return self._fitted(given, prepared, model, fit, history)

    def _fitted(self, given: Recording, prepared: Prepared, model: FittedModel, fit: Fit, history: xr.Dataset):
        """Take over what was fitted to a recording, here or elsewhere; `given` has the channels left out, too."""
        self.model_, self.history_ = replace(model, treatment=given.treatment), history
        self.goodness_of_fit_ = fit.table()
        self.goodness_of_fit_["held_out"] = prepared.held_out
        if prepared.held_out:
            self.goodness_of_fit_["left_out"] += list(prepared.problem.pairs.left_out.values())
        if isinstance(as_schedule(self.penalty), Auto) and not all(history.attrs["lambda"]):
            warnings.warn(
                f"penalty='auto' found no λ within steps={self.steps}: the encoders are not regularized. Use more "
                "steps, or a fixed penalty.",
                stacklevel=3,
            )
        self.n_features_in_ = given.X.shape[1]
        self.kept_channels_ = [given.channel_names.index(name) for name in prepared.recording.channel_names]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if given.named_channels:
            self.feature_names_in_ = np.array(given.channel_names, dtype=object)
        return self

    def transform(self, X, seed=None):
        """Embedding of X (time, channel) or of a `Recording`: (time, dim) float32.

        It comes back as what came in: a DataFrame with its index, a DataArray with its time, pynapple as a TsdFrame
        with its time support; an array otherwise. Data from pynapple are first treated like those the model was
        fitted to; anything else is taken as treated.

        seed : one seed's own embedding. None: the mean over seeds, each space aligned to the best seed's first;
            seeds in which a space collapsed do not count for it.
        """
        recording = self._check(X)
        model = self.model_.to(resolve_device(self.device))
        if seed is not None and not (isinstance(seed, int | np.integer) and 0 <= seed < model.seeds):
            raise ValueError(f"seed={seed!r}: the model has seeds 0 to {model.seeds - 1}.")
        with one_thread():
            z = model.embed(recording, None if seed is None else int(seed))
        if _get_output_config("transform", self)["dense"] != "default":  # scikit-learn puts it into what was set
            return z
        spaces = [name for name, space in model.spaces.items() for _ in range(space.dim)]
        return in_kind(z, X, recording, list(self.get_feature_names_out()), spaces)

    def score(self, X, y=None):
        """Bits above chance, log₂ N - InfoNCE, summed over spaces (but nuisances) and averaged over seeds.

        Higher is better; pass held-out data. N is the number of candidates, at most `batch_size`. The embedding is
        taken at its own temperature, so a model that is too sure of itself scores low (`goodness_of_fit_` takes the
        best of five).
        """
        recording = self._check(X, y)
        spaces, model = self.model_.spaces, self.model_.to(resolve_device(self.device))
        resolve_spaces(spaces, recording)
        pairs = Pairs(spaces, recording.variables, recording.epochs)
        targets = make_targets(spaces, recording, model.regressions)
        with one_thread():
            fit = goodness_of_fit(
                *(model.embedder, model.parameters, spaces, model.standardise(recording.X)),
                *(recording.epochs, pairs, targets),
                batch=int(min(self.batch_size, len(recording))),
            )
        return float(fit.bits.mean(0)[[not space.nuisance for space in spaces.values()]].sum())

    def attribute(
        self, X, y=None, *, method="unique_variance", samples=None, aggregate="mean", loss="squared"
    ) -> AttributionMaps:
        """Which channels carry which space.

        Parameters
        ----------
        X : (time, channel) or `Recording`, as a rule the one the model was fitted to.
        y : (time, variable), the variables, if X is not a recording that has them. The unique variance uses them
            where the model's spaces name them. Without them there are scores, but no calls.
        method : "unique_variance" (the best of all, with a test of which channels carry what: `maps.calls()`),
            "generative_gradient" (the decoder's Jacobian), "tangent", the papers' "inverted_neuron_gradient"
            (pseudo-inverse of the encoder's Jacobian), one that they compare with ("neuron_gradient",
            "integrated_gradients", "feature_ablation", "shapley_zeros", "shapley_shuffled", "smoothgrad",
            "deeplift"), or one of your own: see `ascribo.attribution.local_method`.
        samples : number of time steps to aggregate over, evenly spaced, or "all"; None for 20,000. Not for the
            unique variance, which takes all that it can use, at most 100,000.
        aggregate : "mean", "median" or "maximum" over time of the absolute entries; not for the unique variance.
        loss : "squared", or "poisson" for channels that are counts; for the unique variance.
        """
        chosen = check_options(method, samples, aggregate, loss)
        recording = self._check(X, y)
        model = self.model_.to(resolve_device(self.device))
        if chosen.tested and (lacking := missing_variables(model.spaces, recording.variables)):
            warnings.warn(
                f"{lacking}. Spaces that need them have scores but no calls; calls for others are right only if "
                "their variables do not go with those that are missing.",
                stacklevel=2,
            )
        if not seed_weights(model).any():
            raise ValueError(
                f"all spaces ({', '.join(reported(model.spaces))}) have collapsed: their held-out InfoNCE is at "
                "chance, so there is nothing to attribute. See model.goodness_of_fit_."
            )
        index = None
        if "samples" in chosen.takes:
            index = evenly(len(recording), {None: SAMPLES, "all": None}.get(samples, samples))
        with one_thread():
            maps = attribute(
                model, recording, method, index, aggregate=aggregate, loss=loss, progress=self.progress
            )
            maps = maps.with_units(recording.units)
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
        check_is_fitted(self)
        return save(self, folder)

    def get_feature_names_out(self, input_features=None):
        """Names of the embedding dimensions: the space's name and a number."""
        check_is_fitted(self)
        return np.array(dimension_names(self.model_.spaces), dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _check(self, X, y=None) -> Recording:
        """X as a recording of the channels the model was fitted to."""
        check_is_fitted(self)
        fitted_to = self.model_.treatment
        recording = as_recording(X, y, treatment=fitted_to)
        check_treatment(recording, fitted_to)
        text = isinstance(X, pd.DataFrame) and all(isinstance(label, str) for label in X.columns)
        if isinstance(X, np.ndarray) or text or (isinstance(X, pd.DataFrame) and not recording.named_channels):
            validate_data(self, X=X, reset=False, skip_check_array=True)  # type: ignore[arg-type]
        numbered = [str(k) for k in range(self.n_features_in_)]  # columns without labels of their own
        names, fitted = recording.channel_names, list(getattr(self, "feature_names_in_", numbered))
        named = recording.named_channels and hasattr(self, "feature_names_in_")
        if names != fitted and (named or set(names) == set(fitted)):
            raise ValueError(
                f"the channels are {names[:4]}..., the model was fitted to {fitted[:4]}...: "
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


def history_of(curves: dict[str, np.ndarray], objectives: list[str]) -> xr.Dataset:
    """The curves of training as `history_` has them; the last λ of each seed is an attribute."""
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
