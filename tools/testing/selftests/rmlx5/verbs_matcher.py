# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Matchers and the flow rules that are made of them, each request with one thing wrong; prints "NAME VERDICT", as
verbs_wrong.py does. Source: include/uapi/rdma/mlx5_user_ioctl_cmds.h, fte_match_param in include/linux/mlx5/mlx5_ifc.h.

usage: verbs_matcher.py DEVICE
"""
import ctypes
import os
import struct
import sys

import uverbs
from uverbs import say
from verbs_memory import gone

KERNEL = 0xFFFF888000000000
# Objects: the core's rules and QPs, MLX5_IB_OBJECT_FLOW_MATCHER. Attributes are numbered from FIRST on.
FLOW, MATCHER, FIRST = 9, 0x1003, 0x1000
# Kinds of QPs.
DATAGRAMS, RAW = 4, 8
# Of a matcher: mask, kind, criteria, flags, table, port. Of a rule: values, QP, DEVX object, matcher, actions, tag,
# counters, offset of the counter, flags.
MASK, KIND, CRITERIA, FLAGS, TABLE, PORT = range(1, 7)
VALUE, TO_QP, TO_DEVX, OF, ACTIONS, TAG, COUNTERS, OFFSET, EFFECT = range(1, 10)
OUTER, MISC, INNER = 1, 2, 4
MISS, DROP = 1, 2
SOURCE = b"\xff" * 6

device = sys.argv[1]
session = uverbs.Session(device)
kept = []


def memory(data):
    """Address of bytes that stay."""
    kept.append(ctypes.create_string_buffer(bytes(data), max(len(data), 1)))
    return ctypes.addressof(kept[-1])


def given(data):
    """Length and value of an attribute with these bytes: up to eight are in it."""
    return (len(data), int.from_bytes(data, "little")) if len(data) <= 8 else (len(data), memory(data))


def ask(object_id, method, rows):
    """Errno and handle of a request whose first attribute is a new object; `rows`: by number, (length, value) or (length,
    value, reserved), or None for one that is not sent."""
    rows = {0: (0, 0), **rows}
    sent = [(FIRST + at, row[0], 1, (*row, 0)[2], row[1]) for at, row in rows.items() if row is not None]
    body = b"".join(struct.pack("=HHHHQ", *row) for row in sent)
    data = bytearray(struct.pack("=HHHHQII", 24 + len(body), object_id, method, len(sent), 0, 1, 0) + body)
    code = session.ioctl_raw(data)
    return code, struct.unpack_from("=I", data, 24 + 8)[0]


def matcher(mask=SOURCE, criteria=OUTER, priority=0, **rows):
    return ask(MATCHER, 0x1000, {MASK: given(mask), KIND: given(struct.pack("=H", priority)), CRITERIA: (1, criteria),
                                 **{globals()[name]: row for name, row in rows.items()}})


def rule(of, value=bytes(6), qp=None, **rows):
    rows = {globals()[name]: row for name, row in rows.items()}
    return ask(FLOW, 0x1000, {VALUE: given(value), OF: (0, of), TO_QP: None if qp is None else (0, qp), **rows})


def end(object_id, handle):
    return session.ioctl(object_id, 0x1001, [(FIRST, 0, 1, 0, handle)])


def each(what, object_id, make, table):
    """What is made goes again."""
    for name, values in table:
        code, handle = make(**values)
        say(f"{what}.{name}", code)
        if not code:
            end(object_id, handle)


pd, cq = session.pd(), session.cq()
qp = session.qp(pd, cq, kind=RAW, sq_buf=uverbs.map_memory(uverbs.PAGE))
datagrams = session.qp(pd, cq, kind=DATAGRAMS)
number = lambda value: (8, value)
flags = lambda value: (4, value)
kind = lambda place, data=b"": (*given(data), place)

each("matcher", MATCHER, matcher, [
    ("good", {}),
    ("of_nothing", {"mask": bytes(384), "criteria": 0}),
    ("one_byte", {"mask": b"\xff"}),
    ("all_bits", {"mask": b"\xff" * 512, "criteria": 255}),
    ("mask_empty", {"mask": b""}),
    ("mask_longest", {"mask": SOURCE + bytes(634)}),
    ("mask_long", {"mask": bytes(641)}),
    ("mask_endless", {"MASK": (0xFFFF, memory(bytes(64)))}),
    ("mask_odd", {"MASK": (63, memory(bytes(64)) + 1)}),
    ("mask_unmapped", {"MASK": (64, gone)}),
    ("mask_kernel", {"MASK": (64, KERNEL)}),
    ("mask_reserved", {"MASK": (6, 0, 1)}),
    ("criteria_long", {"CRITERIA": (2, 1)}),
    ("criteria_empty", {"CRITERIA": (0, 0)}),
    ("priority_last", {"priority": 15}),
    ("priority_huge", {"priority": 0xFFFF}),
    ("priority_short", {"KIND": kind(0, b"\0")}),
    ("priority_long", {"KIND": kind(0, bytes(4))}),
    ("sniffer", {"KIND": kind(1)}),
    ("sniffer_with_priority", {"KIND": kind(1, bytes(2))}),
    ("default", {"KIND": kind(2)}),
    ("default_of_groups", {"KIND": kind(3)}),
    ("kind_4", {"KIND": kind(4)}),
    ("kind_255", {"KIND": kind(255)}),
    ("kind_reserved", {"KIND": kind(0x100, bytes(2))}),
    ("no_flags", {"FLAGS": flags(0)}),
    ("egress", {"FLAGS": flags(4)}),
    ("egress_in_64_bits", {"FLAGS": number(4)}),
    ("flags_unknown", {"FLAGS": flags(1)}),
    ("flags_huge", {"FLAGS": number(1 << 32)}),
    ("flags_short", {"FLAGS": (2, 4)}),
    *((f"table_{table}", {"TABLE": number(table)}) for table in (0, 1, 2, 3, 4, 5, 6, 7, 1 << 32, (1 << 64) - 1)),
    ("table_short", {"TABLE": (4, 0)}),
    ("table_and_flags", {"TABLE": number(0), "FLAGS": flags(0)}),
    ("port_0", {"PORT": (4, 0)}),
    ("port_1", {"PORT": (4, 1)}),
    ("port_1_of_transport", {"TABLE": number(5), "PORT": (4, 1)}),
    ("port_2_of_transport", {"TABLE": number(5), "PORT": (4, 2)}),
    ("port_short", {"PORT": (2, 1)}),
    *((f"without_{name.lower()}", {name: None}) for name in ("MASK", "KIND", "CRITERIA")),
    ("unknown_attribute", {"OFFSET": (4, 0)}),
])
say("end_matcher.unknown", end(MATCHER, 0xFFFFFFFF))
say("end_matcher.qp_as_matcher", end(MATCHER, qp))

_, good = matcher()
made = lambda **values: matcher(**values)[1]
misc = lambda data: bytes(64) + data
each("rule", FLOW, lambda of=good, **values: rule(of, **values), [
    ("good", {"qp": qp}),
    ("value_short", {"qp": qp, "value": b"\2"}),
    ("value_longest", {"qp": qp, "value": bytes(512)}),
    ("value_empty", {"qp": qp, "value": b""}),
    ("value_long", {"qp": qp, "value": bytes(641)}),
    ("value_unmapped", {"qp": qp, "VALUE": (64, gone)}),
    ("value_kernel", {"qp": qp, "VALUE": (64, KERNEL)}),
    ("value_beside_the_mask", {"qp": qp, "value": bytes(6) + b"\1"}),
    ("value_behind_the_mask", {"qp": qp, "value": bytes(500) + b"\1"}),
    ("of_nothing", {"qp": qp, "of": made(mask=bytes(64), criteria=0)}),
    ("of_nothing_that_counts", {"qp": qp, "of": made(mask=bytes(64), criteria=OUTER | MISC)}),
    ("of_ports", {"qp": qp, "of": made(mask=bytes(0x14) + b"\xff" * 4)}),
    ("of_reserved_bits", {"qp": qp, "of": made(mask=bytes(0x19) + b"\xff")}),
    ("of_a_flow_label", {"qp": qp, "of": made(mask=misc(bytes(0x1C) + b"\0\x0f\xff\xff"), criteria=MISC)}),
    ("of_reserved_misc_bits", {"qp": qp, "of": made(mask=misc(bytes(0x1C) + b"\xff"), criteria=MISC)}),
    ("of_inner_headers", {"qp": qp, "of": made(mask=bytes(128) + SOURCE, criteria=INNER)}),
    ("of_all_bits", {"qp": qp, "of": made(mask=b"\xff" * 512, criteria=255)}),
    ("of_unknown_criteria", {"qp": qp, "of": made(criteria=0x81)}),
    ("of_fields_that_do_not_count", {"qp": qp, "of": made(criteria=0)}),
    ("of_fields_of_other_criteria", {"qp": qp, "of": made(criteria=MISC)}),
    ("of_a_sniffer", {"qp": qp, "of": made(KIND=kind(1))}),
    ("of_a_default", {"qp": qp, "of": made(KIND=kind(2))}),
    ("of_the_last_priority", {"qp": qp, "of": made(priority=15)}),
    ("of_priority_16", {"qp": qp, "of": made(priority=16)}),
    ("of_priority_huge", {"qp": qp, "of": made(priority=0xFFFF)}),
    ("of_sent_frames", {"of": made(TABLE=number(1))}),
    ("of_rdma", {"qp": qp, "of": made(TABLE=number(3))}),
    ("to_drop", {"EFFECT": flags(DROP)}),
    ("to_drop_and_a_qp", {"qp": qp, "EFFECT": flags(DROP)}),
    ("to_miss_and_a_qp", {"qp": qp, "EFFECT": flags(MISS)}),
    ("to_miss", {"EFFECT": flags(MISS)}),
    ("to_drop_and_miss", {"EFFECT": flags(DROP | MISS)}),
    ("to_unknown_flags", {"qp": qp, "EFFECT": flags(4)}),
    ("flags_short", {"qp": qp, "EFFECT": (2, 0)}),
    ("to_datagrams", {"qp": datagrams}),
    ("to_unknown", {"qp": 0xFFFFFFFF}),
    ("to_cq_as_qp", {"qp": cq}),
    ("to_devx", {"TO_DEVX": (0, 0xFFFFFFFF)}),
    ("with_actions", {"qp": qp, "ACTIONS": (4, 0xFFFFFFFF)}),
    ("with_counters", {"qp": qp, "COUNTERS": (4, 0xFFFFFFFF)}),
    ("tag", {"qp": qp, "TAG": (4, 0x123)}),
    ("tag_last", {"qp": qp, "TAG": (4, 0xFFFFFF)}),
    ("tag_beyond", {"qp": qp, "TAG": (4, 0x1000000)}),
    ("tag_short", {"qp": qp, "TAG": (2, 1)}),
    ("tag_long", {"qp": qp, "TAG": (8, 1)}),
    ("of_unknown", {"qp": qp, "of": 0xFFFFFFFF}),
    ("of_a_cq", {"qp": qp, "of": cq}),
    ("without_value", {"qp": qp, "VALUE": None}),
    ("without_matcher", {"qp": qp, "OF": None}),
])

# The stock driver warns of a rule that leads nowhere: it ends an entry that it has not made.
if os.readlink(f"/sys/class/infiniband/{device}/device/driver").endswith("/rmlx5"):
    say("rule.to_nobody", rule(good)[0])
else:
    print("rule.to_nobody not_asked")

# What is the same as another rule, or not.
_, first = rule(good, qp=qp)
for name, values in [
    ("same", {"qp": qp}), ("tagged", {"qp": qp, "TAG": (4, 1)}), ("dropped", {"EFFECT": flags(DROP)}),
    ("by_another_matcher", {"of": made(), "qp": qp, "TAG": (4, 1)}), ("of_another_priority", {"of": made(priority=1), "EFFECT": flags(DROP)}),
]:
    code, handle = rule(**{"of": good, **values})
    say(f"second_rule.{name}", code)
    if not code:
        end(FLOW, handle)
# A rule keeps its matcher and its QP.
say("end_matcher.in_use", end(MATCHER, good))
say("destroy_qp.with_a_rule", session.attempt("destroy_qp", qp=qp)[0])
# Without the right to raw packets; the process has it again behind this.
os.seteuid(65534)
say("rule.without_the_right", rule(good, qp=qp)[0])
code, handle = matcher()
say("matcher.without_the_right", code)
os.seteuid(0)
say("end_rule.matcher_as_rule", end(FLOW, good))
say("end_rule.unknown", end(FLOW, 0xFFFFFFFF))
say("end_rule.good", end(FLOW, first))
say("end_rule.twice", end(FLOW, first))
# The core's own method destroys it, too: UVERBS_METHOD_FLOW_DESTROY.
_, first = rule(good, qp=qp)
say("end_rule.by_the_core", session.ioctl(FLOW, 0, [(0, 0, 1, 0, first)]))
other = uverbs.Session(device)
mine, session = session, other
say("rule.of_another_file", rule(good, qp=qp)[0])
session = mine
other.close()
say("end_matcher.good", end(MATCHER, good))
say("end_matcher.twice", end(MATCHER, good))
say("rule.of_the_destroyed", rule(good, qp=qp)[0])
# The rest goes with the file: a rule, its matcher, its QP.
_, good = matcher()
say("rule.last", rule(good, qp=qp)[0])
session.close()
say("matchers.pinned_at_the_end", uverbs.pinned())
