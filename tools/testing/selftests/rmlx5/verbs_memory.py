# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of every kind, good and bad, for requests made by hand."""
import os
import tempfile

import uverbs
from uverbs import PAGE, R, SHARED, W, hole, map_memory

BIG = 1 << 20
writable = map_memory(BIG)
readable = map_memory(BIG, R)
gone = hole(256)
exists = tempfile.TemporaryFile()
exists.truncate(BIG)
of_file = map_memory(BIG, R | W, SHARED, exists.fileno())
memory = os.memfd_create("m")
os.ftruncate(memory, BIG)
of_memfd = map_memory(BIG, R | W, SHARED, memory)
# The second half of it is not there.
torn = map_memory(BIG)
uverbs.unmap(torn + BIG // 2, BIG // 2)
