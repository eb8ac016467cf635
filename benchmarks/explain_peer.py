"""The peers' side of `benchmarks.explain`, run in an environment of its own that has torch, captum and dattri
0.3.0.

Reads a problem that the other side has written (state of an MNIST autoencoder, examples), and writes scores and
seconds. Nothing of ascribo is imported; the network's definition is shared.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments.labelfree.networks import Autoencoder

ADAM_STEPS = 1000


def read(folder: Path) -> tuple[Autoencoder, torch.Tensor, torch.Tensor]:
    """The autoencoder in evaluation mode, training and test images."""
    with np.load(folder / "problem.npz", allow_pickle=False) as file:
        state = {k.removeprefix("state/"): torch.from_numpy(file[k]) for k in file if k.startswith("state/")}
        train, test = (torch.from_numpy(file[name]) for name in ("train", "test"))
    model = Autoencoder()
    model.load_state_dict(state)
    return model.eval(), train, test


def task(model: Autoencoder):
    """dattri's task: the reconstruction loss of one image."""
    from dattri.task import AttributionTask

    whole = torch.nn.Sequential(model.encoder, model.decoder).eval()

    def loss(parameters, pair):
        x, goal = (part if part.ndim == 4 else part[None] for part in pair)  # dattri passes one image or a batch
        return (functional_call(whole, parameters, (x,)) - goal).square().mean()

    return AttributionTask(loss_func=loss, model=whole, checkpoints=[whole.state_dict()]), whole


def loader(x: torch.Tensor, batch: int) -> DataLoader:
    """Images beside themselves, in order."""
    return DataLoader(TensorDataset(x, x), batch_size=batch, shuffle=False)


def tracin(model, train, test, batch: int, projected: bool):
    """dattri's TracIn, parameters of the encoder only: (test, train).

    projected : as it comes, with gradients projected on 512 random directions, which no argument turns off.
    """
    from dattri.algorithm.tracin import TracInAttributor

    given, whole = task(model)
    names = [name for name, _ in whole.named_parameters() if name.startswith("0.")]
    explainer = TracInAttributor(given, weight_list=torch.ones(1), normalized_grad=False, layer_name=names)
    if not projected:
        explainer.projector_kwargs = None
    return explainer.attribute(loader(train, batch), loader(test, batch)).detach().T.numpy()


def influence(model, train, test, batch: int, damping: float, iterations: int):
    """dattri's influence functions by conjugate gradients on the Hessian: (test, train), without its 1 / N."""
    from dattri.algorithm.influence_function import IFAttributorCG

    given, whole = task(model)
    names = [name for name, _ in whole.named_parameters() if name.startswith("0.")]
    explainer = IFAttributorCG(
        given, layer_name=names, max_iter=iterations, tol=1e-12, mode="rev-rev", regularization=damping
    )
    explainer.cache(loader(train, len(train)))
    return explainer.attribute(loader(train, batch), loader(test, batch)).detach().T.numpy() / len(train)


def simplex(model, train, test):
    """The public SimplEx: 1,000 steps of Adam on the logits of the weights. Returns the distances that remain."""
    with torch.no_grad():
        corpus, targets = model.encoder(train), model.encoder(test)
    logits = torch.zeros(len(test), len(train), requires_grad=True)
    adam = torch.optim.Adam([logits])
    for _ in range(ADAM_STEPS):
        adam.zero_grad()
        (targets - logits.softmax(1) @ corpus).square().sum().backward()
        adam.step()
    return (targets - logits.softmax(1) @ corpus).norm(dim=1).detach().numpy()


class Wrapper(torch.nn.Module):
    """g as the paper's public code has it: the anchors of a batch, repeated to the length of what comes in."""

    def __init__(self, encoder, x):
        super().__init__()
        self.encoder, self.anchor = encoder, encoder(x).detach()

    def forward(self, x):
        """One number for each row."""
        return (self.anchor.repeat(len(x) // len(self.anchor), 1) * self.encoder(x)).sum(1)


def features(model, test, method: str):
    """captum behind the hand-written wrapper."""
    import captum.attr

    explainer = getattr(captum.attr, method)(Wrapper(model.encoder, test))
    options = {"n_steps": 50} if method == "IntegratedGradients" else {"n_samples": 50}
    return explainer.attribute(test, baselines=torch.zeros_like(test[:1]), **options).detach().numpy()


def main() -> None:
    """`explain_peer.py FOLDER JOB [JSON options]`: one job in this process."""
    torch.set_num_threads(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    folder, job, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    model, train, test = read(folder)
    most, few = options.pop("examples", None), options.pop("tests", None)
    train, test = train[:most], test[:most][:few]
    work = {"tracin": tracin, "influence": influence, "simplex": simplex}
    began = time.process_time()
    scores = features(model, test, **options) if job == "features" else work[job](model, train, test, **options)
    seconds = time.process_time() - began
    np.save(folder / f"peer-{job}.npy", scores)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
