"""Where to compute: the device that is asked for, and one thread."""

import pytest
import torch

from ascribo.support.compute import one_thread, resolve_device


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
