"""Files: what goes in comes out, whatever the format, and errors name the file and its content."""

import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from ascribo.data.read import read

N = 8
X = np.random.default_rng(0).normal(size=(N, 3))
XY = np.random.default_rng(1).normal(size=(N, 2))
SPEED = np.linspace(0, 2, N)
TRIAL = np.array([0, 0, 0, 5, 5, 5, 0, 0])
TIME = np.arange(N) / 40
ARRAYS = {"X": X, "xy": XY, "speed": SPEED, "trial": TRIAL, "time": TIME, "rate": np.array(40.0)}


def save_npz(path, arrays):
    np.savez(path, **arrays)


def save_mat(path, arrays):
    scipy.io.savemat(path, arrays)


def save_mat73(path, arrays):
    """As MATLAB does: axes reversed, no vectors, classes as attributes, a block of text first."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            dataset = file.create_dataset(name, data=np.atleast_2d(array).T)
            dataset.attrs["MATLAB_class"] = np.bytes_("double")
        note = file.create_dataset("note", data=np.full((N, 1), ord("a"), dtype=np.uint16))
        note.attrs["MATLAB_class"] = np.bytes_("char")
        file.create_group("#refs#").create_dataset("a", data=np.ones((N, 2)))
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def save_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


ARRAY_FORMATS = [
    pytest.param(("a.npz", save_npz), id="npz"),
    pytest.param(("a.mat", save_mat), id="mat"),
    pytest.param(("a.mat", save_mat73), id="mat7.3"),
    pytest.param(("a.h5", save_hdf5), id="h5"),
    pytest.param(("a.HDF5", save_hdf5), id="hdf5"),
]


@pytest.fixture(params=ARRAY_FORMATS)
def save(request, tmp_path):
    """Save arrays in each of the formats in turn; returns the path."""
    name, function = request.param

    def save(**arrays):
        function(tmp_path / name, arrays)
        return tmp_path / name

    return save


# Arrays


def test_arrays_round_trip(save):
    recording = read(save(**ARRAYS))
    np.testing.assert_array_equal(recording.X, X.astype(np.float32))
    assert sorted(recording.variables) == ["speed", "x", "y"]
    np.testing.assert_array_equal(recording.variables[["x", "y"]], XY)
    np.testing.assert_array_equal(recording.variables["speed"], SPEED)
    assert recording.epochs.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    np.testing.assert_array_equal(recording.time, TIME)
    assert not recording.named_channels


def test_string_paths_are_welcome(save):
    assert len(read(str(save(X=X)))) == N


def test_the_only_matrix_is_the_channels(save):
    recording = read(save(whatever=X, speed=SPEED, other=np.ones(N + 5)))
    assert recording.X.shape == X.shape
    assert list(recording.variables) == ["speed"]


def test_matrices_become_numbered_variables(save):
    recording = read(save(spikes=X, head=XY))
    assert list(recording.variables) == ["head0", "head1"]
    np.testing.assert_array_equal(recording.variables, XY)


def test_arrays_by_name(save):
    path = save(a=X, b=np.ones((N, 5)), c=SPEED, d=TRIAL, e=TIME)
    recording = read(path, channels="b", variables=["a", "c"], epochs="d", time="e")
    assert recording.X.shape == (N, 5)
    assert list(recording.variables) == ["a0", "a1", "a2", "c"]
    assert recording.epochs.max() == 2
    np.testing.assert_array_equal(recording.time, TIME)


def test_a_vector_can_be_the_channel(save):
    np.testing.assert_array_equal(read(save(speed=SPEED), channels="speed").X[:, 0], SPEED.astype("f4"))


def test_a_variable_called_trial_stays_one(save):
    recording = read(save(X=X, trial=TRIAL), variables="trial")
    assert recording.variables["trial"].tolist() == TRIAL.tolist()
    assert recording.epochs.max() == 0


@pytest.mark.parametrize("rows", [-1, 1])
def test_an_array_with_nearly_as_many_rows_is_not_dropped_in_silence(save, rows):
    path = save(X=X, speed=SPEED, head=np.ones(N + rows))
    with pytest.warns(UserWarning, match=rf"left out: head \({N + rows}\), .* as the channels \({N}\)"):
        recording = read(path)
    assert list(recording.variables) == ["speed"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read(path, variables=["speed"]).variables) == ["speed"]
    with pytest.raises(ValueError, match=f"variable 'head' has {N + rows} entries and X has {N} time steps"):
        read(path, variables=["head"])


def test_nearly_is_one_percent(tmp_path):
    rows = {"near": 990, "far": 989, "edges": 1010}
    np.savez(tmp_path / "a.npz", X=np.ones((1000, 2)), **{name: np.ones(n) for name, n in rows.items()})
    with pytest.warns(UserWarning, match=r"left out: near \(990\), edges \(1010\), with"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_npy_holds_the_channels(tmp_path, dtype):
    values = (100 * X).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    recording = read(tmp_path / "a.npy")
    np.testing.assert_array_equal(recording.X, values.astype(np.float32))
    assert recording.variables.shape[1] == 0
    if dtype == np.float32:  # mapped, not read
        assert isinstance(recording.X.base, np.memmap)
    np.save(tmp_path / "b.npy", values[:, 0])
    assert read(tmp_path / "b.npy").X.shape == (N, 1)


def test_what_an_npy_file_cannot_hold_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match=r"a\.npy: the array has shape \(2, 3, 4\); expected time x channel"):
        read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"b\.npy: cannot be read as a \.npy file"):
        read(tmp_path / "b.npy")
    np.save(tmp_path / "c.npy", X)
    with pytest.raises(ValueError, match="no readable array called 'speed'"):
        read(tmp_path / "c.npy", variables="speed")


def test_two_matrices_need_a_name(save):
    with pytest.raises(ValueError, match=r"a\.\w+: more than one matrix.*a \(8, 3\), b \(8, 2\)"):
        read(save(a=X, b=XY))


def test_no_matrix(save):
    with pytest.raises(ValueError, match=r"no matrix.*speed \(8,\)"):
        read(save(speed=SPEED))


def test_unknown_arrays_are_named(save):
    path = save(**ARRAYS)
    for role in ("channels", "variables", "epochs", "time"):
        with pytest.raises(ValueError, match=r"a\.\w+: no readable array called 'sped'; did you mean 'speed'"):
            read(path, **{role: "sped"})


def test_channels_of_arrays_are_one_name(save):
    with pytest.raises(TypeError, match="channels is a list; expected the name of one array"):
        read(save(**ARRAYS), channels=["X"])


def test_variables_with_the_same_name_are_refused(save):
    with pytest.raises(ValueError, match="give a 'x'"):
        read(save(X=X, xy=XY, x=SPEED))


def test_what_the_recording_refuses_names_the_file(save):
    with pytest.raises(ValueError, match=r"a\.\w+: X contains NaN"):
        read(save(X=np.where(X > 0, X, np.nan)))


def test_text_arrays(tmp_path):
    side = np.array(list("llrrllrr"))
    save_npz(tmp_path / "a.npz", {"X": X, "side": side, "epochs": side})
    save_hdf5(tmp_path / "a.h5", {"X": X, "side": side.tolist(), "epochs": side.tolist()})
    for name in ("a.npz", "a.h5"):
        recording = read(tmp_path / name)
        assert recording.variables["side"].tolist() == side.tolist() and recording.variables.shape[1] == 1
        assert recording.epochs.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert read(tmp_path / name, variables="side").variables["side"].tolist() == side.tolist()


def test_groups_and_scalars_in_hdf5(tmp_path):
    save_hdf5(tmp_path / "a.h5", {"session/X": X, "behaviour/speed": SPEED, "note": "a rat"})
    assert list(read(tmp_path / "a.h5").variables) == ["behaviour/speed"]


def test_pickled_arrays_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, meta=np.array([{"a": 1}] * N, dtype=object))
    assert read(tmp_path / "a.npz").variables.shape[1] == 0
    with pytest.raises(ValueError, match="no readable array called 'meta'"):
        read(tmp_path / "a.npz", variables=["meta"])


def test_sparse_matrices_and_structures_in_mat(tmp_path):
    save_mat(tmp_path / "a.mat", {"spikes": scipy.sparse.csc_matrix(X), "info": {"rate": 40.0}})
    np.testing.assert_array_equal(read(tmp_path / "a.mat").X, X.astype(np.float32))


# Tables


TABLE = pd.DataFrame(
    {
        "cell1": X[:, 0],
        "cell2": X[:, 1],
        "speed": SPEED,
        "side": list("llrrllrr"),
        "epoch": TRIAL,
        "time": TIME,
    }
)


@pytest.fixture(params=["csv", "csv with row numbers", "tsv", "parquet"])
def table_path(request, tmp_path):
    path = tmp_path / f"a.{request.param.split()[0]}"
    if path.suffix == ".parquet":
        TABLE.to_parquet(path)
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        TABLE.to_csv(path, sep=separator, index="row" in request.param)
    return path


def test_table_round_trip(table_path):
    recording = read(table_path, variables=["speed", "side"])
    assert recording.channel_names == ["cell1", "cell2"]
    assert recording.named_channels
    np.testing.assert_array_equal(recording.X, X[:, :2].astype(np.float32))
    np.testing.assert_array_equal(recording.variables["speed"], SPEED)
    assert recording.variables["side"].tolist() == TABLE["side"].tolist()
    assert recording.epochs.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    np.testing.assert_array_equal(recording.time, TIME)


def test_table_of_channels_alone(table_path):
    recording = read(table_path)
    assert recording.channel_names == ["cell1", "cell2", "speed"]
    assert recording.variables.shape[1] == 0


@pytest.mark.parametrize("channels", ["cell*", ["cell1", "cell2"]])
def test_the_rest_of_a_table_are_variables(table_path, channels):
    recording = read(table_path, channels=channels)
    assert recording.channel_names == ["cell1", "cell2"]
    assert list(recording.variables) == ["speed"]


def test_columns_by_name(table_path):
    recording = read(table_path, channels="cell2", variables=[], epochs="side", time="speed")
    assert recording.channel_names == ["cell2"]
    assert recording.variables.shape[1] == 0
    assert recording.epochs.max() == 3
    np.testing.assert_array_equal(recording.time, SPEED)


def test_a_variable_called_epoch_stays_one(table_path):
    recording = read(table_path, variables=["epoch", "time"])
    assert list(recording.variables) == ["epoch", "time"]
    assert recording.epochs.max() == 0


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"variables": ["sped"]}, "no column called 'sped'; did you mean 'speed'?"),
        ({"channels": ["cell1", "cel2"]}, "no column called 'cel2'; did you mean 'cell"),
        ({"epochs": "epok"}, "no column called 'epok'; did you mean 'epoch'?"),
        ({"time": "tim"}, "no column called 'tim'; did you mean 'time'?"),
        ({"channels": "unit*"}, "no column begins with 'unit'; there are: cell1"),
        ({"channels": ["speed"], "variables": ["speed"]}, "'speed' is a channel and something"),
        ({"channels": ["side"]}, "X holds something that is not a number"),
        ({"variables": ["cell1", "cell2", "speed"]}, "no numeric columns are left.*cell1 .float64"),
    ],
)
def test_bad_columns_are_refused(table_path, roles, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(table_path, **roles)
    assert str(caught.value).startswith(str(table_path))


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ";"), ("csv", "\t"), ("tsv", "\t")])
@pytest.mark.parametrize("decimal", [",", "."])
@pytest.mark.parametrize("index", [False, True])
def test_delimiters_and_decimal_commas(tmp_path, suffix, delimiter, decimal, index):
    path = tmp_path / f"a.{suffix}"
    TABLE.to_csv(path, sep=delimiter, decimal=decimal, index=index)
    recording = read(path, variables=["speed", "side"])
    assert recording.channel_names == ["cell1", "cell2"]
    np.testing.assert_array_equal(recording.X, X[:, :2].astype(np.float32))
    np.testing.assert_array_equal(recording.variables["speed"], SPEED)
    assert recording.variables["side"].tolist() == TABLE["side"].tolist()
    np.testing.assert_array_equal(recording.time, TIME)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a;b\n1,5;2,5\n3,5;4,5\n", {"a": [1.5, 3.5], "b": [2.5, 4.5]}),
        ("a;b\n0;2,5\n3;,5\n", {"a": [0, 3], "b": [2.5, 0.5]}),
        ("a;b\n1;2\n3;4\n", {"a": [1, 3], "b": [2, 4]}),
        ("a;b\n1,5e-3;-2,5\n1,0;4,5\n", {"a": [0.0015, 1.0], "b": [-2.5, 4.5]}),
        ("a,b\n1.5,2\n3.5,4\n", {"a": [1.5, 3.5], "b": [2, 4]}),
        ("a\n1.5\n3.5\n", {"a": [1.5, 3.5]}),
        ("a;b\n" + "0;0\n" * 200 + "0,5;0\n", {"a": [0.0] * 200 + [0.5], "b": [0] * 201}),
        ('"a, with a comma",b\n1.5,2\n3.5,4\n', {"a, with a comma": [1.5, 3.5], "b": [2, 4]}),
        ("\ufeffa;b\n1,5;2\n2,5;3\n", {"a": [1.5, 2.5], "b": [2, 3]}),
    ],
    ids=repr,
)
def test_text_tables(tmp_path, text, columns):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    recording = read(tmp_path / "a.csv")
    assert recording.channel_names == list(columns)
    np.testing.assert_array_equal(recording.X, np.array(list(columns.values())).T.astype(np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b;c\n1,2;3\n4;5,6\n", "lines have commas and semicolons"),
        ("a;b,c\n1;2;3\n1,5;3\n", "lines have commas and semicolons"),
        ("a;b\n1,5;2.5\n3,5;4.5\n", "column 'a' has numbers with commas"),
        ('a,b\n"1,5",2\n"3,5",4\n', "column 'a' has numbers with commas"),
        ("1.5,2.5\n3.5,4.5\n", r"first row holds nothing but numbers \(1\.5, 2\.5\).*header=False"),
        ("1,5;2,5\n3,5;4,5\n", r"first row holds nothing but numbers \(1,5, 2,5\)"),
        ("0,1\n3.5,4.5\n", "header=True if these are names"),
        (
            "0.1,0.2,left\n0.3,0.4,right\n",
            r"first row \(0\.1, 0\.2, left\) may be data.*0\.1, 0\.2 stand above numbers",
        ),
        ("2024-01-01,0.1\n2024-01-02,0.3\n", "0.1 stands above numbers.*header=False"),
        ("0.1,,left\n0.3,0.4,right\n", "first row .* may be data"),
        ("a,b\n1,2,\n3,4,\n", "the header names 2 columns, but rows have up to 3 cells, the last one empty"),
        ("a;b\n1;2;\n3;4;\n", "a delimiter too many"),
        ("a,b\n1,2,\n3,4\n", "the header names 2 columns, but rows have up to 3 cells: it is not clear"),
        ("a,b\n1,2,3,4\n5,6,7,8\n", "rows have up to 4 cells"),
        (
            "a,b\n1,2\n3,oops\n5,6\n",
            "column 'b' is text, although 2 of its 3 cells are numbers: it has 'oops' in row 2",
        ),
        ("a,b\n1,\n2,-\n3,4\n5,6\n", "it has '-' in row 2 below the header"),
        ("a;b\n1.000,5;1\n1.001,5;2\n", r"column 'a' is text, although 2 of its 2 cells .* '1\.000,5' in row 1"),
    ],
    ids=repr,
)
def test_text_that_could_mean_two_things_is_refused(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"a\.csv: .*{message}"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(("text", "point"), [("1.5,2.5\n3.5,4.5\n", "."), ("1,5;2,5\n3,5;4,5\n", ",")])
def test_a_file_without_a_header_keeps_its_first_row(tmp_path, text, point):
    (tmp_path / "a.csv").write_text(text)
    recording = read(tmp_path / "a.csv", header=False)
    assert recording.channel_names == ["column0", "column1"]
    np.testing.assert_array_equal(recording.X, [[1.5, 2.5], [3.5, 4.5]])
    named = read(tmp_path / "a.csv", header=True)
    np.testing.assert_array_equal(named.X, [[3.5, 4.5]])
    chosen = read(tmp_path / "a.csv", header=False, variables="column1")
    assert chosen.variables["column1"].tolist() == [2.5, 4.5]


@pytest.mark.parametrize(
    "text", ["2024-01-01,1.5,left\n2024-01-02,3.5,right\n", "2024-01-01;1,5;left\n2024-01-02;3,5;right\n"]
)
def test_a_first_row_of_numbers_and_texts_is_data_or_names_as_header_says(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    recording = read(tmp_path / "a.csv", header=False, variables="column2")
    assert recording.X.ravel().tolist() == [1.5, 3.5]
    assert recording.variables["column2"].tolist() == ["left", "right"]
    assert read(tmp_path / "a.csv", header=True).X.ravel().tolist() == [3.5]


@pytest.mark.parametrize("text", ["time,0,1\n0,2.5,3.5\n1,4.5,5.5\n", "time,0,1\n0.5,2.5,3.5\n1.5,4.5,5.5\n"])
def test_a_name_above_numbers_makes_a_header(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    recording = read(tmp_path / "a.csv")
    assert recording.channel_names == ["0", "1"]
    np.testing.assert_array_equal(recording.X, [[2.5, 3.5], [4.5, 5.5]])


@pytest.mark.parametrize("names", ["1", "first", "0.5"])
def test_row_names_as_r_writes_them_are_no_column(tmp_path, names):
    (tmp_path / "a.csv").write_text(f'"a","b"\n"{names}",1.5,2.5\n"x{names}",3.5,\n"y{names}",5.5,6.5\n')
    recording = read(tmp_path / "a.csv", channels="a")
    assert recording.X.ravel().tolist() == [1.5, 3.5, 5.5]
    np.testing.assert_array_equal(recording.variables["b"], [2.5, np.nan, 6.5])


def test_a_column_of_labels_that_are_mostly_numbers_is_left_out_where_roles_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("a,v,label\n1,5,1\n2,6,none\n3,7,2\n")
    recording = read(tmp_path / "a.csv", channels="a", variables="v")
    assert (recording.channel_names, list(recording.variables)) == (["a"], ["v"])
    assert read(tmp_path / "a.csv", variables=["v", "label"]).variables["label"].tolist() == ["1", "none", "2"]


def test_columns_called_by_numbers_beside_row_numbers_are_a_header(tmp_path):
    pd.DataFrame(X).to_csv(tmp_path / "a.csv")
    np.testing.assert_array_equal(read(tmp_path / "a.csv").X, X.astype(np.float32))


def test_options_are_for_files_that_take_them(tmp_path, table_path):
    np.savez(tmp_path / "b.npz", X=X)
    with pytest.raises(TypeError, match=r"header is for files ending in \.csv, \.tsv, not for this one"):
        read(tmp_path / "b.npz", header=False)
    with pytest.raises(TypeError, match="there is no option 'haeder' for such files"):
        read(table_path, haeder=False)


def test_the_row_numbers_of_a_parquet_file_are_not_its_time(tmp_path):
    TABLE[["cell1", "cell2"]].iloc[2:].to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").time.tolist() == list(range(N - 2))


def test_missing_values_in_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,\n")
    with pytest.raises(ValueError, match=r"a\.csv: X contains NaN in 1 of 2 channels.*b \(1 of 2\)"):
        read(tmp_path / "a.csv")


def test_a_named_index_in_parquet_is_a_column(tmp_path):
    TABLE[["cell1", "time"]].set_index("time").to_parquet(tmp_path / "a.parquet")
    recording = read(tmp_path / "a.parquet")
    assert recording.channel_names == ["cell1"]
    np.testing.assert_array_equal(recording.time, TIME)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    TABLE.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"ascribo\[parquet\]"):
        read(tmp_path / "a.parquet")


# Files that cannot be read


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".mat", ".h5", ".nwb", ".parquet"])
def test_a_link_to_an_endless_file_is_not_read(tmp_path, suffix):
    (tmp_path / f"a{suffix}").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="expected an ordinary file"):
        read(tmp_path / f"a{suffix}")


def test_missing_file(tmp_path):
    (tmp_path / "session1.npz").touch()
    with pytest.raises(FileNotFoundError, match=r"sesion1\.npz: no such file; did you mean 'session1"):
        read(tmp_path / "sesion1.npz")
    with pytest.raises(FileNotFoundError, match="no such file; there are none"):
        read(tmp_path / "nowhere" / "a.npz")


def test_unknown_suffix(tmp_path):
    with pytest.raises(ValueError, match=r"ending in '\.xls'; expected one of .*\.csv, "):
        read(tmp_path / "a.xls")


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "mat", "h5", "hdf5"])
@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95\xff not a file of this kind \xfe" * 20])
def test_damaged_files(tmp_path, suffix, content):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.{suffix}: cannot be read as a \.{suffix} file"):
        read(path)


# Real data


def test_rat_on_a_linear_track(data_dir):
    path = data_dir / "rat_ca1_lineartrack_nelpy_31.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {data_dir}")
    recording = read(path)
    assert recording.X.shape == (79296, 31)
    assert list(recording.variables) == ["x", "y"]
    assert np.median(np.diff(recording.time)) == pytest.approx(0.025, abs=1e-6)
    assert recording.X.min() == 0
    assert recording.X.sum() == pytest.approx(np.load(path)["spikes"].sum())


def test_channels_are_treated_as_they_are_read(tmp_path):
    counts, time = np.random.default_rng(0).poisson(2, (40, 3)), np.arange(40) / 10
    np.savez(tmp_path / "x.npz", X=counts, time=time)
    treated = read(tmp_path / "x.npz", smooth=0.2, transform="sqrt")
    expected = read(tmp_path / "x.npz").treat(smooth=0.2, transform="sqrt")
    np.testing.assert_array_equal(treated.X, expected.X)
    assert treated.treatment == expected.treatment and not np.allclose(treated.X, counts)
    np.savez(tmp_path / "y.npz", X=-counts)
    with pytest.raises(ValueError, match=r"y\.npz: transform='sqrt' is for counts"):
        read(tmp_path / "y.npz", transform="sqrt")


def test_a_type_error_of_a_library_is_said_to_be_the_files(tmp_path, monkeypatch):
    """h5py and pynwb end in TypeErrors of their own where a file is damaged; those of this package are kept."""
    from ascribo.data.formats import nwb

    def library(*given, **options):
        raise TypeError("expected str, got NoneType")

    (tmp_path / "a.nwb").write_bytes(b"")
    monkeypatch.setattr(nwb, "check_hdf5", library)
    with pytest.raises(ValueError, match=r"a.nwb: cannot be read as a .nwb file; .*TypeError: expected str"):
        read(tmp_path / "a.nwb")
    with pytest.raises(TypeError, match=r"a.nwb: there is no option 'strange'"):
        read(tmp_path / "a.nwb", strange=1)
