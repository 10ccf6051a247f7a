"""Growing trees on a GPU: the trees of :mod:`hedgerow.growing.core`."""
