"""ascribo: which channels carry which variable, and how sure can I be?

`ascribo.public` lists the names. They are imported when one is used for the first time: torch and scikit-learn take
seconds, and the command line answers questions about itself without them.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .public import *  # noqa: F403
else:

    def __getattr__(name: str):
        if name == "__all__" or not name.startswith("__"):
            if _find_spec(f"{__name__}.{name}") is not None:  # a folder or module, such as `simulate`
                return _import_module(f"{__name__}.{name}")
            public = _import_module(f"{__name__}.public")
            if hasattr(public, name):
                value = globals()[name] = getattr(public, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(_import_module(f"{__name__}.public").__all__)
