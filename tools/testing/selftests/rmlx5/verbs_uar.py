# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Doorbell pages that a process asks for one by one. Source: include/uapi/rdma/mlx5_user_ioctl_cmds.h, mlx5-abi.h."""
import ctypes
import struct

# MLX5_LIB_CAP_DYN_UAR: a context comes without doorbell pages.
BY_PAGE = 2
# MLX5_IB_OBJECT_UAR, and how a page is wanted.
UAR, BLUE_FLAME, UNCACHED = 0x1008, 0, 1


def ask(session, kind=UNCACHED, missing=None, kind_length=8, offset_length=8, index_length=4, **places):
    """Errno of UAR_OBJ_ALLOC, and the page: handle, offset for mmap, length, index. `places`: where an answer goes
    instead; `missing`: the place of an attribute that is not sent."""
    room = ctypes.create_string_buffer(32)
    at = ctypes.addressof(room)
    rows = [
        (0x1000, 0, 1, 0, 0), (0x1001, kind_length, 1, 0, kind), (0x1002, offset_length, 1, 0, places.get("offset", at)),
        (0x1003, 4, 1, 0, places.get("length", at + 16)), (0x1004, index_length, 1, 0, places.get("index", at + 24)),
    ]
    body = b"".join(struct.pack("=HHHHQ", *row) for place, row in enumerate(rows) if place != missing)
    data = bytearray(struct.pack("=HHHHQII", 24 + len(body), UAR, 0x1000, len(body) // 16, 0, 1, 0) + body)
    code = session.ioctl_raw(data)
    handle = struct.unpack_from("=I", data, 24 + 8)[0]
    offset, length, index = struct.unpack_from("=Q8xI4xI", room)
    return code, {"handle": handle, "offset": offset, "length": length, "index": index}


def end(session, page):
    """Errno of UAR_OBJ_DESTROY."""
    return session.ioctl(UAR, 0x1001, [(0x1000, 0, 1, 0, page["handle"])])
