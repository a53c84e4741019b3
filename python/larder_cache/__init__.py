"""Cache policies over traces, at the speed of Rust.

>>> import larder_cache as lc
>>> trace = lc.Trace([1, 2, 3, 1, 2, 3])
>>> lc.replay(trace, ["lru", "belady"], sizes=[2]).select(["policy", "hits"]).to_pydict()
{'policy': ['lru', 'belady'], 'hits': [0, 2]}
"""

from ._advise import Advice, Candidate, advise
from ._core import Counts, Queue, __version__
from ._cost import with_cost, with_latency
from ._curve import curve, over_seeds, predict
from ._policy import Policy
from ._replay import Interrupted, explode, policies, replay
from ._trace import Trace

__all__ = [
    "Advice",
    "Candidate",
    "Counts",
    "Interrupted",
    "Policy",
    "Queue",
    "Trace",
    "__version__",
    "advise",
    "curve",
    "explode",
    "over_seeds",
    "policies",
    "predict",
    "replay",
    "with_cost",
    "with_latency",
]
