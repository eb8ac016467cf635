"""Where to compute: the device that is asked for, one thread, processes that end with the one that started them."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from ascribo.support import compute
from ascribo.support.compute import in_processes, in_threads, one_thread, resolve_device, side_by_side


def test_a_device_is_found_or_refused():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="device='abacus'"):
        resolve_device("abacus")


def test_threads_come_back():
    before = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt
    assert torch.get_num_threads() == before


WORK = """
import sys, time
from pathlib import Path
from ascribo.support.compute import in_processes

def work(k):
    Path(sys.argv[1] if len(sys.argv) > 1 else ".", f"begun-{k}").touch()
    time.sleep(60)

if __name__ == "__main__":
    in_processes(work, [(0,), (1,)], 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("at_work", [True, False])
def test_workers_end_with_the_process_that_started_them(at_work, tmp_path):
    """Killed at once, it cannot tell them to stop: neither those at work nor those that have just been started."""
    script = tmp_path / "script.py"
    script.write_text(WORK)
    parent = subprocess.Popen([sys.executable, script], cwd=tmp_path)
    found = lambda: _workers(parent.pid)  # noqa: E731
    assert _until(lambda: len(found()) == 2 and (not at_work or len(list(tmp_path.glob("begun-*"))) == 2))
    workers = found()
    parent.kill()
    parent.wait()
    assert _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert at_work or not list(tmp_path.glob("begun-*"))


def test_processes_within_processes_take_no_threads():
    """Forward derivatives of torch fail in threads: fits within the processes of an experiment met them there."""

    def inner(k):
        import threading
        import time

        time.sleep(0.1)
        return threading.current_thread() is threading.main_thread()

    def outer(k):
        return in_processes(inner, [(0,), (1,)], 2)

    assert in_processes(outer, [(0,), (1,)], 2) == [[True, True], [True, True]]


def _workers(parent: int) -> list[int]:
    """The processes that it works with, without joblib's own for cleaning up."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"popen_loky" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _until(holds, seconds=60):
    began = time.monotonic()
    while not holds() and time.monotonic() - began < seconds:
        time.sleep(0.02)
    return holds()


def test_threads_that_are_done_help_others(monkeypatch):
    """Two tasks in two threads, one of them of many parts: when the other is done, its thread takes parts."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(compute, "_cores", lambda: 2)
    both = threading.Barrier(2)

    def part(k: int) -> str:
        if k < 2:
            both.wait(20)  # only two threads at once pass
        return threading.current_thread().name

    names = side_by_side(lambda: None, lambda: in_threads(part, range(20)))[1]
    assert len(names) == 20 and len({*names}) == 2


def test_threads_within_threads_are_no_more_than_cores(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(compute, "_cores", lambda: 3)
    names = in_threads(lambda _: in_threads(lambda _: threading.current_thread().name, range(9)), range(9))
    assert len({name for each in names for name in each}) <= 3
    assert in_threads(lambda k: in_threads(lambda j: 10 * k + j, range(3)), range(4))[3] == [30, 31, 32]


def test_after_an_error_nothing_more_is_begun(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(compute, "_cores", lambda: 2)
    begun = []

    def work(k: int) -> None:
        begun.append(k)
        if k == 3:
            raise ValueError("the fourth")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="the fourth"):
        in_threads(work, range(1000))
    assert len(begun) < 10
    assert in_threads(abs, [-1]) == [1]  # and threads are there for what comes next
