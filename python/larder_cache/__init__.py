"""Cache policies over traces, at the speed of Rust.

>>> import larder_cache as lc
>>> trace = lc.Trace([1, 2, 3, 1, 2, 3])
>>> lc.replay(trace, ["lru", "belady"], sizes=[2]).select(["policy", "hits"]).to_pydict()
{'policy': ['lru', 'belady'], 'hits': [0, 2]}
"""

from ._core import __version__
from ._policy import Policy
from ._replay import Interrupted, policies, replay
from ._trace import Trace

__all__ = ["Interrupted", "Policy", "Trace", "__version__", "policies", "replay"]
