# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests that each have one thing wrong, to one RDMA device; prints "NAME VERDICT", one a line.

usage: verbs_wrong.py DEVICE

VERDICT is the errno that the kernel gives, or ok. What it makes it also destroys.
"""
import sys

import uverbs
from uverbs import PAGE, R, SHARED, W, map_memory, say
from verbs_memory import BIG, exists, gone, of_file, of_memfd, readable, torn, writable

device = sys.argv[1]
session = uverbs.Session(device)
pd, cq = session.pd(), session.cq()
connection = session.call("create_qp", **session.qp_values(pd, cq))
qp = connection["qp"]
srq = session.srq(pd)
datagrams = session.qp(pd, cq, kind=4)

DESTROY = {
    "create_cq": ("destroy_cq", "cq"), "create_cq_ex": ("destroy_cq", "cq"), "create_qp": ("destroy_qp", "qp"),
    "create_qp_ex": ("destroy_qp", "qp"), "create_srq": ("destroy_srq", "srq"), "reg_mr": ("dereg_mr", "mr"),
    "alloc_pd": ("dealloc_pd", "pd"), "create_ah": ("destroy_ah", "ah"), "alloc_mw": ("dealloc_mw", "mw"),
    "open_xrcd": ("close_xrcd", "xrcd"), "create_xsrq": ("destroy_srq", "srq"),
}


def one(name, what, values, at=None):
    """One request; what it makes goes again."""
    code, answer = session.attempt(what, at=at, **values)
    say(name, code)
    if not code and what in DESTROY and at is None:
        destroy, handle = DESTROY[what]
        session.call(destroy, **{handle: answer[handle]})
    return code


def each(what, good, table):
    """`good` makes values from overrides; `table`: rows of name and overrides."""
    for name, values in table:
        one(f"{what}.{name}", what, good(**values))


BUFFERS = [
    ("in_the_middle_of_a_line", {"buf": writable + 8}),
    ("behind_a_line", {"buf": writable + 64}),
    ("unmapped", {"buf": gone}),
    ("null", {"buf": 0}),
    ("kernel", {"buf": 0xFFFF888000000000}),
    ("wraps", {"buf": 0xFFFFFFFFFFFFF000}),
    ("read_only", {"buf": readable}),
    ("file", {"buf": of_file}),
    ("memfd", {"buf": of_memfd}),
    ("end_missing", {"buf": torn + BIG // 2 - 64}),
    ("record_odd", {"db": session.records + 4}),
    ("record_torn", {"db": session.records + PAGE - 4}),
    ("record_unmapped", {"db": gone}),
    ("record_kernel", {"db": 0xFFFF888000000000}),
    ("record_read_only", {"db": readable}),
    ("record_in_buffer", {"buf": writable, "db": writable}),
]

# The device.
for name, port in ("0", 0), ("1", 1), ("2", 2), ("255", 255):
    say(f"query_port.{name}", session.attempt("query_port", port=port)[0])
say("query_port.reserved", session.attempt("query_port", port=1, reserved=b"\1" * 7)[0])
say("query_device_ex.mask", session.attempt("query_device_ex", comp_mask=1)[0])
say("query_device_ex.reserved", session.attempt("query_device_ex", reserved=1)[0])

# A context.
second = uverbs.File(device)
for name, values in [
    ("no_registers", {"registers": 0}),
    ("too_many_registers", {"registers": 513}),
    ("huge", {"registers": 0xFFFFFFFF}),
    ("all_exclusive", {"registers": 16, "low": 16}),
    ("more_exclusive", {"registers": 16, "low": 0xFFFFFFFF}),
    ("devx", {"registers": 16, "flags": 1}),
    ("unknown_flags", {"registers": 16, "flags": 0x80000000}),
    ("unknown_mask", {"registers": 16, "comp_mask": 1}),
    ("reserved0", {"registers": 16, "reserved0": 1}),
    ("reserved1", {"registers": 16, "reserved1": 1}),
    ("reserved2", {"registers": 16, "reserved2": 1}),
]:
    say(f"get_context.{name}", second.attempt("get_context", **values)[0])
say("get_context.answer_unmapped", second.attempt("get_context", at=gone, registers=16)[0])
say("before_context", second.attempt("alloc_pd")[0])
second.close()
say("get_context.twice", session.attempt("get_context", registers=16)[0])

# Domains and regions.
one("alloc_pd.answer_unmapped", "alloc_pd", {}, at=gone)
one("alloc_pd.answer_read_only", "alloc_pd", {}, at=readable)
say("dealloc_pd.in_use", session.attempt("dealloc_pd", pd=pd)[0])
say("dealloc_pd.unknown", session.attempt("dealloc_pd", pd=0xFFFFFFFF)[0])
say("dealloc_pd.other_kind", session.attempt("dealloc_pd", pd=cq)[0])
each("reg_mr", lambda **values: session.mr_values(pd, **{"start": writable, "length": 2 * PAGE, **values}), [
    ("good", {}),
    ("empty", {"length": 0}),
    ("one_byte", {"length": 1}),
    ("wraps", {"length": 0xFFFFFFFFFFFFFFFF}),
    ("half_of_all", {"length": 1 << 63}),
    ("past_the_end", {"length": 1 << 46}),
    ("other_offset", {"virt": writable + 8}),
    ("other_address", {"virt": 0}),
    ("unmapped", {"start": gone, "virt": gone}),
    ("end_missing", {"start": torn + BIG // 2 - PAGE, "virt": torn + BIG // 2 - PAGE}),
    ("read_only_to_write", {"start": readable, "virt": readable}),
    ("read_only_to_read", {"start": readable, "virt": readable, "access": 0}),
    ("file", {"start": of_file, "virt": of_file}),
    ("memfd", {"start": of_memfd, "virt": of_memfd}),
    ("remote_write_only", {"access": 2}),
    ("remote_atomic_only", {"access": 8}),
    ("on_demand", {"access": 0x41}),
    ("huge_pages", {"access": 0x81}),
    ("flush", {"access": 0x301}),
    ("unknown_access", {"access": 0x10001}),
    ("unknown_optional_access", {"access": 0x20000001}),
    ("all_access", {"access": 0xFFFFFFFF}),
    ("unknown_pd", {"pd": 0xFFFFFFFF}),
    ("cq_as_pd", {"pd": cq}),
])
one("reg_mr.answer_unmapped", "reg_mr", session.mr_values(pd, start=writable), at=gone)
mr = session.mr(pd, start=writable)
frozen = session.mr(pd, start=readable, access=0)
each("rereg_mr", lambda **values: {"mr": mr, **values}, [
    ("nothing", {"flags": 0}),
    ("unknown_flags", {"flags": 8}),
    ("to_nothing", {"flags": 1}),
    ("to_unmapped", {"flags": 1, "start": gone, "virt": gone, "length": PAGE}),
    ("to_other_offset", {"flags": 1, "start": writable, "virt": 1, "length": PAGE}),
    ("pd_unknown", {"flags": 2, "pd": 0xFFFFFFFF}),
    ("access_unknown", {"flags": 4, "access": 0x10000}),
    ("access_remote_only", {"flags": 4, "access": 2}),
    ("access_on_demand", {"flags": 4, "access": 0x41}),
    ("access_beyond_memory", {"mr": frozen, "flags": 4, "access": 1}),
    ("unknown", {"mr": 0xFFFFFFFF, "flags": 4}),
])
session.call("dereg_mr", mr=mr)
session.call("dereg_mr", mr=frozen)
say("dereg_mr.twice", session.attempt("dereg_mr", mr=mr)[0])

# Windows.
each("alloc_mw", lambda **values: {"pd": pd, "kind": 2, **values}, [
    ("good", {}),
    ("type_1", {"kind": 1}),
    ("type_0", {"kind": 0}),
    ("type_3", {"kind": 3}),
    ("type_255", {"kind": 255}),
    ("reserved", {"mw_reserved": b"\1\1\1"}),
    ("unknown_pd", {"pd": 0xFFFFFFFF}),
])
one("alloc_mw.answer_unmapped", "alloc_mw", {"pd": pd, "kind": 2}, at=gone)
body, _ = uverbs.COMMANDS["alloc_mw"].request({"pd": pd, "kind": 2})
for name, private in [
    # comp_mask, num_klms, reserved1, reserved2.
    ("short", bytes(4)), ("no_pieces", bytes(8)), ("most_pieces", bytes(4) + b"\xff" + bytes(3)), ("mask", b"\1" + bytes(7)),
    ("reserved1", bytes(5) + b"\1" + bytes(2)), ("reserved2", bytes(6) + b"\1" + bytes(1)), ("long", bytes(64)),
]:
    code, answer = session.send(uverbs.COMMANDS["alloc_mw"], body, private)
    say(f"alloc_mw.private_{name}", code)
    if not code:
        session.call("dealloc_mw", mw=uverbs.COMMANDS["alloc_mw"].answer.unpack(answer)["mw"])
say("dealloc_mw.unknown", session.attempt("dealloc_mw", mw=0xFFFFFFFF)[0])
say("dealloc_mw.other_kind", session.attempt("dealloc_mw", mw=pd)[0])

# CQs.
each("create_cq", session.cq_values, BUFFERS + [
    ("no_entries", {"cqe": 0, "buf": writable}),
    ("negative", {"cqe": 0x80000000, "buf": writable}),
    ("huge", {"cqe": 0xFFFFFFFF, "buf": writable}),
    ("vector", {"vector": 1000}),
    ("vector_huge", {"vector": 0xFFFFFFFF}),
    ("channel_closed", {"channel": 900}),
    ("channel_of_another_kind", {"channel": exists.fileno()}),
    ("channel_negative", {"channel": -2}),
    *((f"entry_of_{size}", {"cqe_size": size}) for size in (0, 32, 63, 65, 96, 256, 0xFFFFFFFF)),
    ("entry_of_128", {"cqe_size": 128, "buf": writable}),
    ("compressed_2", {"comp": 2}),
    ("padded", {"cq_flags": 1}),
    ("unknown_flags", {"cq_flags": 8}),
    ("all_flags", {"cq_flags": 0xFFFF}),
    *((f"uar_{index}", {"cq_flags": 2, "uar": index}) for index in (0, 1, 0xFFFF)),
    ("reserved0", {"reserved0": 1}),
    ("reserved1", {"reserved1": 0x80000000}),
    ("body_reserved", {"body_reserved": 1}),
])
one("create_cq.answer_unmapped", "create_cq", session.cq_values(), at=gone)
one("create_cq.answer_read_only", "create_cq", session.cq_values(), at=readable)
each("create_cq_ex", session.cq_values, [
    ("good", {}),
    ("time_stamps", {"flags": 1}),
    ("ignore_overrun", {"flags": 2}),
    ("unknown_flags", {"flags": 4}),
    ("all_flags", {"flags": 0xFFFFFFFC}),
    ("mask", {"comp_mask": 1}),
    ("reserved", {"body_reserved": 1}),
])

large = map_memory(BIG)
each("resize_cq", lambda **values: {"cq": cq, "cqe": 31, "buf": large, "cqe_size": 64, **values}, [
    ("no_entries", {"cqe": 0}),
    ("huge", {"cqe": 0xFFFFFFFF}),
    ("misaligned", {"buf": large + 8}),
    ("unmapped", {"buf": gone}),
    ("read_only", {"buf": readable}),
    ("entry_of_0", {"cqe_size": 0}),
    ("reserved0", {"reserved0": 1}),
    ("reserved1", {"reserved1": 1}),
    ("unknown", {"cq": 0xFFFFFFFF}),
    ("entry_of_128", {"cqe_size": 128}),
])
each("modify_cq", lambda **values: {"cq": cq, "mask": 1, **values}, [
    ("good", {"count": 1, "period": 10}),
    ("nothing", {"mask": 0}),
    ("unknown_mask", {"mask": 2}),
    ("period", {"count": 1, "period": 0xFFFF}),
    ("count_without_period", {"count": 0xFFFF, "period": 0}),
    ("reserved", {"reserved": 1}),
])
say("destroy_cq.in_use", session.attempt("destroy_cq", cq=cq)[0])
say("destroy_cq.other_kind", session.attempt("destroy_cq", cq=qp)[0])
say("poll_cq", session.attempt("poll_cq", cq=cq, entries=1)[0])
say("req_notify_cq", session.attempt("req_notify_cq", cq=cq)[0])

# QPs.
SIZES = [
    ("receives_0", {"receives": 0}),
    ("receives_without_wanting", {"recv_wr": 0}),
    *((f"receives_{count:#x}", {"receives": count, "buf": writable}) for count in (3, 17, 0x10000, 0x80000000, 0xFFFFFFFF)),
    *((f"shift_{shift:#x}", {"shift": shift, "buf": writable}) for shift in (0, 3, 10, 15, 16, 31, 32, 64, 0xFFFFFFFF)),
    *((f"sends_{count:#x}", {"sends": count, "buf": writable}) for count in (3, 17, 0x10000, 0x80000000, 0xFFFFFFFF)),
]
each("create_qp", lambda **values: session.qp_values(pd, cq, **values), BUFFERS + SIZES + [
    ("no_queues", {"sends": 0, "send_wr": 0, "receives": 0, "recv_wr": 0, "shift": 0, "buf": 0}),
    ("send_wr_huge", {"send_wr": 0xFFFFFFFF}),
    ("recv_wr_huge", {"recv_wr": 0xFFFFFFFF}),
    ("send_sge_huge", {"send_sge": 0xFFFFFFFF}),
    ("recv_sge_huge", {"recv_sge": 0xFFFFFFFF}),
    ("inline_huge", {"inline": 0xFFFFFFFF}),
    *((f"type_{kind}", {"kind": kind}) for kind in (0, 1, 5, 6, 7, 10, 15, 16, 100, 255)),
    ("signature", {"flags": 1}),
    ("tunnel", {"flags": 4}),
    ("unknown_flags", {"flags": 0x80000000}),
    ("all_flags", {"flags": 0xFFFFFFFF}),
    *((f"uar_{index:#x}", {"flags": 1 << 10, "register": index}) for index in (0, 1, 0xFFFFFF, 0xFFFFFFFF)),
    ("user_index_none", {"uidx": 0xFFFFFF}),
    ("user_index_huge", {"uidx": 0xFFFFFFFF}),
    ("streams", {"streams": 1}),
    ("reserved", {"reserved": 1}),
    ("unknown_pd", {"pd": 0xFFFFFFFF}),
    ("cq_as_pd", {"pd": cq}),
    ("unknown_send_cq", {"send_cq": 0xFFFFFFFF}),
    ("pd_as_recv_cq", {"recv_cq": pd}),
    ("unknown_srq", {"is_srq": 1, "srq": 0xFFFFFFFF}),
    ("srq_and_receives", {"is_srq": 1, "srq": srq}),
    ("srq", {"is_srq": 1, "srq": srq, "recv_wr": 0, "receives": 0, "shift": 0}),
])
one("create_qp.answer_unmapped", "create_qp", session.qp_values(pd, cq), at=gone)
each("create_qp_ex", lambda **values: session.qp_values(pd, cq, **values), [
    ("good", {}),
    *((f"create_flag_{bit}", {"create_flags": 1 << bit}) for bit in (0, 1, 2, 8, 9, 10, 11, 31)),
    ("source_qpn", {"create_flags": 1 << 10, "source_qpn": 1}),
    ("mask", {"comp_mask": 2}),
    ("ind_table", {"comp_mask": 1, "ind_table": 0xFFFFFFFF}),
])
INIT = {"mask": 1 | 8 | 16 | 32, "state": 1, "port": 1}
each("modify_qp", lambda **values: {"qp": qp, **values}, [
    ("nothing", {"mask": 0}),
    ("state_unknown", {"mask": 1, "state": 200}),
    ("current_unknown", {"mask": 3, "state": 1, "cur_state": 9}),
    ("to_rtr", {"mask": 1, "state": 2}),
    ("to_rts", {"mask": 1, "state": 3}),
    ("to_init_without_port", {"mask": 1, "state": 1}),
    ("port_0", {**INIT, "port": 0}),
    ("port_2", {**INIT, "port": 2}),
    ("pkey", {**INIT, "pkey_index": 1}),
    ("unknown_mask", {**INIT, "mask": INIT["mask"] | 1 << 28}),
    ("rate_limit_mask", {**INIT, "mask": INIT["mask"] | 1 << 25}),
    ("unknown_access", {**INIT, "access": 0xFFFF0000}),
    ("good", INIT),
    ("qkey_for_rc", {"mask": 1 | 64, "state": 1, "qkey": 1}),
    ("rtr_of_nothing", {"mask": 1 | 128 | 256 | 4096 | 32768 | 131072 | 1048576, "state": 2}),
    ("rtr_without_grh", {"mask": 1 | 128 | 256 | 4096 | 32768 | 131072 | 1048576, "state": 2, "mtu": 3, "dport": 1}),
    ("rtr_no_such_gid", {
        "mask": 1 | 128 | 256 | 4096 | 32768 | 131072 | 1048576, "state": 2, "mtu": 3, "dport": 1, "global": 1, "sgid_index": 250,
    }),
    ("unknown", {**INIT, "qp": 0xFFFFFFFF}),
    ("cq_as_qp", {**INIT, "qp": cq}),
    ("reset", {"mask": 1, "state": 0}),
])
for form in "short", "zeros", "long", "bits":
    # What a library sends along with a step: burst_info, ece_options, comp_mask, reserved.
    private = {"short": b"\0" * 8, "zeros": b"\0" * 24, "long": b"\0" * 64, "bits": b"\xff" * 24}[form]
    body, _ = uverbs.COMMANDS["modify_qp"].request({"qp": qp, **INIT})
    say(f"modify_qp.private_{form}", session.send(uverbs.COMMANDS["modify_qp"], body, private)[0])
    session.attempt("modify_qp", qp=qp, mask=1, state=0)
each("attach_mcast", lambda **values: {"qp": datagrams, "gid": b"\xff\x0e" + bytes(13) + b"\1", **values}, [
    ("not_a_group", {"gid": bytes(16)}),
    ("of_a_connection", {"qp": qp}),
    ("unknown", {"qp": 0xFFFFFFFF}),
    ("good", {}),
    ("again", {}),
])
say("detach_mcast.other_group", session.attempt("detach_mcast", qp=datagrams, gid=b"\xff\x0e" + bytes(13) + b"\2")[0])
say("detach_mcast.good", session.attempt("detach_mcast", qp=datagrams, gid=b"\xff\x0e" + bytes(13) + b"\1")[0])
say("query_qp.all", session.attempt("query_qp", qp=qp, mask=0xFFFFFFFF)[0])
say("post_send", session.attempt("post_send", qp=qp, wrs=1, size=64)[0])
say("post_recv", session.attempt("post_recv", qp=qp, wrs=1, size=64)[0])

# SRQs.
each("create_srq", lambda **values: session.srq_values(pd, **values), BUFFERS + [
    ("no_receives", {"max_wr": 0, "buf": writable}),
    ("receives_huge", {"max_wr": 0xFFFFFFFF, "buf": writable}),
    ("entries_huge", {"max_sge": 0xFFFFFFFF}),
    ("entries_overflow", {"max_sge": 0x0FFFFFFF}),
    ("limit_beyond", {"limit": 0xFFFFFFFF}),
    ("flags", {"flags": 1}),
    ("unknown_flags", {"flags": 0x80000000}),
    ("reserved0", {"reserved0": 1}),
    ("reserved1", {"reserved1": 1}),
    ("user_index_huge", {"uidx": 0xFFFFFFFF}),
    ("unknown_pd", {"pd": 0xFFFFFFFF}),
])
each("modify_srq", lambda **values: {"srq": srq, **values}, [
    ("nothing", {"mask": 0}),
    ("size", {"mask": 1, "max_wr": 31}),
    ("limit", {"mask": 2, "limit": 3}),
    ("limit_beyond", {"mask": 2, "limit": 16}),
    ("limit_huge", {"mask": 2, "limit": 0xFFFFFFFF}),
    ("unknown_mask", {"mask": 4}),
    ("unknown", {"srq": 0xFFFFFFFF, "mask": 2}),
])
say("post_srq_recv", session.attempt("post_srq_recv", srq=srq, wrs=1, size=64)[0])

# Extended reliable connections: O_CREAT is 0x40, O_EXCL 0x80.
NO_FILE = 0xFFFFFFFF
each("open_xrcd", lambda **values: {"fd": NO_FILE, "oflags": 0x40, **values}, [
    ("without_file", {}),
    ("without_flags", {"oflags": 0}),
    ("file", {"fd": exists.fileno()}),
    ("file_exclusive", {"fd": exists.fileno(), "oflags": 0xC0}),
    ("file_without_flags", {"fd": exists.fileno(), "oflags": 0}),
    ("closed", {"fd": 900}),
    ("negative", {"fd": 0xFFFFFFFE}),
    ("unknown_flags", {"oflags": 0xFFFFFFFF}),
])
one("open_xrcd.answer_unmapped", "open_xrcd", {"fd": NO_FILE, "oflags": 0x40}, at=gone)
xrcd = session.call("open_xrcd", fd=NO_FILE, oflags=0x40)["xrcd"]
each("create_xsrq", lambda **values: {"kind": 1, "xrcd": xrcd, "cq": cq, **session.srq_values(pd, **values)}, [
    ("good", {}),
    ("basic", {"kind": 0}),
    ("tags", {"kind": 2}),
    ("type_3", {"kind": 3}),
    ("type_huge", {"kind": 0xFFFFFFFF}),
    ("unknown_xrcd", {"xrcd": 0xFFFFFFFF}),
    ("cq_as_xrcd", {"xrcd": cq}),
    ("unknown_cq", {"cq": 0xFFFFFFFF}),
    ("user_index_none", {"uidx": 0xFFFFFF}),
    ("user_index_huge", {"uidx": 0xFFFFFFFF}),
    ("misaligned", {"buf": writable + 8}),
    ("unmapped", {"buf": gone}),
])
each("open_qp", lambda **values: {"xrcd": xrcd, "type": 10, **values}, [
    ("nothing", {}),
    ("of_a_connection", {"qpn": connection["qpn"]}),
    ("other_type", {"type": 2}),
    ("qp_0", {"qpn": 0}),
    ("qp_1", {"qpn": 1}),
    ("unknown_xrcd", {"xrcd": 0xFFFFFFFF}),
])
say("close_xrcd.unknown", session.attempt("close_xrcd", xrcd=0xFFFFFFFF)[0])
in_domain = session.call("create_xsrq", **{"kind": 1, "xrcd": xrcd, "cq": cq, **session.srq_values(pd)})["srq"]
say("close_xrcd.in_use", session.attempt("close_xrcd", xrcd=xrcd)[0])
session.call("destroy_srq", srq=in_domain)
say("close_xrcd.last", session.attempt("close_xrcd", xrcd=xrcd)[0])

# Address handles.
each("create_ah", lambda **values: {"pd": pd, "port": 1, "global": 1, **values}, [
    ("without_grh", {"global": 0}),
    ("no_such_gid", {"sgid_index": 250}),
    ("gid_255", {"sgid_index": 255}),
    ("port_0", {"port": 0}),
    ("port_2", {"port": 2}),
    ("service_level", {"sl": 255}),
    ("unknown_pd", {"pd": 0xFFFFFFFF}),
])

# Mappings of the file: doorbell pages.
UAR, NC = 0, 3
for name, length, prot, flags, offset in [
    ("first", PAGE, W, SHARED, UAR), ("uncached", PAGE, W, SHARED, NC << 8), ("beyond", PAGE, W, SHARED, 8),
    ("far_beyond", PAGE, W, SHARED, 0xFF), ("two_pages", 2 * PAGE, W, SHARED, UAR), ("private", PAGE, W, uverbs.PRIVATE, UAR),
    ("executable", PAGE, R | W | uverbs.X, SHARED, UAR), ("readable", PAGE, R, SHARED, UAR), ("nothing", PAGE, 0, SHARED, UAR),
    *((f"command_{command}", PAGE, W, SHARED, command << 8) for command in (1, 2, 4, 5, 6, 7, 8, 9, 10, 255)),
    ("huge", PAGE, W, SHARED, (1 << 51) - 1), ("not_32_bits", PAGE, W, SHARED, 1 << 40),
]:
    code, at = session.map(offset * PAGE if offset < 1 << 51 else 0, length, prot, flags)
    say(f"mmap.{name}", code)
    if not code:
        uverbs.unmap(at, length)
try:
    # It may not become executable later, nor grow.
    at = map_memory(PAGE, W, SHARED, session.fd, 0)
    result = uverbs.libc.mprotect(uverbs.ctypes.c_void_p(at), PAGE, R | W | uverbs.X)
    say("mmap.mprotect_executable", uverbs.ctypes.get_errno() if result else 0)
    uverbs.libc.mremap.restype = uverbs.ctypes.c_void_p
    result = uverbs.libc.mremap(uverbs.ctypes.c_void_p(at), PAGE, 2 * PAGE, 1)
    say("mmap.grow", uverbs.ctypes.get_errno() if result == uverbs.FAILED else 0)
    uverbs.unmap(at, PAGE)
except OSError as error:
    say("mmap.again", error.errno)

say("destroy_qp.datagrams", session.attempt("destroy_qp", qp=datagrams)[0])
for what, handle in ("destroy_qp", {"qp": qp}), ("destroy_srq", {"srq": srq}), ("destroy_cq", {"cq": cq}), ("dealloc_pd", {"pd": pd}):
    say(f"{what}.last", session.attempt(what, **handle)[0])
say("pinned_at_the_end", uverbs.pinned())
session.close()
