"""The embedding exchanged for others, in a tiny form."""

import json

import numpy as np
import torch

from experiments.validation import ablation


def test_every_embedding_is_tested_on_the_same_recording(tmp_path):
    result = ablation.run(tmp_path, quick=True, progress=False)
    (row,) = result["rows"]
    assert [each["embedding"] for each in row["embeddings"]] == list(ablation.EMBEDDINGS)
    for each in row["embeddings"]:  # the test finds the channels, whatever is known of the past
        assert each["auroc"] > 0.9 and each["power"] > 0.5 and each["fdp"] < 0.2
    assert json.loads((tmp_path / "ablation.json").read_text())["summary"] == result["summary"]
    (table,) = ablation.tables(result).values()
    assert list(table["embedding"]) == list(ablation.EMBEDDINGS) and "false discovery rate" in table


def test_an_embedding_that_is_there_has_its_rows():
    embedder, parameters = ablation._fixed(torch.arange(10.0)[:, None])
    index = np.array([3, 7])
    assert embedder.embed(parameters, torch.zeros(10, 1), np.zeros(10, int), index).tolist() == [[[3.0], [7.0]]]
