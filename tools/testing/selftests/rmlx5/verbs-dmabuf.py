# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Registers a dmabuf, of memory that udmabuf gives out as if it were another device's.

usage: verbs-dmabuf.py DEVICE

Prints the errno of the registration, 0 when it succeeds.
"""
import ctypes
import fcntl
import os
import struct
import sys

BYTES = 65536
# _IOW('u', 0x42, struct udmabuf_create), include/uapi/linux/udmabuf.h
UDMABUF_CREATE = 0x40187542
# IBV_ACCESS_LOCAL_WRITE
LOCAL_WRITE = 1

memory = os.memfd_create("memory", os.MFD_ALLOW_SEALING)
os.ftruncate(memory, BYTES)
fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
with open("/dev/udmabuf", "rb") as udmabuf:
    # A request that can be changed: then the answer is the number of the file.
    dmabuf = fcntl.ioctl(udmabuf, UDMABUF_CREATE, bytearray(struct.pack("=IIQQ", memory, 0, 0, BYTES)), True)

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
for function in "ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_dmabuf_mr":
    getattr(verbs, function).restype = ctypes.c_void_p
verbs.ibv_get_device_name.restype = ctypes.c_char_p
number = ctypes.c_int()
devices = ctypes.cast(verbs.ibv_get_device_list(ctypes.byref(number)), ctypes.POINTER(ctypes.c_void_p))
name = sys.argv[1].encode()
device = next(d for d in devices[: number.value] if verbs.ibv_get_device_name(ctypes.c_void_p(d)) == name)
pd = verbs.ibv_alloc_pd(ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(device))))
if not pd:
    sys.exit("no PD")
zero = ctypes.c_uint64(0)
mr = verbs.ibv_reg_dmabuf_mr(ctypes.c_void_p(pd), zero, ctypes.c_size_t(BYTES), zero, dmabuf, LOCAL_WRITE)
print(0 if mr else ctypes.get_errno())
