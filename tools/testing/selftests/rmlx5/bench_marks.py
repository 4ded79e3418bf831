# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Marks of the bench around many calls, and the kernel's memory for an object."""

PORT = "/dev/virtio-ports/rmlx5.host"
# Objects of a row, and of a row about memory.
COUNT, MANY = 64, 512


class Bench:
    """A mark is a request to the test bench, as `host mark` of ktap.sh makes it. `name` is that of the columns, `bounds` are
    those of the driver's text."""

    def __init__(self, name, bounds):
        self.name, self.bounds = name, bounds

    def mark(self, job, edge, *amounts):
        with open(PORT, "r+b", buffering=0) as port:
            words = ["mark", f"{self.name}/verbs-{job}/{edge}", *self.bounds, *amounts]
            port.write(" ".join(words).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                answer += port.read(4096)
        if answer.splitlines()[-1] != b"ok":
            raise SystemExit(f"mark {job}: {answer.decode()}")

    def measure(self, job, call, objects=range(COUNT + 1)):
        """Results of a call for each object; the first one without marks: what is made only once is not counted."""
        first, *others = objects
        results = [call(first)]
        self.mark(job, "begin")
        results += [call(one) for one in others]
        self.mark(job, "end", f"calls={len(others)}")
        return results

    def create(self, job, make, count=COUNT):
        """Objects; `make` gets their numbers."""
        return self.measure(f"{job}-create", make, range(count + 1))

    def destroy(self, job, objects):
        self.measure(f"{job}-destroy", lambda one: one.close(), objects)

    def both(self, job, make, count=COUNT):
        self.destroy(job, self.create(job, make, count))


def kernel_memory():
    """Bytes that are in use and neither a cache's nor a program's; pinned memory is a program's."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
        caches.write("3")
    with open("/proc/meminfo", encoding="ascii") as lines:
        meminfo = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    managed = free = 0
    with open("/proc/zoneinfo", encoding="ascii") as lines:
        for words in map(str.split, lines):
            managed += int(words[1]) if words[0] == "managed" else 0
            # Of the zone, and of each of its CPUs.
            free += int(words[1]) if words[0] in ("nr_free_pages", "count:") else 0
    others = sum(meminfo[one] for one in ("Cached", "Buffers", "AnonPages", "PageTables", "KernelStack"))
    return (managed - free) * 4096 - others * 1024


def memory(make):
    """Bytes of the kernel for an object."""
    first = [make() for _ in range(COUNT)]
    before = kernel_memory()
    made = [make() for _ in range(MANY)]
    bytes_each = (kernel_memory() - before) // MANY
    for one in made + first:
        one.close()
    return max(bytes_each, 0)
