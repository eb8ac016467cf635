"""Where to compute: the device that is asked for, one thread, processes that end with the one that started them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ascribo.support.compute import in_processes, one_thread, resolve_device


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
