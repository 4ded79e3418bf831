# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each method of the uverbs file in a shape that it has not: too short, too long, without room for its answer, without
anything; prints "NAME VERDICT", one a line, as verbs_wrong.py does.

usage: verbs_shapes.py DEVICE
"""
import ctypes
import struct
import sys

import uverbs
from uverbs import Command, name_of, say
from verbs_memory import BIG, gone, memory, readable, writable

session = uverbs.Session(sys.argv[1])
pd, cq = session.pd(), session.cq()

# Extended commands of what the driver does not offer; the bodies are as long as the smallest good ones.
OTHERS = {
    "create_flow": Command(50, "all:40s", "", "flow:I reserved:I", extended=True),
    "destroy_flow": Command(51, "all:8s", extended=True),
    "create_wq": Command(52, "all:40s", "", "all:32s", extended=True),
    "modify_wq": Command(53, "all:32s", extended=True),
    "destroy_wq": Command(54, "all:8s", "", "all:16s", extended=True),
    "create_ind_table": Command(55, "all:16s", "", "all:16s", extended=True),
    "destroy_ind_table": Command(56, "all:8s", extended=True),
}


# A handle that nothing has: the shape is judged before it, and nothing is made by accident.
NOTHING = 0xFFFFFFFF
HANDLES = ("pd", "xrcd", "cq", "qp", "srq", "mr", "mw", "ah")


def shapes(name, command):
    """A line with a verdict for each shape, in this order: as it should be but for its handles; the header alone; a word
    short; a byte short; longer than the header says; shorter; with zeros behind it; with ones behind it. Where there is an
    answer: no room for it; room for a word; nowhere; in the kernel."""
    values = {handle: NOTHING for handle in HANDLES if handle in command.body.formats}
    body, private = command.request(values)
    unit = 8 if command.extended else 4
    codes = [
        session.send(command, body, private),
        session.send(command, b"", b""),
        session.send(command, body[:-unit], b""),
        session.send(command, body[:-1], b""),
        session.send(command, body + bytes(64), private, words=len(body) // unit),
        session.send(command, body, private, words=0xFFFF),
        session.send(command, body, private + bytes(256)),
        session.send(command, body, private + b"\xff" * 256),
    ]
    if command.answer.size:
        codes += [
            session.send(command, body, private, room=0, private_room=0),
            session.send(command, body, private, room=unit, private_room=0),
            session.send(command, body, private, at=gone),
            session.send(command, body, private, at=0xFFFF888000000000),
        ]
    print(f"shape.{name}", ",".join(name_of(code) for code, _ in codes))


for name, command in {**uverbs.COMMANDS, **OTHERS}.items():
    shapes(name, command)

# Numbers that no command has, and headers that no command may have.
for number in (6, 7, 10, 12, 15, 22, 41, 49, 58, 255, 0xFFFF):
    say(f"command_{number}", session.send(Command(number, "all:64s"), bytes(64), b"")[0])
    say(f"command_{number}_extended", session.send(Command(number, "all:64s", extended=True), bytes(64), b"")[0])
for bit in 8, 16, 24, 28, 29, 30:
    say(f"command_bit_{bit}", session.raw(struct.pack("=IHH", 3 | 1 << bit, 4, 2) + bytes(8)))
for length in 0, 1, 4, 7:
    say(f"header_of_{length}", session.raw(bytes(length)))
head = struct.pack("=IHHQHHI", 1 | 1 << 31, 1, 38, 0, 0, 0, 1)
say("extended_header_reserved", session.raw(head + bytes(8)))
say("extended_header_torn", session.raw(head[:12]))
say("plain_as_extended", session.raw(struct.pack("=IHHQHHI", 3 | 1 << 31, 1, 0, 0, 0, 0, 0) + bytes(8)))
say("extended_as_plain", session.raw(struct.pack("=IHH", 57, 4, 0) + bytes(8)))

# Methods by ioctl without anything, a line for each kind of object.
OBJECTS = (
    "device pd comp_channel cq qp srq ah mr mw flow xrcd ind_table wq flow_action dm counters async_event dma_handle dmabuf "
    "completion_counter none"
).split()
for number, name in enumerate(OBJECTS):
    codes = [name_of(session.ioctl(number, method, [])) for method in range(10)]
    print(f"ioctl.{name}", ",".join(codes))
for number in 0x1000, 0x1001, 0xFFFF:
    say(f"ioctl.object_{number:#x}", session.ioctl(number, 0x1000, []))


def attributes(name, object_id, method, *rows):
    """Rows of an attribute: number, length, data."""
    say(f"ioctl.{name}", session.ioctl(object_id, method, [(number, length, 1, 0, data) for number, length, data in rows]))


KEEP = ctypes.create_string_buffer(4096)
answer = ctypes.addressof(KEEP)
attributes("cq_destroy_unknown", 3, 1, (0, 0, 0xFFFFFFFF), (1, 8, answer))
attributes("cq_destroy_other_kind", 3, 1, (0, 0, pd), (1, 8, answer))
attributes("cq_destroy_unmapped", 3, 1, (0, 0, cq), (1, 8, gone))
attributes("cq_destroy_twice", 3, 1, (0, 0, cq), (0, 0, cq), (1, 8, answer))
attributes("pd_destroy_unknown", 1, 0, (0, 0, 0xFFFFFFFF))
attributes("query_mr_unknown", 7, 3, (0, 0, 0xFFFFFFFF), (1, 4, answer), (2, 4, answer), (3, 8, answer))
attributes("query_context", 0, 4, (0, 4, answer), (1, 8, answer))
attributes("query_context_unmapped", 0, 4, (0, 4, gone), (1, 8, gone))
attributes("query_port", 0, 2, (0, 1, 1), (1, 64, answer))
attributes("query_port_0", 0, 2, (0, 1, 0), (1, 64, answer))
attributes("query_port_2", 0, 2, (0, 1, 2), (1, 64, answer))
attributes("query_port_unmapped", 0, 2, (0, 1, 1), (1, 64, gone))
attributes("dmabuf_of_no_file", 7, 4, (0, 0, 0), (1, 0, pd), (2, 8, 0), (3, 8, 4096), (4, 8, 0), (5, 0, 0xFFFFFFFF), (6, 4, 1), (7, 4, answer), (8, 4, answer))
attributes("dmabuf_of_a_file", 7, 4, (0, 0, 0), (1, 0, pd), (2, 8, 0), (3, 8, 4096), (4, 8, 0), (5, 0, session.fd), (6, 4, 1), (7, 4, answer), (8, 4, answer))
head = lambda length, count, reserved: struct.pack("=HHHHQII", length, 3, 1, count, reserved, 1, 0)
say("ioctl.header_short", session.ioctl_raw(bytearray(head(8, 0, 0) + bytes(64))))
say("ioctl.header_long", session.ioctl_raw(bytearray(head(0xFFFF, 1, 0) + bytes(64))))
say("ioctl.header_reserved", session.ioctl_raw(bytearray(head(24, 0, 1) + bytes(64))))
say("ioctl.more_attributes_than_it_says", session.ioctl_raw(bytearray(head(24, 2, 0) + bytes(64))))
# By ioctl a CQ may come with a buffer of its own: address and length, or a descriptor, or a piece of a dma-buf.
_, private = uverbs.COMMANDS["create_cq"].request(session.cq_values(buf=writable))
SIZE = 16 * 64


def descriptor(kind, address, length, flags=0, optional=0):
    """struct ib_uverbs_buffer_desc; the bytes stay where they are."""
    data = uverbs.ctypes.create_string_buffer(
        uverbs.DESCRIPTOR.pack({"fd": 0xFFFFFFFF, "type": kind, "flags": flags, "optional": optional, "addr": address, "length": length})
    )
    KEPT.append(data)
    return (uverbs.DESCRIPTOR.size, uverbs.ctypes.addressof(data))


KEPT = []
for name, others in [
    ("plain", {}),
    ("address", {"_8": (8, writable), "_9": (8, SIZE)}),
    ("longer", {"_8": (8, writable), "_9": (8, BIG)}),
    ("short", {"_8": (8, writable), "_9": (8, SIZE - 1)}),
    ("empty", {"_8": (8, writable), "_9": (8, 0)}),
    ("endless", {"_8": (8, writable), "_9": (8, (1 << 64) - 1)}),
    ("misaligned", {"_8": (8, writable + 8), "_9": (8, SIZE)}),
    ("read_only", {"_8": (8, readable), "_9": (8, SIZE)}),
    ("unmapped", {"_8": (8, gone), "_9": (8, SIZE)}),
    ("no_length", {"_8": (8, writable)}),
    ("no_address", {"_9": (8, SIZE)}),
    ("no_dmabuf", {"_10": (0, memory), "_11": (8, 0), "_9": (8, SIZE)}),
    ("both", {"_8": (8, writable), "_9": (8, SIZE), "_12": descriptor(1, writable, SIZE)}),
    ("descriptor", {"_12": descriptor(1, writable, SIZE)}),
    ("descriptor_short", {"_12": descriptor(1, writable, SIZE - 64)}),
    ("descriptor_misaligned", {"_12": descriptor(1, writable + 4, SIZE)}),
    ("descriptor_unknown_type", {"_12": descriptor(99, writable, SIZE)}),
    ("descriptor_unknown_flags", {"_12": descriptor(1, writable, SIZE, flags=0x80000000)}),
]:
    say(f"ioctl_cq.{name}", session.ioctl_cq(private, **others))
say("ioctl_cq.private_short", session.ioctl_cq(private[:16]))
say("ioctl_cq.private_long", session.ioctl_cq(private + bytes(32)))
say("ioctl_cq.private_long_unknown", session.ioctl_cq(private + b"\1" * 32))

session.attempt("destroy_cq", cq=cq)
say("dealloc_pd.after_all", session.attempt("dealloc_pd", pd=pd)[0])
session.close()
