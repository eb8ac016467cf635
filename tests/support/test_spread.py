"""Tasks in processes: those of a worker that is lost are given to others, and given up after a few times."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ascribo.support import spread as module
from ascribo.support.spread import WorkersLost, spread


def fragile(k, folder):
    """The square; kills its own process when it is called for the first time with an odd number."""
    mark = os.path.join(folder, str(k))
    if k % 2 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return k * k


def doomed(k):
    """Kills its process whenever it is asked for 1."""
    if k == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def test_lost_processes_are_replaced(tmp_path):
    tasks = {str(k): (k, str(tmp_path)) for k in range(3)}
    assert dict(spread(fragile, tasks, n_jobs=2)) == {str(k): k * k for k in range(3)}


def test_a_task_that_always_loses_its_process_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    with pytest.raises(WorkersLost, match="too little memory") as lost:
        dict(spread(doomed, {"a": (1,), "b": (2,)}, n_jobs=2))
    assert "a" in lost.value.keys  # one that shares its processes may be lost with it


def test_an_exception_of_the_function_is_raised():
    with pytest.raises(ZeroDivisionError):
        dict(spread(divmod, {"a": (1, 0)}))


def missing(name):
    raise FileNotFoundError(f"the data set {name} is not there")


def test_an_exception_on_a_dask_worker_is_raised_and_no_loss_of_it(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ascribo[cluster]'")
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(sys.path.insert, 0, str(Path(__file__).parent))
        for error, work in ((FileNotFoundError, missing), (TimeoutError, late)):
            with pytest.raises(error, match="the data set a") as raised:
                dict(spread(work, {"a": ("a",)}, scheduler=client))
            assert "in " + work.__name__ in raised.value.__notes__[0]
        with pytest.raises(RuntimeError, match="Strange: the data set a is strange"):
            dict(spread(strange, {"a": ("a",)}, scheduler=client))
        assert dict(spread(divmod, {"a": (7, 2)}, scheduler=cluster.scheduler_address)) == {"a": (3, 1)}


def late(name):
    raise TimeoutError(f"the data set {name} is not there in time")


def strange(name):
    class Strange(Exception):
        """It cannot be sent to another process."""

    raise Strange(f"the data set {name} is strange")


def test_a_scheduler_that_does_not_answer(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ascribo[cluster]'")
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match="no Dask scheduler answers at tcp"):
        dict(spread(divmod, {"a": (1, 2)}, scheduler="tcp://127.0.0.1:9"))
