# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sets the moderation of a CQ, which no program of rdma-core does.

usage: verbs-moderate.py DEVICE COUNT PERIOD

Prints the answer of the kernel: 0, or an errno. The verb has no function that is exported, so that the library's own
request is made (`ibv_cmd_modify_cq`).
"""
import ctypes
import sys

name, count, period = sys.argv[1].encode(), int(sys.argv[2]), int(sys.argv[3])
verbs = ctypes.CDLL("libibverbs.so.1")
for function in "ibv_get_device_list", "ibv_open_device", "ibv_create_cq":
    getattr(verbs, function).restype = ctypes.c_void_p
verbs.ibv_get_device_name.restype = ctypes.c_char_p


class Moderation(ctypes.Structure):
    """`struct ibv_modify_cq_attr`; bit 0 of the mask is the moderation."""

    _fields_ = [("mask", ctypes.c_uint32), ("count", ctypes.c_uint16), ("period", ctypes.c_uint16)]


number = ctypes.c_int()
devices = ctypes.cast(verbs.ibv_get_device_list(ctypes.byref(number)), ctypes.POINTER(ctypes.c_void_p))
device = next(d for d in devices[: number.value] if verbs.ibv_get_device_name(ctypes.c_void_p(d)) == name)
context = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(device)))
cq = verbs.ibv_create_cq(context, 16, None, None, 0)
if not cq:
    sys.exit("no CQ")
# Headers of 8 and 16 bytes, and `struct ib_uverbs_ex_modify_cq`.
command = ctypes.create_string_buffer(8 + 16 + 16)
attributes = Moderation(1, count, period)
print(verbs.ibv_cmd_modify_cq(ctypes.c_void_p(cq), ctypes.byref(attributes), command, ctypes.c_size_t(len(command))))
