# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Asks for a protection domain COUNT times at once and prints how each request ended, as `COUNT ERROR` by kind.

usage: verbs-waiters.py DEVICE COUNT

Each request comes from a thread with an open device of its own, so that only the command queue is shared.
"""
import collections
import sys
import threading

import uverbs

sessions = [uverbs.Session(sys.argv[1], 4, 2) for _ in range(int(sys.argv[2]))]
ends = collections.Counter()
lock = threading.Lock()


def ask(session):
    code, _ = session.attempt("alloc_pd")
    with lock:
        ends[uverbs.name_of(code)] += 1


threads = [threading.Thread(target=ask, args=(session,)) for session in sessions]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for end, count in sorted(ends.items()):
    print(count, end)
