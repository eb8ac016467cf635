"""The estimator of several recordings: an encoder for each session, one embedding for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...attribution.maps import AttributionMaps
from ...data.recording import Recording
from ...spaces.base import Space, layout
from ...support.compute import one_thread
from ...support.names import suggest
from ...support.progress import say
from ...training.checkpoints import one_fit, remember, tidy
from ...training.settings import MOST_SEEDS, Settings
from ..estimator import ContrastiveEmbedding
from ..fitting import Prepared, prepare
from ..history import make_history
from ..input_checks import check_parameters, check_recording, resolve_spaces
from ..memory_needs import check_session_embeddings, check_session_fit, within_memory
from ..number_of_seeds import describe_batch
from ..parameters import ContrastiveEstimator
from ..saving import save_sessions
from .fitting import as_member, fit_sessions, frozen_member, with_labels, with_targets
from .kept_time_steps import Landmarks, session_consistency
from .session_checks import as_recordings, check_overlap, joint_statistics, own_spaces, shared_spaces
from .session_pairs import SessionPairs, joint_measures

__all__ = ["SharedEmbedding"]


@dataclass(eq=False, repr=False)
class SharedEmbedding(ContrastiveEstimator):
    """Embed several recordings with different channels into one space, and find the channels that carry it.

    A session is one recording, of one animal or of another, and has an encoder of its own. What the sessions share
    are variables: the positive of a time step may lie in any session, where the variables are as they should be. So
    equal values end up at equal places, and the coordinates of `Follow`, `Discrete` and `Regress` spaces mean the
    same in all sessions. A `Time` space is learned by each session on its own; its coordinates cannot be compared.

    Parameters
    ----------
    spaces : dict of names and spaces
        The parts of the embedding. A session that has not all variables of a space does without that space. None: a
        space "variables" that follows the variables that all sessions have, and a `Time` space "rest" of 3
        dimensions.
    hybrid, seeds, steps, batch_size, penalty, encoder, device, random_state, learning_rate, exact_penalty,
    early_stop, validation_fraction, drop_constant, checkpoint, progress :
        As of `ContrastiveEmbedding`, but that seeds="auto" are four, and steps="auto" watches the held-out bits of
        every session by itself. `batch_size` is the number of references in each session; none has more than the
        shortest session has time steps.

    memory : str, int or None
        As of `ContrastiveEmbedding`, for `fit`, `add_session`, `transform`, `attribute` and `consistency`. All
        sessions and seeds are trained together, so a fit needs more than that of one session.

    Attributes
    ----------
    sessions_ : dict of names and ContrastiveEmbedding
        Each session's part, a fitted estimator of its own: for figures, tests and everything that takes one.
    goodness_of_fit_ : DataFrame
        One row for each session and space, as of `ContrastiveEmbedding`: pairs within the session, on held-out
        time.
    overlap_ : DataFrame
        space, session, other, share: the share of a session's time steps that have a counterpart in another one.
        Pairs without a counterpart do not count in training.
    history_ : Dataset
        infonce (session, step, seed, space), penalty and lambda (session, step, seed).

    Examples
    --------
    >>> import tempfile
    >>> import ascribo as asc
    >>> recordings = {
    ...     "rat1": asc.simulate.box(seed=1, observed=1, hidden=1, channels=(6, 6), steps=1000),
    ...     "rat2": asc.simulate.box(seed=2, observed=1, hidden=1, channels=(4, 5), steps=800),
    ... }
    >>> spaces = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    >>> shared = asc.SharedEmbedding(spaces, seeds=1, steps=20, batch_size=64, penalty=0.0, random_state=0)
    >>> z = shared.fit(recordings).transform(recordings)
    >>> z["rat1"].shape, z["rat2"].shape
    ((1000, 2), (800, 2))
    >>> list(shared.consistency().columns)
    ['space', 'source', 'target', 'r2', 'r2_unaligned', 'bins']
    >>> rat3 = asc.simulate.box(seed=3, observed=1, hidden=1, channels=(3, 4), steps=600)
    >>> list(shared.add_session("rat3", rat3).goodness_of_fit_["session"].unique())
    ['rat1', 'rat2', 'rat3']
    >>> maps = shared.attribute(rat3, "rat3", method="generative_gradient")
    >>> maps.by_space.shape, shared.history_.sizes["session"]
    ((7, 2), 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     list(asc.load(shared.save(folder)).sessions_)
    ['rat1', 'rat2', 'rat3']
    """

    memory: str | int | None = field(default=None, kw_only=True)

    @within_memory
    def fit(self, recordings: Mapping[str, Any], y: Mapping[str, Any] | None = None) -> Self:
        """Fit all sessions.

        recordings : dict of session names and recordings, or arrays of channels. y : dict of session names and
        variables, if the recordings do not have them.
        """
        check_parameters(self)
        given = as_recordings(recordings, y)
        if len(given) < 2:
            raise ValueError("one session has nothing to share its space with: use ContrastiveEmbedding.")
        spaces = shared_spaces(self.spaces, given)
        self._check_memory(given, spaces)
        prepared = {name: self._prepare(name, recording, spaces) for name, recording in given.items()}
        statistics = joint_statistics(spaces, list(prepared.values()))
        prepared = {name: with_targets(part, statistics) for name, part in prepared.items()}
        measures = joint_measures(spaces, [recording.variables for recording in given.values()])
        pairs = SessionPairs(spaces, [as_member(part) for part in prepared.values()], measures)
        overlap = check_overlap(pairs, list(given), list(given))
        most = MOST_SEEDS if self.seeds == "auto" else self.seeds
        self.seeds_: list[int] = (
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=most).tolist()
        )
        self.spaces_, self.measures_, self.overlap_ = spaces, measures, overlap
        self.sessions_: dict[str, ContrastiveEmbedding] = {}
        self.landmarks_: dict[str, Landmarks] = {}
        self._train(given, prepared, pairs)
        return self

    @within_memory
    def add_session(self, name: str, recording: Any, y: Any = None, *, steps: int | None = None) -> Self:
        """Fit one more session into the space. All others stay as they are, to the last bit.

        The new encoders are trained against what the model has kept of the other sessions (`landmarks_`, up to
        20,000 time steps of each), so the other recordings are not needed.

        name : of the new session. recording, y : as for `ContrastiveEmbedding.fit`.
        steps : training steps; None: those of the model.
        """
        check_is_fitted(self)
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1):
            raise ValueError(
                f"steps={steps!r}: expected an integer of at least 1, or None for the model's {self.steps}."
            )
        if name in self.sessions_:
            raise ValueError(f"there is a session {name!r} already: choose another name.")
        given = as_recordings({name: recording}, None if y is None else {name: y})
        models = {other: part.model_ for other, part in self.sessions_.items()}
        spaces = shared_spaces(self.spaces_, given, {other: model.spaces for other, model in models.items()})
        self._check_memory(given, spaces)
        statistics = {n: value for model in models.values() for n, value in model.regressions.items()}
        prepared = {name: with_targets(self._prepare(name, given[name], spaces), statistics)}
        measures = with_labels(self.measures_, prepared[name])
        members = [as_member(prepared[name])]
        members += [frozen_member(model, self.landmarks_[other]) for other, model in models.items()]
        pairs = SessionPairs(spaces, members, measures)
        overlap = check_overlap(pairs, [name, *models], [name])
        self._train(given, prepared, pairs, None if steps is None else int(steps))
        self.measures_, self.overlap_ = measures, pd.concat([self.overlap_, overlap], ignore_index=True)
        return self

    @within_memory
    def transform(self, recordings: Any, session: str | None = None, seed: int | None = None) -> Any:
        """Embedding in the coordinates that all sessions share: (time, dim) float32.

        recordings : a recording (or channels) of the session `session`, or a dict of them; then a dict comes back.
        seed : one seed's own embedding. None: the mean over seeds, aligned to the same seed in all sessions.

        The dimensions of spaces that a session does not have are NaN.
        """
        named, single = self._named(recordings, session)
        check_session_embeddings(sum(map(len, named.values())), sum(s.dim for s in self.spaces_.values()))
        out = {}
        for name, recording in named.items():
            z, own = self.sessions_[name].transform(recording, seed=seed), self.sessions_[name].model_.spaces
            if len(own) < len(self.spaces_):
                values = np.asarray(z)
                z = np.full((len(values), sum(s.dim for s in self.spaces_.values())), np.nan, np.float32)
                whole, here = layout(self.spaces_), layout(own)
                for space in own:
                    z[:, whole[space]] = values[:, here[space]]
            out[name] = z
        return out[session] if single else out

    @overload
    def attribute(
        self,
        recordings: Mapping[str, Any],
        session: None = None,
        y: Mapping[str, Any] | None = None,
        *,
        method: str = ...,
        samples: int | Literal["all"] | None = ...,
        aggregate: str = ...,
        loss: str = ...,
    ) -> dict[str, AttributionMaps]: ...

    @overload
    def attribute(
        self,
        recordings: Any,
        session: str,
        y: Any = None,
        *,
        method: str = ...,
        samples: int | Literal["all"] | None = ...,
        aggregate: str = ...,
        loss: str = ...,
    ) -> AttributionMaps: ...

    @within_memory
    def attribute(
        self,
        recordings: Any,
        session: str | None = None,
        y: Any = None,
        *,
        method: str = "unique_variance",
        samples: int | Literal["all"] | None = None,
        aggregate: str = "mean",
        loss: str = "squared",
    ) -> AttributionMaps | dict[str, AttributionMaps]:
        """Which channels carry which space: the maps of a session, or of a dict of recordings a dict of maps.

        recordings, session : as of `transform`. y : variables of the session, or a dict of them, where recordings
        are arrays. The other parameters are those of `ContrastiveEmbedding.attribute`.
        """
        named, single = self._named(recordings, session)
        own = {session: y} if single else dict(y or {})
        if strange := [name for name in own if name not in named]:
            raise ValueError(f"y has variables of {strange[0]!r}, of which there is no recording.")
        options = {"method": method, "samples": samples, "aggregate": aggregate, "loss": loss}
        out = {
            name: self.sessions_[name].attribute(recording, own.get(name), **options)
            for name, recording in named.items()
        }
        return out[session] if single else out

    @within_memory
    def consistency(self, recordings: Mapping[str, Any] | None = None, *, held_out: bool = True) -> pd.DataFrame:
        """How far the sessions' embeddings agree where their variables do.

        Time steps of different sessions do not match, so each embedding is averaged within bins of the variables
        (about 20 steps each), or for each label, and the bins that both sessions visit are compared.

        Parameters
        ----------
        recordings : dict of recordings to compare; None: the time steps that were kept when fitting.
        held_out : of those take only time steps that the encoders were not trained on, if any were held out.

        Returns
        -------
        DataFrame with a row for each space and ordered pair of sessions: space, source, target, r2 (of the target's
        means from the source's, after the best affine map), r2_unaligned (taken as they are: the space is shared,
        so no map should be needed) and bins. Embeddings that have nothing in common reach an r2 of about dim /
        (bins - 1), and an r2_unaligned of about 0 or less. NaN where the bins are too few. `Time` spaces are not
        compared.
        """
        check_is_fitted(self)
        models = {name: part.model_ for name, part in self.sessions_.items()}
        tables, z = {}, {}
        if recordings is not None:
            for name, recording in self._named(as_recordings(recordings), None)[0].items():
                tables[name], z[name] = recording.variables, self.sessions_[name].transform(recording)
                for variable in {v for s in models[name].spaces.values() for v in s.variables}:
                    if variable not in recording.variables:
                        raise ValueError(f"session {name!r}: the recording has no variable {variable!r}.")
        else:
            for name, marks in self.landmarks_.items():
                chosen = marks.held_out if held_out and marks.held_out.any() else np.ones(len(marks.held_out), bool)
                tables[name] = marks.variables[chosen]
                z[name] = models[name].consensus(marks.z[:, chosen]).numpy()
        return session_consistency({n: models[n] for n in z}, tables, z, self.spaces_, self.measures_)

    @property
    def goodness_of_fit_(self) -> pd.DataFrame:
        """One row per session and space."""
        parts = [part.goodness_of_fit_.assign(session=name) for name, part in self.sessions_.items()]
        table = pd.concat(parts, ignore_index=True)
        return table.loc[:, ["session", *table.columns.drop("session")]]

    @property
    def history_(self) -> xr.Dataset:
        """The curves of all sessions; NaN for spaces that a session does not have."""
        parts: list[xr.Dataset] = []
        for part in self.sessions_.values():
            curves = part.history_.drop_attrs()
            regressions = [name for name, space in part.model_.spaces.items() if not space.contrastive]
            parts.append(curves.assign_coords(step=np.arange(curves.sizes["step"]), regression=regressions))
        names = pd.Index(list(self.sessions_), name="session")
        table = xr.concat(parts, dim=names, join="outer", coords="minimal", compat="override", data_vars="all")
        contrastive = [name for name, space in self.spaces_.items() if space.contrastive]
        return table.sel(space=contrastive)  # in the model's order

    def save(self, folder: str | Path) -> Path:
        """Write the fitted model to a folder; `ascribo.load` reads it. See `ContrastiveEmbedding.save`."""
        check_is_fitted(self)
        return save_sessions(self, folder)

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "sessions_", None))

    def _named(self, recordings: Any, session: str | None) -> tuple[dict[Any, Any], bool]:
        """Recordings by session, and whether it is one alone."""
        check_is_fitted(self)
        several = isinstance(recordings, Mapping)
        if not several and session is None:
            raise ValueError(f"which session is this? Pass session=..., one of {list(self.sessions_)}.")
        if several and session is not None:
            raise ValueError("session is for a single recording: a dict names its sessions itself.")
        named: dict[Any, Any] = dict(recordings) if several else {session: recordings}
        for name in named:
            if name not in self.sessions_:
                raise ValueError(f"no session called {name!r}{suggest(name, self.sessions_)}")
        return named, not several

    def _view(self, spaces: Mapping[str, Space]) -> ContrastiveEmbedding:
        """An estimator of one session."""
        given = {
            k: v for k, v in self.get_params(deep=False).items() if k not in ("spaces", "checkpoint", "memory")
        }
        return ContrastiveEmbedding(dict(spaces), **{**given, "random_state": None})

    def _check_memory(self, given: Mapping[str, Recording], spaces: Mapping[str, Space]) -> None:
        """Refuse sessions that the budget is too small for."""
        shortest = min(map(len, given.values()))
        check_session_fit(
            given,
            {name: own_spaces(spaces, recording) for name, recording in given.items()},
            self.encoder,
            batch_size=Settings.from_parameters(self, time_steps=shortest).batch_size,
            seeds=MOST_SEEDS if self.seeds == "auto" else self.seeds,
        )

    def _prepare(self, name: str, recording: Recording, spaces: Mapping[str, Space]) -> Prepared:
        own = own_spaces(spaces, recording)
        try:
            resolve_spaces(own, recording)
            checked = check_recording(self._view(own), recording, own)
            return prepare(
                checked,
                own,
                encoder=self.encoder,
                hybrid=self.hybrid,
                validation_fraction=self.validation_fraction,
            )
        except ValueError as error:
            raise ValueError(f"session {name!r}: {error}") from error

    def _train(
        self,
        given: Mapping[str, Recording],
        prepared: Mapping[str, Prepared],
        pairs: SessionPairs,
        steps: int | None = None,
    ) -> None:
        """Fit the prepared sessions; those that there are already stay as they are."""
        shortest = min(len(part.recording) for part in prepared.values())
        changes = {} if steps is None else {"steps": steps}
        settings = Settings.from_parameters(self, time_steps=shortest, **changes)
        folder = None if self.checkpoint is None else Path(self.checkpoint)
        file = None if folder is None else folder / "sessions.safetensors"
        if batch := describe_batch(self.batch_size, settings.batch_size, "in the shortest session"):
            say(f"batches of {batch}", bool(self.progress))
        with one_thread(), one_fit(folder):
            if folder is not None and not self.sessions_ and not isinstance(self.random_state, int | np.integer):
                self.seeds_ = remember(folder, "seeds of all sessions", self.seeds_)
            fitted = fit_sessions(
                list(prepared.values()),
                self.spaces_,
                pairs,
                self.seeds_,
                settings,
                hybrid=self.hybrid,
                frozen=[(part.model_, self.landmarks_[name]) for name, part in self.sessions_.items()],
                checkpoint=file,
                progress=self.progress,
            )
            if folder is not None and file is not None:  # nothing is left to resume
                tidy(folder, [file], ["seeds of all sessions"])
        for (name, part), (model, fit, curves, landmarks, ended) in zip(prepared.items(), fitted, strict=True):
            history = make_history(curves, [o.space for o in part.problem.objectives])
            self.sessions_[name] = self._view(model.spaces)._fitted(
                given[name], part, model, fit, history, settings.batch_size
            )
            taken = np.isfinite(curves["lambda"]).sum(0).tolist()
            why = "all sessions have as many" if self.seeds == "auto" else "as many were asked for"
            spent = {"seeds": len(self.seeds_), "why_seeds": why, "steps": taken, "why_steps": list(ended)}
            self.sessions_[name].spent_ = spent
            self.landmarks_[name] = landmarks
