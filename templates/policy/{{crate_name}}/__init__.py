"""larder_cache with the policy `{{policy}}`: import this module in place of larder_cache."""

import sys
from importlib.metadata import version

if "larder_cache" in sys.modules:
    raise ImportError(
        "larder_cache was imported before {{crate_name}}; import {{crate_name}} first"
    )

from . import _engine

if version("larder-cache") != _engine.__version__:
    raise ImportError(
        f"larder-cache {version('larder-cache')} is installed, and {{crate_name}} was built with"
        f" {_engine.__version__}; run pip install {{larder}}/python ."
    )
# The engine of this project takes the place of that of larder_cache.
sys.modules["larder_cache._core"] = _engine

from larder_cache import *  # noqa: E402, F403
from larder_cache import __version__ as __version__  # noqa: E402
