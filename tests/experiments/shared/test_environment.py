"""Data and cebra are found through one setting each, never through the current folder."""

import pytest

from experiments.shared import environment
from experiments.shared.environment import cebra_python, data_file, data_folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A checkout and a current folder of our own, and no settings."""
    for name in ("ASCRIBO_DATA", "ASCRIBO_CEBRA_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    checkout = tmp_path / "work" / "checkout"
    checkout.mkdir(parents=True)
    monkeypatch.setattr(environment, "CHECKOUT", checkout)
    monkeypatch.chdir(tmp_path)


def test_data_are_beside_the_checkout_or_where_the_setting_says(tmp_path, monkeypatch):
    (tmp_path / "shared" / "data").mkdir(parents=True)  # what ../shared/data is from the current folder's child
    assert data_folder() == tmp_path / "work" / "shared" / "data"
    monkeypatch.setenv("ASCRIBO_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    (tmp_path / "rat.npz").touch()
    assert data_file("rat.npz") == tmp_path / "rat.npz"


def test_a_file_that_is_not_there_names_the_setting():
    with pytest.raises(FileNotFoundError, match=r"rat.npz: no such file.*ASCRIBO_DATA to the folder"):
        data_file("rat.npz")


def test_cebra_is_in_the_checkout_or_where_the_setting_says(tmp_path, monkeypatch):
    assert cebra_python() is None
    own = environment.CHECKOUT / ".venv-cebra" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert cebra_python() == own
    other = tmp_path / "python"
    other.touch()
    monkeypatch.setenv("ASCRIBO_CEBRA_PYTHON", str(other))
    assert cebra_python() == other
    monkeypatch.setenv("ASCRIBO_CEBRA_PYTHON", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match="ASCRIBO_CEBRA_PYTHON"):
        cebra_python()
