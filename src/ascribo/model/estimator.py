"""The estimator of one recording, as scikit-learn has them: fit, transform, score, and attribute."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from ..attribution import AttributionMaps, attribute
from ..attribution.false_discovery_rate import missing_variables
from ..attribution.method_inputs import seed_weights
from ..attribution.method_registry import SAMPLES, check_options
from ..data.containers import in_kind
from ..data.preprocessing import Treatment
from ..data.recording import Recording
from ..data.segments import evenly
from ..spaces.base import dimension_names, reported
from ..spaces.pairs import Pairs
from ..support.compute import one_thread, resolve_device
from ..support.memory import limited
from ..support.progress import say
from ..training.checkpoints import checkpoint_file, one_fit, tidy
from ..training.data_parallel import rank
from ..training.dispatch import train
from ..training.loop import Trained
from ..training.penalty_weight import Auto, as_schedule
from .begun_fit import Begun, begin, settle_seeds
from .fitted import FittedModel
from .fitting import Prepared, finish, make_targets, still_within_epochs
from .goodness_of_fit import Fit, goodness_of_fit
from .history import make_history
from .input_checks import all_text, check_same_channels, check_variables, resolve_spaces
from .map_warnings import warn_about
from .memory_needs import check_attribution, check_score, check_transform, within_memory
from .number_of_seeds import describe_batch, describe_spent, train_seeds
from .parameters import ContrastiveEstimator
from .reporting import Reported
from .saving import save

__all__ = ["ContrastiveEmbedding"]


@dataclass(eq=False, repr=False)
class ContrastiveEmbedding(Reported, TransformerMixin, ContrastiveEstimator):
    """Embed a recording by contrastive learning, and find the channels that carry each part of the embedding.

    An encoder, a small neural network, maps the channels at each time step to a few coordinates: the embedding. It
    is trained so that time steps that belong together lie close to each other, and its dimensions are divided into
    named spaces that each have their own rule of what belongs together.

    Parameters
    ----------
    spaces : dict of names and spaces
        The parts of the embedding: `Follow` and `Discrete` for variables, `Time` for what is left, `Regress` for a
        supervised comparison. None: a space "variables" that follows all of y, one dimension for each variable,
        and a `Time` space "rest" of 3 dimensions; without y only the latter; fewer dimensions where there are not
        enough channels.
    hybrid : "whole" or "separate"
        Whether the loss of a `Time` space compares all dimensions of the embedding, as in Schneider et al. (2025),
        or only those of the space itself.
    seeds : int or "auto"
        Number of models, trained from different initial values and on different batches. "auto": two, and two more
        if these disagree.
    steps : int or "auto"
        Training steps. "auto": until the bits on held-out time have stopped rising, and as many again in which the
        learning rate falls; at most 3,000. `spent_` says what it came to.
    batch_size : int
        Number of references, positives and negatives in a training step. A recording of fewer time steps has
        batches of as many as it has: see `batch_size_`.
    penalty : "auto", a number, or a schedule
        Weight λ of ‖J_f‖², the squared size of the encoder's Jacobian, in the loss. "auto" finds the largest one
        that the contrastive loss does not suffer from; see also `Constant`, `Ramp` and `Auto`.
    encoder : "mlp", "convolution", MLP(...), Convolution(...) or an nn.Module
        The network: of one time step at a time, or of a window around it.
    device : "auto", "cpu", "cuda", ...
        Where to compute. "auto" is a GPU where there is one.
    random_state : int, RandomState or None
        Of initial values and batches. The same integer gives the same model.
    learning_rate : float
    exact_penalty : bool
        Compute ‖J_f‖² exactly rather than estimate it by one random projection in each step.
    early_stop : float or None
        Stop when loss and penalty move by less than this share of their total change. None: never.
    validation_fraction : float
        Share of the recording, in up to ten blocks of time, kept from training to measure the goodness of fit.
        0: measure it on the training data, where it is too good.
    drop_constant : bool
        Leave out channels that never change, instead of refusing them.
    n_jobs : int or None
        Processes that the seeds are spread over on a CPU, each with one thread, for fitting; for the unique
        variance as many threads. None: one for each core where there is work for more than some seconds. -1: one
        for each core.
    memory : str, int or None
        What a call may take at most, such as "2GB", in addition to what the process has already. `fit`,
        `transform`, `score`, `attribute` and `report` keep to it, in one process, and refuse what does not fit,
        with the least that would do. Results do not depend on it. None: no limit.
    checkpoint : path or None
        A folder in which the state is kept while fitting. A fit that was interrupted (Ctrl-C, or killed), started
        again with the same folder, goes on there and ends with the same bits.
    progress : bool
        Show a progress bar for anything that takes over two seconds.

    Attributes
    ----------
    goodness_of_fit_ : DataFrame
        One row for each space: space; bits above chance; infonce, the contrastive loss on held-out time, in nats;
        chance, the loss of an embedding that tells nothing; left_out, the time steps at which its variables are
        missing; held_out, False if the recording was too short to hold anything out; bits_low and bits_high, a 95%
        interval over blocks of time; collapsed, True if the space is at chance in all seeds.
    history_ : Dataset
        Curves of the training: infonce (step, seed, space), mse (step, seed, regression), penalty and lambda
        (step, seed), and with steps="auto" held_out, the bits on held-out time that were watched (step, seed). The
        λ that each seed ended with are `history_.attrs["lambda"]`.
    spent_ : dict
        What was spent and why it was not more: seeds and steps of each, and for both the reason in words.
    batch_size_ : int
        The batch size that was used: `batch_size`, or the number of time steps if that is less.
    treatment : Treatment or None
        How the recording was made from what was measured.
    channel_names_ : list of str, or None
        Names of the channels, where the recording had any. Other recordings must have the same in the same order.
    kept_channels_ : list of int
        Positions of the channels in use: all, but for constant ones that were dropped.
    model_ : FittedModel
        The encoders and decoders themselves.

    Examples
    --------
    >>> import tempfile
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=2, hidden=2, steps=2000)
    >>> spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    >>> model = asc.ContrastiveEmbedding(spaces, seeds=1, steps=30, random_state=0)
    >>> model.fit(data).transform(data).shape
    (2000, 4)
    >>> model.get_feature_names_out().tolist(), model.embed_seeds(data).shape
    (['position0', 'position1', 'rest0', 'rest1'], (1, 2000, 4))
    >>> maps = model.attribute(data, method="generative_gradient")  # the default also tests: `maps.calls()`
    >>> maps.by_space.shape, model.score(data) > 0, model.treatment
    ((50, 2), True, None)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page, run = model.report(data, f"{folder}/report.html", maps=maps), model.save(f"{folder}/run")
    >>> page.name, run.name  # `asc.load(run)` reads it
    ('report.html', 'run')
    """

    n_jobs: int | None = field(default=None, kw_only=True)
    memory: str | int | None = field(default=None, kw_only=True)

    @within_memory
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to channels and variables.

        X : (time, channel) array, DataFrame, DataArray or pynapple object; or a `Recording`, with all it holds.
        y : (time, variable) DataFrame, dict or array of the variables, if X is not a recording that has them.
        """
        begun = begin(self, X, y)
        prepared, settings, every = begun.prepared, begun.settings, begun.seeds
        folder = None if self.checkpoint is None else Path(self.checkpoint)
        training = partial(
            train,
            prepared.problem,
            settings=settings,
            n_jobs=1 if limited() else self.n_jobs,
            progress=self.progress,
            checkpoint=folder,
        )
        with one_thread(), one_fit(folder):
            key = f"{len(every)} seeds"
            every = settle_seeds(every, folder, key, drawn=not isinstance(self.random_state, int | np.integer))
            seeds, trained, why = train_seeds(training, every, prepared, until_agreed=self.seeds == "auto")
            ((model, fit),) = finish(
                [prepared],
                [trained.parameters],
                [seeds],
                batch_size=settings.batch_size,
                decoder_steps=settings.decoder_steps,
                until_flat=settings.watched,
                device=settings.device,
                progress=self.progress,
            )
            if folder is not None and rank() == 0:  # nothing is left to resume
                tidy(folder, [checkpoint_file(folder, [seed]) for seed in every], [key])
        self._trained(begun, trained, model, fit, why)
        batch = describe_batch(self.batch_size, self.batch_size_)
        for line in describe_spent(self.spent_) + ([f"batches of {batch}"] if batch else []):
            say(line, bool(self.progress))
        if isinstance(X, pd.DataFrame) and begun.given.named_channels and not all_text(X.columns):
            del self.feature_names_in_  # scikit-learn knows names that are text; `channel_names_` has the others
        return self

    def _trained(self, begun: Begun, trained: Trained, model: FittedModel, fit: Fit, why_seeds: str) -> Self:
        """Take over what came of a fit that was begun. why_seeds : why there are no more of them, in words."""
        history = make_history(trained.history, [o.space for o in begun.prepared.problem.objectives])
        self._fitted(begun.given, begun.prepared, model, fit, history, begun.settings.batch_size)
        steps = np.isfinite(trained.history["lambda"]).sum(0).tolist()
        self.spent_ = {
            "seeds": len(steps),
            "why_seeds": why_seeds,
            "steps": steps,
            "why_steps": list(trained.ended),
        }
        return self

    def _fitted(
        self,
        given: Recording,
        prepared: Prepared,
        model: FittedModel,
        fit: Fit,
        history: xr.Dataset,
        batch_size: int,
    ) -> Self:
        """Take over what was fitted. given : the recording as it came, with the channels that were left out."""
        self.model_ = replace(model, treatment=given.treatment)
        self.history_, self.batch_size_ = history, batch_size
        self.goodness_of_fit_ = fit.table()
        self.goodness_of_fit_.insert(5, "held_out", prepared.held_out)
        if prepared.held_out:
            self.goodness_of_fit_["left_out"] += list(prepared.problem.pairs.left_out.values())
        if isinstance(as_schedule(self.penalty), Auto) and not all(history.attrs["lambda"]):
            warnings.warn(
                f"penalty='auto' found no λ in {history.sizes['step']} steps: the encoders are not regularized. "
                "Use more steps, or a fixed penalty.",
                stacklevel=5,
            )
        self.n_features_in_ = given.X.shape[1]
        self.channel_names_ = list(given.channel_names) if given.named_channels else None
        self.kept_channels_ = [given.channel_names.index(name) for name in prepared.recording.channel_names]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if given.named_channels:
            self.feature_names_in_ = np.array(given.channel_names, dtype=object)
        return self

    @property
    def treatment(self) -> Treatment | None:
        """How the recording was made from what was measured: bins, smoothing, scaling. None if that is not known.

        Data that the model has not seen are to be treated alike: `recording.treat(model.treatment)`.
        """
        check_is_fitted(self)
        return self.model_.treatment

    @within_memory
    def transform(self, X: Any, seed: int | None = None) -> Any:
        """Embedding of X (time, channel) or of a `Recording`: (time, dim) float32.

        It comes back as what came in: a DataFrame with its index, a DataArray with its time, pynapple as a TsdFrame
        with its time support; an array otherwise. Data from pynapple are first treated like those that the model
        was fitted to; anything else is taken to be treated already.

        seed : the number of a seed, for its own embedding. None: the mean over seeds, after each space has been
            aligned to that of the best seed; seeds in which a space collapsed do not count for it.
        """
        recording = check_same_channels(self, X)
        model = self.model_.to(resolve_device(self.device))
        if seed is not None and not (isinstance(seed, int | np.integer) and 0 <= seed < model.seeds):
            raise ValueError(f"seed={seed!r}: the model has seeds 0 to {model.seeds - 1}.")
        check_transform(recording, model)
        with one_thread():
            z = model.embed(recording, None if seed is None else int(seed))
        if _get_output_config("transform", self)["dense"] != "default":  # scikit-learn puts it into what was set
            return z
        spaces = [name for name, space in model.spaces.items() for _ in range(space.dim)]
        return in_kind(z, X, recording, list(self.get_feature_names_out()), spaces)

    @within_memory
    def embed_seeds(self, X: Any, rows: np.ndarray | None = None) -> np.ndarray:
        """Embedding of each seed on its own, in its own coordinates: (seed, time, dim) float32.

        What `transform(X, seed=k)` gives for every k, in one pass, to compare seeds with each other.

        rows : time steps to embed, as integers; None for all.
        """
        recording = check_same_channels(self, X)
        model = self.model_.to(resolve_device(self.device))
        rows = np.arange(len(recording)) if rows is None else np.asarray(rows)
        check_transform(recording, model, len(rows) * model.seeds)
        with one_thread():
            z = model.embedder.embed(model.parameters, model.standardise(recording.X), recording.epochs, rows)
        return z.cpu().numpy()

    @within_memory
    def score(self, X: Any, y: Any = None) -> float:
        """Bits above chance, summed over the spaces that are no nuisances and averaged over seeds.

        Higher is better; pass data that the model was not fitted to. A space has log₂ N - InfoNCE bits with N
        candidates, at most `batch_size`. The embedding is taken at its own temperature, so an embedding that is too
        sure of itself scores low (`goodness_of_fit_` takes the best of five temperatures).
        """
        recording = check_same_channels(self, X, y)
        spaces, model = self.model_.spaces, self.model_.to(resolve_device(self.device))
        resolve_spaces(spaces, recording)
        check_score(recording, model)
        pairs = Pairs(spaces, recording.variables, recording.epochs)
        targets = make_targets(spaces, recording, model.regressions)
        with one_thread():
            fit = goodness_of_fit(
                *(model.embedder, model.parameters, spaces, model.standardise(recording.X)),
                *(recording.epochs, pairs, targets),
                batch=int(min(self.batch_size, len(recording))),
                between=still_within_epochs(recording, spaces),
            )
        return float(fit.bits.mean(0)[[not space.nuisance for space in spaces.values()]].sum())

    @within_memory
    def attribute(
        self,
        X: Any,
        y: Any = None,
        *,
        method: str = "unique_variance",
        samples: int | Literal["all"] | None = None,
        aggregate: str = "mean",
        loss: str = "squared",
    ) -> AttributionMaps:
        """Which channels carry which space.

        Parameters
        ----------
        X : (time, channel) or `Recording`, as a rule the one the model was fitted to.
        y : (time, variable), the variables, if X is not a recording that has them. The unique variance uses them
            where the model's spaces name them. If any of them is missing there are scores, but no calls.
        method : "unique_variance" (the default, with a test of which channels carry what: `maps.calls()`),
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
        recording = check_same_channels(self, X, y)
        model = self.model_.to(resolve_device(self.device))
        if chosen.tested and (lacking := missing_variables(model.spaces, recording.variables)):
            warnings.warn(
                f"{lacking}. Until then there are scores but no calls, of any space: what channels owe to a "
                "missing variable is found in others that go with it.",
                stacklevel=3,
            )
        known = {
            n: s for n, s in model.spaces.items() if s.variables and set(s.variables) <= set(recording.variables)
        }
        if chosen.tested:
            check_variables(known, recording)
        check_attribution(recording, model, method, tested=chosen.tested)
        if not seed_weights(model).any() and not (chosen.tested and known):
            raise ValueError(
                f"all spaces ({', '.join(reported(model.spaces))}) have collapsed: their held-out InfoNCE is at "
                "chance, so there is nothing to attribute. See model.goodness_of_fit_."
            )
        index = None
        if "samples" in chosen.takes:
            index = evenly(len(recording), {None: SAMPLES, "all": None}.get(samples, samples))
        with one_thread():
            maps = attribute(
                *(model, recording, method, index),
                aggregate=aggregate,
                loss=loss,
                until_flat=self.steps == "auto",
                n_jobs=1 if limited() else self.n_jobs,
                progress=self.progress,
            )
            maps = maps.with_units(recording.units)
        warn_about(maps, getattr(self, "spent_", None))
        return maps

    def save(self, folder: str | Path) -> Path:
        """Write the fitted model to a folder; `ascribo.load` reads it.

        What could not be loaded again is refused: register classes of your own with `ascribo.storable`. Of an
        encoder that is an nn.Module only the weights are kept, and a random_state that is not an integer comes back
        as None. A model that was in the folder is replaced; other files there are left alone.
        """
        check_is_fitted(self)
        return save(self, folder)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the embedding dimensions: the space's name and a number."""
        check_is_fitted(self)
        return np.array(dimension_names(self.model_.spaces), dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
