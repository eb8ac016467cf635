"""cebra's side of the comparison. Run by cebra's own Python, never by ascribo's: `cpu.py` starts it.

It sets up cebra's xCEBRA solver on the recording it is given, says so, and then works only when told to, so
that the two sides can take turns. One request a line on standard input, one JSON answer a line on standard
output:

    steps N [K]   train N steps, on K threads (1): the time of one
    attribute     the attribution map of the samples, timed as a whole and in parts
    scores        how strongly each channel drives the dimensions of the labels, by the inverted Jacobian
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import sys

import cebra
import cebra.attribution
import cebra.data
import cebra.models
import cebra.solver
import numpy as np
import torch
from cebra.data.datasets import DatasetxCEBRA
from cebra.data.multiobjective import ContrastiveMultiObjectiveLoader
from cebra.models.jacobian_regularizer import JacobianReg
from cebra.solver.multiobjective import MultiObjectiveConfig
from cebra.solver.schedulers import LinearRampUp

from benchmarks.clock import clock

ARCHITECTURE = "offset1-model-mse-clip-5-5"


class Peer:
    """cebra's hybrid, regularized solver on X (time, channel) and labels (time, variable).

    Behaviour drives as many dimensions as there are labels, time drives `dim` of them (the papers' "whole").
    """

    def __init__(
        self, X: np.ndarray, labels: np.ndarray, dim: int, batch: int, penalty: float, device: str = "cpu"
    ):
        self.X, self.labels = torch.from_numpy(X).float().to(device), labels.shape[1]
        data = DatasetxCEBRA(self.X, device=device, labels=torch.from_numpy(labels).float().to(device))
        self.loader = ContrastiveMultiObjectiveLoader(dataset=data, num_steps=1, batch_size=batch)
        config = MultiObjectiveConfig(self.loader)
        for stop, distribution, options in (
            (labels.shape[1], "time_delta", {"time_delta": 1, "label_name": "labels"}),
            (dim, "time", {"time_offset": 1}),
        ):
            config.set_slice(0, stop)
            config.set_loss("FixedEuclideanInfoNCE", temperature=1.0)
            config.set_distribution(distribution, **options)
            config.push()
        config.finalize()
        # this architecture takes its widths from the output (30, 30 and 10 times `dim`), not from num_units
        model = cebra.models.init(ARCHITECTURE, num_neurons=X.shape[1], num_units=256, num_output=dim)
        data.configure_for(model)
        self.parameters = sum(p.numel() for p in model.parameters())
        self.solver = cebra.solver.init(
            name="multiobjective-solver",
            model=model,
            feature_ranges=config.feature_ranges,
            regularizer=JacobianReg(),
            renormalize=False,
            use_sam=False,
            criterion=config.criterion,
            optimizer=torch.optim.Adam([*model.parameters(), *config.criterion.parameters()], lr=1e-3),
            tqdm_on=False,
        )
        # a ramp from the penalty to itself: the regularizer is on from the first step
        self.schedule = LinearRampUp(
            n_splits=len(config.feature_ranges),
            step_to_switch_on_reg=0,
            step_to_switch_off_reg=1,
            start_weight=penalty,
            end_weight=penalty,
        )

    def steps(self, number: int, threads: int | None = None) -> dict:
        """Train, by the solver's own loop; one step first, for the memory that the system took back meanwhile."""
        before = torch.get_num_threads()
        torch.set_num_threads(threads or before)

        def fit(number: int) -> None:
            self.loader.num_steps = number
            self.solver.fit(self.loader, scheduler_regularizer=self.schedule)

        fit(1)
        took = clock(lambda: fit(number), number)
        torch.set_num_threads(before)
        return took

    def attribute(self, samples: int) -> dict:
        """The whole of cebra's call, which inverts four times, and the least of it that gives a map."""
        model = self.solver.model.eval()
        model.set_split_outputs(False)
        data = self.X[:samples].clone().requires_grad_(True)
        method = cebra.attribution.init(
            name="jacobian-based-batched",
            model=model,
            input_data=data,
            output_dimension=model.num_output,
        )

        def least() -> None:
            parts = [method._compute_jacobian(part) for part in torch.split(data, 1024)]
            method._inverse(np.vstack(parts), method="svd")

        answer = {
            "cebra, its call": clock(method.compute_attribution_map),
            "cebra, Jacobian and one inversion": clock(least),
        }
        model.set_split_outputs(True)
        return answer

    def scores(self, samples: int) -> list[float]:
        """Length of each channel's row of the inverse, in the dimensions of the labels, averaged over samples."""
        model = self.solver.model.eval()
        model.set_split_outputs(False)
        step = max(1, len(self.X) // samples)
        data = self.X[::step].clone().requires_grad_(True)
        method = cebra.attribution.init(
            name="jacobian-based-batched", model=model, input_data=data, output_dimension=model.num_output
        )
        jacobian = np.vstack([method._compute_jacobian(part) for part in torch.split(data, 1024)])
        inverse = np.linalg.pinv(jacobian.reshape(len(jacobian), model.num_output, -1))
        model.set_split_outputs(True)
        model.train()
        return np.linalg.norm(np.abs(inverse).mean(0)[:, : self.labels], axis=1).tolist()


def main() -> None:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="npz with X (time, channel) and labels (time, variable)")
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--penalty", type=float, required=True)
    parser.add_argument("--samples", type=int, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    def answer(value: dict | list) -> None:
        print(json.dumps(value), file=sys.__stdout__, flush=True)

    with contextlib.redirect_stdout(sys.stderr), np.load(given.data) as data:  # cebra prints
        peer = Peer(data["X"], data["labels"], given.dim, given.batch, given.penalty)
        answer(
            {
                "cebra": importlib.metadata.version("cebra"),
                "torch": torch.__version__,
                "solver": type(peer.solver).__name__,
                "architecture": ARCHITECTURE,
                "parameters": peer.parameters,
            }
        )
        for line in sys.stdin:
            match line.split():
                case ["steps", number, *threads]:
                    answer(peer.steps(int(number), *map(int, threads)))
                case ["attribute"]:
                    answer(peer.attribute(given.samples))
                case ["scores"]:
                    answer(peer.scores(given.samples))
                case _:
                    raise SystemExit(f"unknown request: {line!r}")


if __name__ == "__main__":
    main()
