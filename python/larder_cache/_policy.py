"""Policies in Python."""

from __future__ import annotations


class Policy:
    """An eviction policy in Python, which runs inside the engine.

    A subclass defines :meth:`evict`, and the other methods that it needs. A method that it does not
    define is not called, so it costs nothing. The class itself is an argument of
    :func:`larder_cache.replay`, which makes one object for each row.

    >>> from collections import OrderedDict
    >>> class Lru(Policy):
    ...     def __init__(self, capacity, seed):
    ...         self.order = OrderedDict()
    ...     def hit(self, id):
    ...         self.order.move_to_end(id)
    ...     def insert(self, id, size):
    ...         self.order[id] = None
    ...     def evict(self):
    ...         return self.order.popitem(last=False)[0]
    >>> from larder_cache import replay
    >>> replay([1, 2, 1, 3, 1, 2], [Lru, "lru"], 2).column("hits").to_pylist()
    [2, 2]

    Two collections, :class:`~larder_cache.Queue` and :class:`~larder_cache.Counts`, are faster than
    those of Python. A method that is bound to one of theirs (``push``, ``move_to_end``, ``pop``,
    ``add``) is called without the interpreter, which makes this policy several times as fast:

    >>> from larder_cache import Queue
    >>> class FastLru(Policy):
    ...     def __init__(self, capacity, seed):
    ...         self.queue = Queue()
    ...         self.hit = self.queue.move_to_end
    ...         self.insert = self.queue.push
    ...         self.evict = self.queue.pop
    >>> replay([1, 2, 1, 3, 1, 2], FastLru, 2).column("hits").to_pylist()
    [2]

    Parameters are bound with :func:`functools.partial`. An exception in a method ends the replay.
    Objects of names have their hashes as ids, and negative ids are unsigned.

    Deriving from this class is not required: any callable of two arguments that returns an object
    with a method ``evict`` will do.

    The methods, in the order of their calls for one request:

    ``hit(id)``
        The object was requested, and it is stored.
    ``miss(id)``
        The object was requested, and it is not stored.
    ``admit(id, size)``
        A missed object has arrived. A false value keeps it out. While the cache fills, objects are
        stored anyway, unless ``fill=False``.
    ``evict()``
        There is too little room: returns the id of the object that leaves.
    ``insert(id, size)``
        The object is stored.
    """

    def __init__(self, capacity: int, seed: int) -> None:
        """Starts with an empty cache of ``capacity`` bytes, or objects if they have no sizes."""

    def evict(self) -> int:
        """Returns the id of the stored object that leaves, and forgets it."""
        raise NotImplementedError(f"{type(self).__name__}.evict")
