"""HDF5 files that reach for other files, or claim more than memory holds, are refused; honest ones are read."""

import struct

import h5py
import numpy as np
import pytest

import ascribo as asc
from ascribo.data.format_registry import FileContentError
from ascribo.data.formats import hdf5_safety
from ascribo.data.formats.hdf5_safety import check_heaps

SECRET = np.arange(40, dtype=np.float32).reshape(20, 2)


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "secret.bin").write_bytes(SECRET.tobytes())
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["X"] = SECRET
    return tmp_path


def external_storage(file, folder):
    file.create_dataset("X", (20, 2), "f4", external=[(str(folder / "secret.bin"), 0, SECRET.nbytes)])


def external_link(file, folder):
    file["X"] = h5py.ExternalLink(str(folder / "secret.h5"), "/X")


def external_link_deep_inside(file, folder):
    file["X"] = SECRET
    file.create_group("a/b")["c"] = h5py.ExternalLink("secret.h5", "/X")


def virtual_dataset(file, folder):
    layout = h5py.VirtualLayout((20, 2), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "X", (20, 2))
    file.create_virtual_dataset("X", layout)


@pytest.mark.parametrize("suffix", [".h5", ".mat", ".nwb"])
@pytest.mark.parametrize("make", [external_storage, external_link, external_link_deep_inside, virtual_dataset])
def test_other_files_are_never_read(secret, make, suffix):
    if suffix == ".nwb":
        pytest.importorskip("pynwb")
    path = secret / f"mine{suffix}"
    with h5py.File(path, "w") as file:
        make(file, secret)
    with pytest.raises(ValueError, match=r"secret\.(bin|h5)\), which is not followed"):
        asc.read(path, **({"bin_size": 0.1} if suffix == ".nwb" else {}))


def test_a_damaged_group_that_holds_itself_is_visited_once(tmp_path):
    """Its count of links says 1, and HDF5's own visit of all objects follows it for ever."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["one/X"] = SECRET
        file["one/again"] = file["one"]
        place = h5py.h5o.get_info(file["one"].id).addr
    content = bytearray(path.read_bytes())
    assert struct.unpack_from("<BxHI", content, place)[::2] == (1, 2)  # version 1 of an object's head, 2 links
    struct.pack_into("<I", content, place + 4, 1)
    path.write_bytes(content)
    with h5py.File(path) as file:
        assert [name for name, _ in hdf5_safety.hdf5_objects(file)] == ["one", "one/X"]
    assert np.array_equal(asc.read(path, channels="one/X").X, SECRET)


def test_links_within_a_file_and_circles_of_groups_are_fine(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one/X"] = SECRET
        file["one/again"] = file["one"]  # a circle
        file["soft"] = h5py.SoftLink("/one/X")
    hdf5_safety.check_hdf5(tmp_path / "a.h5")
    assert asc.read(tmp_path / "a.h5", channels="one/X").X.shape == (20, 2)


def test_declared_terabytes_are_not_tried(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (2**33, 1000), "f4", chunks=(100, 1000))  # nothing of it is written
    with pytest.raises(ValueError, match=r"X is declared with shape \(8589934592, 1000\), 32,000 GiB"):
        asc.read(tmp_path / "a.h5")


def test_an_npz_with_a_header_of_terabytes(tmp_path):
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**33, 1000)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    with pytest.raises(ValueError, match="X is declared with shape"):
        asc.read(tmp_path / "a.npz")


GIGABYTES = (10_000_000, 75)
"""Three of them in float32: less than machines have, and more than a small file should take."""


def test_gigabytes_that_are_declared_and_not_there_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", GIGABYTES, "f4", chunks=(1000, 75))
    for name in ("a.h5", "a.mat"):
        if name == "a.mat":
            (tmp_path / "a.h5").rename(tmp_path / name)
        with pytest.raises(ValueError, match=r"X is declared .*3\.0 GB, and the file holds 0 bytes of it.*unpack"):
            asc.read(tmp_path / name)
    with h5py.File(tmp_path / "labels.h5", "w") as file:
        file["X"] = SECRET
        file.create_dataset("labels", (2**30,), "S3", chunks=(1000,))
    with pytest.raises(ValueError, match=r"labels is declared with shape .*holds 0 bytes"):
        asc.read(tmp_path / "labels.h5")


def test_gigabytes_anywhere_in_a_file_that_is_read_as_a_whole(tmp_path):
    with h5py.File(tmp_path / "a.nwb", "w") as file:
        file.create_dataset("acquisition/timestamps", (2**30,), "f8", chunks=(1000,))
    hdf5_safety.check_hdf5(tmp_path / "a.nwb")
    with pytest.raises(ValueError, match=r"/acquisition/timestamps is declared .*8\.6 GB, and the file holds 0"):
        hdf5_safety.check_hdf5(tmp_path / "a.nwb", whole=True)


def test_gigabytes_put_together_of_nothing_are_refused(tmp_path):
    layout = h5py.VirtualLayout(GIGABYTES, "f4")
    layout[:20, :2] = h5py.VirtualSource(".", "some", shape=SECRET.shape)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["some"] = SECRET.astype("f4")
        file.create_virtual_dataset("X", layout)
    with pytest.raises(ValueError, match=r"X is declared .*3\.0 GB, and the file holds [\d,]+ bytes of it"):
        asc.read(tmp_path / "a.h5", channels="X")


def test_what_is_packed_well_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5_safety, "SMALL", 1000)
    monkeypatch.setattr("ascribo.data.formats.stored_arrays.SMALL", 1000)
    X = (np.arange(400_000).reshape(-1, 4) % 1000 == 0).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=X, compression="gzip", chunks=(100_000, 4))
        assert file["X"].id.get_storage_size() < X.nbytes / 50
    np.testing.assert_array_equal(asc.read(tmp_path / "a.h5").X, X)
    np.savez_compressed(tmp_path / "a.npz", X=X)
    np.testing.assert_array_equal(asc.read(tmp_path / "a.npz").X, X)


def test_an_npz_with_a_header_of_gigabytes(tmp_path):
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": GIGABYTES})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"X is declared with shape .* and the file holds 128 bytes"):
        asc.read(tmp_path / "a.npz")


def test_a_table_of_gigabytes_in_a_small_file(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    import pandas as pd

    monkeypatch.setattr(hdf5_safety, "SMALL", 10**6)
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": np.zeros(10**7), "b": np.ones(10**7)}).to_parquet(path)
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match=r"the table is declared with shape \(10000000, 2\)"):
        asc.read(path)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_end_in_one_kind_of_error(tmp_path, seed):
    path, rng = tmp_path / "a.h5", np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file["X"] = SECRET
        file["x"] = SECRET[:, 0]
    damaged = bytearray(path.read_bytes())
    for place in rng.integers(0, len(damaged), 20):
        damaged[place] ^= int(rng.integers(1, 256))
    path.write_bytes(damaged)
    try:
        asc.read(path)
    except ValueError as error:
        assert str(path) in str(error)


def written_in_one_go(path):
    with h5py.File(path, "w") as file:
        file["names"] = np.array([f"channel {k}" for k in range(300)], dtype=h5py.string_dtype())
    return path.read_bytes()


def test_heaps_of_good_files_are_fine(tmp_path):
    assert written_in_one_go(tmp_path / "good.h5").count(b"GCOL") >= 1
    check_heaps(tmp_path / "good.h5")


@pytest.mark.parametrize("number, length", [(0, 0), (0, 8), (5, 2**40), (5, 2**63)])
def test_damaged_heaps_are_refused(tmp_path, number, length):
    """An object of the heap that is said to be free space of no length is one that HDF5 reads for ever."""
    path = tmp_path / "bad.h5"
    content = bytearray(written_in_one_go(path))
    struct.pack_into("<H6xQ", content, content.find(b"GCOL") + 16 + 32, number, length)
    path.write_bytes(content)
    with pytest.raises(FileContentError, match="damaged"):
        check_heaps(path)


@pytest.mark.parametrize("userblock", [0, 512])  # MATLAB's files begin with a block of their own
def test_a_text_longer_than_its_file_is_not_tried(tmp_path, userblock):
    path = tmp_path / "texts.h5"
    with h5py.File(path, "w", userblock_size=userblock) as file:
        file["names"] = np.array(["left", "right"], dtype=h5py.string_dtype())
        file["lists"] = np.array([np.arange(5), np.arange(6)], dtype=h5py.vlen_dtype(np.int32))
        place = file["names"].id.get_offset()
    hdf5_safety.check_hdf5(path)
    content = bytearray(path.read_bytes())
    assert struct.unpack_from("<I", content, place + 16) == (5,)  # "right"
    struct.pack_into("<I", content, place + 16, 2**31)
    path.write_bytes(content)
    with pytest.raises(FileContentError, match=r"names is damaged: a text of 2,147,483,648 bytes"):
        hdf5_safety.check_hdf5(path)
