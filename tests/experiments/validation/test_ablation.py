"""The embedding exchanged for others, in a tiny form."""

import json

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
