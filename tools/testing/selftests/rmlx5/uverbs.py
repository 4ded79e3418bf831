# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The uverbs file without any library: requests as bytes, so that each of them can be wrong.

Layouts: include/uapi/rdma/ib_user_verbs.h, ib_user_ioctl_cmds.h, rdma_user_ioctl_cmds.h; the private parts:
mlx5-abi.h. All in host order.
"""
import ctypes
import errno
import fcntl
import glob
import mmap
import os
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
FAILED = ctypes.c_void_p(-1).value

PAGE = 4096
R, W, X = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
SHARED, PRIVATE, ANONYMOUS = mmap.MAP_SHARED, mmap.MAP_PRIVATE, mmap.MAP_ANONYMOUS
FIXED = 0x10


def name_of(code):
    """The name of an errno; "ok" for 0."""
    return errno.errorcode.get(code, str(code)) if code else "ok"


def say(name, code):
    """A verdict, for tables."""
    print(name, name_of(code))


def map_memory(length, prot=R | W, flags=PRIVATE | ANONYMOUS, fd=-1, offset=0, at=0):
    """Address of new memory; OSError."""
    address = libc.mmap(at or None, length, prot, flags | (FIXED if at else 0), fd, offset)
    if address == FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return address


def map_again_and_again(length, part=512):
    """Address of `length` bytes of memory that are the same `part` pages again and again, scattered: what is pinned is
    counted for each page of the range, but there is no more than that."""
    memory = os.memfd_create("again")
    os.ftruncate(memory, part * PAGE)
    # Neighbours are not allocated one after the other.
    for page in (*range(0, part, 2), *range(1, part, 2)):
        os.pwrite(memory, b"x", page * PAGE)
    start = map_memory(length + part * PAGE, 0)
    for at in range(0, length, part * PAGE):
        map_memory(part * PAGE, R | W, SHARED, memory, 0, start + at)
    os.close(memory)
    return start


def unmap(address, length):
    libc.munmap(address, length)


def hole(pages=1):
    """Address that nobody may touch, and where nothing else will be mapped."""
    return map_memory(pages * PAGE, 0)


def pinned():
    """Pages that this process has pinned."""
    for line in open("/proc/self/status"):
        if line.startswith("VmPin:"):
            return int(line.split()[1]) // 4
    return 0


class Layout:
    """Members of a structure as "name:format ...", in order, without padding."""

    def __init__(self, text):
        pairs = [word.split(":") for word in text.split()]
        self.names = [name for name, _ in pairs]
        self.formats = dict(pairs)
        self.struct = struct.Struct("=" + "".join(form for _, form in pairs))
        self.size = self.struct.size

    def pack(self, values):
        blank = {name: b"" if "s" in form else 0 for name, form in self.formats.items()}
        unknown = values.keys() - blank.keys()
        assert not unknown, f"no members {unknown}"
        blank.update(values)
        return self.struct.pack(*(blank[name] for name in self.names))

    def unpack(self, data):
        return dict(zip(self.names, self.struct.unpack(data[: self.size])))

    def most(self, name):
        """The largest value of a member; None for bytes."""
        form = self.formats[name]
        return None if "s" in form else (1 << 8 * struct.calcsize("=" + form)) - 1


# struct ib_uverbs_buffer_desc.
DESCRIPTOR = Layout("type:I fd:I flags:I optional:I addr:Q length:Q")


class Command:
    """A write() command: its members, the private part, and the same of the answer.

    An extended command has no pointer to the answer among its members: the header has it.
    """

    def __init__(self, number, body, private="", answer="", private_answer="", extended=False):
        self.number, self.extended = number, extended
        self.body, self.private = Layout(body), Layout(private)
        self.answer, self.private_answer = Layout(answer), Layout(private_answer)

    def request(self, values):
        """Bytes of body and of the private part."""
        body = {name: value for name, value in values.items() if name in self.body.formats}
        rest = {name: value for name, value in values.items() if name not in self.body.formats}
        return self.body.pack(body), self.private.pack(rest)


QP_BODY = (
    "user_handle:Q pd:I send_cq:I recv_cq:I srq:I send_wr:I recv_wr:I send_sge:I recv_sge:I inline:I "
    "sig_all:B type:B is_srq:B body_reserved:B "
)
QP_PRIVATE = (
    "buf:Q db:Q sends:I receives:I shift:I flags:I uidx:I register:I sq_buf:Q ece:I streams:H reserved:H"
)
QP_ANSWER = "qp:I qpn:I send_wr:I recv_wr:I send_sge:I recv_sge:I inline:I answer_reserved:I"
CQ_PRIVATE = "buf:Q db:Q cqe_size:I comp:B comp_format:B cq_flags:H uar:H reserved0:H reserved1:I"
DEST = "dgid:16s flow_label:I dlid:H dest_reserved:H sgid_index:B hop_limit:B tclass:B sl:B path_bits:B rate:B global:B dport:B "
ALT = "alt_gid:16s alt_label:I alt_dlid:H alt_reserved:H alt_index:B alt_hops:B alt_class:B alt_sl:B alt_bits:B alt_rate:B alt_global:B alt_dport:B "
MODIFY = DEST + ALT + (
    "qp:I mask:I qkey:I rq_psn:I sq_psn:I dest_qpn:I access:I pkey_index:H alt_pkey:H state:B cur_state:B mtu:B mig:B "
    "en_sqd:B rd_atomic:B dest_rd_atomic:B rnr_timer:B port:B timeout:B retries:B rnr_retry:B alt_port:B alt_timeout:B mreserved:H"
)
AH = "dgid:16s flow_label:I sgid_index:B hop_limit:B tclass:B grh_reserved:B dlid:H sl:B path_bits:B rate:B global:B port:B ah_reserved:B"
DEVICE = (
    "fw:Q node:Q system:Q max_mr_size:Q page_size_cap:Q vendor:I part:I hw:I max_qp:I max_qp_wr:I cap_flags:I max_sge:I "
    "max_sge_rd:I max_cq:I max_cqe:I max_mr:I max_pd:I max_qp_rd_atom:I max_ee_rd_atom:I max_res_rd_atom:I "
    "max_qp_init_rd_atom:I max_ee_init_rd_atom:I atomic:I max_ee:I max_rdd:I max_mw:I max_raw6:I max_raw:I "
    "max_mcast_grp:I max_mcast_qp_attach:I max_total_mcast_qp_attach:I max_ah:I max_fmr:I max_map_per_fmr:I max_srq:I "
    "max_srq_wr:I max_srq_sge:I max_pkeys:H ack_delay:B ports:B reserved:4s"
)

COMMANDS = {
    "get_context": Command(
        0, "response:Q", "registers:I low:I flags:I comp_mask:I cqe_version:B reserved0:B reserved1:H reserved2:I lib_caps:Q",
        "async_fd:I vectors:I",
        "qp_tab:I bf_size:I registers:I cache_line:I sq_desc:H rq_desc:H send_blocks:I recv_wr:I srq_wr:I ports:H flow:H comp_mask:I "
        "length:I cqe_version:B supp:B inline:B clock:B core_clock:Q log_uar:I uars_per_page:I dyn:I dump:I",
    ),
    "query_device": Command(1, "response:Q", "", DEVICE),
    "query_device_ex": Command(1, "comp_mask:I reserved:I", "", "all:304s", extended=True),
    "query_port": Command(2, "response:Q port:B reserved:7s", "", "all:40s"),
    "alloc_pd": Command(3, "response:Q", "", "pd:I", "pdn:I"),
    "dealloc_pd": Command(4, "pd:I"),
    "create_ah": Command(5, "response:Q user_handle:Q pd:I reserved:I " + AH, "", "ah:I", "length:I mac:6s reserved:6s"),
    "destroy_ah": Command(8, "ah:I"),
    "reg_mr": Command(9, "response:Q start:Q length:Q virt:Q pd:I access:I", "", "mr:I lkey:I rkey:I"),
    "rereg_mr": Command(11, "response:Q mr:I flags:I start:Q length:Q virt:Q pd:I access:I", "", "lkey:I rkey:I"),
    "dereg_mr": Command(13, "mr:I"),
    "alloc_mw": Command(14, "response:Q pd:I kind:B mw_reserved:3s", "", "mw:I rkey:I"),
    "dealloc_mw": Command(16, "mw:I"),
    "create_comp_channel": Command(17, "response:Q", "", "fd:I"),
    "create_cq": Command(
        18, "response:Q user_handle:Q cqe:I vector:I channel:i body_reserved:I", CQ_PRIVATE, "cq:I cqe:I", "cqn:I reserved:I"
    ),
    "create_cq_ex": Command(
        18, "user_handle:Q cqe:I vector:I channel:i comp_mask:I flags:I body_reserved:I", CQ_PRIVATE,
        "cq:I cqe:I comp_mask:I length:I", "cqn:I reserved:I", extended=True,
    ),
    "resize_cq": Command(19, "response:Q cq:I cqe:I", "buf:Q cqe_size:H reserved0:H reserved1:I", "cqe:I reserved:I"),
    "destroy_cq": Command(20, "response:Q cq:I reserved:I", "", "comp:I async:I"),
    "poll_cq": Command(21, "response:Q cq:I entries:I", "", "all:56s"),
    "req_notify_cq": Command(23, "cq:I solicited:I"),
    "create_qp": Command(24, "response:Q " + QP_BODY, QP_PRIVATE, QP_ANSWER, "register:I private_reserved:36s"),
    "create_qp_ex": Command(
        24, QP_BODY + "comp_mask:I create_flags:I ind_table:I source_qpn:I", QP_PRIVATE, QP_ANSWER + " comp_mask:I length:I",
        "register:I private_reserved:36s", extended=True,
    ),
    "query_qp": Command(25, "response:Q qp:I mask:I", "", "all:128s"),
    "modify_qp": Command(26, MODIFY),
    "modify_qp_ex": Command(26, MODIFY + " rate_limit:I ex_reserved:I", "", "comp_mask:I length:I", extended=True),
    "destroy_qp": Command(27, "response:Q qp:I reserved:I", "", "events:I"),
    "post_send": Command(28, "response:Q qp:I wrs:I sges:I size:I", "", "bad:I"),
    "post_recv": Command(29, "response:Q qp:I wrs:I sges:I size:I", "", "bad:I"),
    "attach_mcast": Command(30, "gid:16s qp:I mlid:H reserved:H"),
    "detach_mcast": Command(31, "gid:16s qp:I mlid:H reserved:H"),
    "create_srq": Command(
        32, "response:Q user_handle:Q pd:I max_wr:I max_sge:I limit:I", "buf:Q db:Q flags:I reserved0:I uidx:I reserved1:I",
        "srq:I max_wr:I max_sge:I srqn:I", "number:I reserved:I",
    ),
    "modify_srq": Command(33, "srq:I mask:I max_wr:I limit:I"),
    "query_srq": Command(34, "response:Q srq:I reserved:I", "", "max_wr:I max_sge:I limit:I reserved:I"),
    "destroy_srq": Command(35, "response:Q srq:I reserved:I", "", "events:I"),
    "post_srq_recv": Command(36, "response:Q srq:I wrs:I sges:I size:I", "", "bad:I"),
    "open_xrcd": Command(37, "response:Q fd:I oflags:I", "", "xrcd:I"),
    "close_xrcd": Command(38, "xrcd:I"),
    "create_xsrq": Command(
        39, "response:Q user_handle:Q kind:I pd:I max_wr:I max_sge:I limit:I tags:I xrcd:I cq:I",
        "buf:Q db:Q flags:I reserved0:I uidx:I reserved1:I", "srq:I max_wr:I max_sge:I srqn:I", "number:I reserved:I",
    ),
    "open_qp": Command(40, "response:Q user_handle:Q xrcd:I qpn:I type:B open_reserved:7s", "", QP_ANSWER),
    "modify_cq": Command(57, "cq:I mask:I count:H period:H reserved:I", extended=True),
}


class Refused(Exception):
    """A call that the kernel refused: what and errno."""

    def __init__(self, what, code):
        super().__init__(f"{what}: {name_of(code)}")
        self.code = code


class File:
    """An open uverbs file of RDMA device `name`."""

    def __init__(self, name):
        node = os.path.basename(glob.glob(f"/sys/class/infiniband/{name}/device/infiniband_verbs/uverbs*")[0])
        self.fd = os.open(f"/dev/infiniband/{node}", os.O_RDWR | os.O_CLOEXEC)

    def close(self):
        os.close(self.fd)

    def map(self, offset, length=PAGE, prot=W, flags=SHARED):
        """Errno and address of a mapping of the file."""
        try:
            return 0, map_memory(length, prot, flags, self.fd, offset)
        except OSError as error:
            return error.errno, None

    def raw(self, data):
        """Errno of a write() of these bytes."""
        try:
            os.write(self.fd, data)
        except OSError as error:
            return error.errno
        return 0

    def send(self, command, body, private, room=None, private_room=None, at=None, words=None):
        """Errno and answer of a command of given bytes. `room`: bytes for the answer, `at`: where it goes instead of
        a buffer; `words`: what the header says of its length, instead of the truth."""
        room = command.answer.size if room is None else room
        private_room = command.private_answer.size if private_room is None else private_room
        buffer = ctypes.create_string_buffer(room + private_room + 8)
        address = ctypes.addressof(buffer) if at is None else at
        if command.extended:
            if not room + private_room:
                address = 0
            head = struct.pack(
                "=IHHQHHI", command.number | 1 << 31, len(body) // 8 if words is None else words, room // 8, address,
                len(private) // 8, private_room // 8, 0,
            )
        else:
            if "response" in command.body.formats and len(body) >= 8:
                body = struct.pack("=Q", address) + body[8:]
            total = 8 + len(body) + len(private)
            head = struct.pack("=IHH", command.number, total // 4 if words is None else words, (room + private_room) // 4)
        code = self.raw(head + body + private)
        return code, bytes(buffer)

    def attempt(self, what, at=None, **values):
        """Errno of a command by its name, and its answer as a dictionary."""
        command = COMMANDS[what]
        code, data = self.send(command, *command.request(values), at=at)
        answer = {}
        if not code and at is None:
            answer = command.answer.unpack(data)
            answer.update(command.private_answer.unpack(data[command.answer.size :]))
        return code, answer

    def call(self, what, **values):
        """The answer of a command; Refused."""
        code, answer = self.attempt(what, **values)
        if code:
            raise Refused(what, code)
        return answer

    def ioctl(self, object_id, method, attributes):
        """Errno of an ioctl; `attributes`: list of (id, length, flags, reserved, data)."""
        body = b"".join(struct.pack("=HHHHQ", *attribute) for attribute in attributes)
        head = struct.pack("=HHHHQII", 24 + len(body), object_id, method, len(attributes), 0, 1, 0)
        return self.ioctl_raw(bytearray(head + body))

    def ioctl_raw(self, data):
        """Errno of an ioctl of these bytes, which the kernel may change."""
        try:
            fcntl.ioctl(self.fd, 0xC0181B01, data)
        except OSError as error:
            return error.errno
        return 0

    def ioctl_cq(self, private, cqe=15, **others):
        """Errno of CQ_CREATE; `private`: bytes of what the driver gets; `others`: further attributes by number. The CQ
        goes again."""
        buffer, answer = ctypes.create_string_buffer(private), ctypes.create_string_buffer(64)
        attributes = [
            (0, 0, 1, 0, 0), (1, 4, 1, 0, cqe), (2, 8, 1, 0, 0), (4, 4, 1, 0, 0), (6, 4, 1, 0, ctypes.addressof(answer)),
            (0x1000, len(private), 1, 0, ctypes.addressof(buffer)), (0x1001, 8, 1, 0, ctypes.addressof(answer) + 8),
            *((int(number[1:]), length, 1, 0, data) for number, (length, data) in others.items()),
        ]
        body = b"".join(struct.pack("=HHHHQ", *attribute) for attribute in attributes)
        data = bytearray(struct.pack("=HHHHQII", 24 + len(body), 3, 0, len(attributes), 0, 1, 0) + body)
        code = self.ioctl_raw(data)
        if not code:
            handle = struct.unpack_from("=I", data, 24 + 8)[0]
            code = self.ioctl(3, 1, [(0, 0, 1, 0, handle), (1, 8, 1, 0, ctypes.addressof(answer))])
        return code


class Session(File):
    """A file with a context, and ways to make what belongs together."""

    def __init__(self, name, registers=16, low=4, lib_caps=0):
        super().__init__(name)
        try:
            self.context = self.call("get_context", registers=registers, low=low, cqe_version=1, lib_caps=lib_caps)
        except Refused:
            super().close()
            raise
        os.set_inheritable(self.context["async_fd"], False)
        self.records = map_memory(PAGE)
        self.used = 0

    def close(self):
        os.close(self.context["async_fd"])
        unmap(self.records, PAGE)
        super().close()

    def record(self):
        """Address of a doorbell record; there are 64, used again and again."""
        self.used = (self.used + 1) % 64
        return self.records + self.used * 64

    def pd(self):
        return self.call("alloc_pd")["pd"]

    def cq_values(self, cqe=15, buf=None, **values):
        length = 64 * (1 << cqe.bit_length())
        values = {"cqe": cqe, "channel": -1, "db": self.record(), "cqe_size": 64, **values}
        return {**values, "buf": map_memory(length) if buf is None else buf}

    def cq(self, **values):
        return self.call("create_cq", **self.cq_values(**values))["cq"]

    def qp_values(self, pd, cq, /, kind=2, buf=None, **values):
        """Of 16 sends and 16 receives of one entry; kind 2 is RC, 3 UC, 4 UD."""
        values = {
            "pd": pd, "send_cq": cq, "recv_cq": cq, "send_wr": 16, "recv_wr": 16, "send_sge": 1, "recv_sge": 1, "type": kind,
            "db": self.record(), "sends": 16, "receives": 16, "shift": 4, **values,
        }
        length = 64 * values["sends"] + (values["receives"] << min(values["shift"], 12))
        return {**values, "buf": map_memory(max(length, PAGE)) if buf is None else buf}

    def qp(self, pd, cq, /, **values):
        return self.call("create_qp", **self.qp_values(pd, cq, **values))["qp"]

    def srq_values(self, pd, /, max_wr=15, max_sge=1, buf=None, **values):
        length = 32 * (max_wr + 1)
        values = {"pd": pd, "max_wr": max_wr, "max_sge": max_sge, "db": self.record(), **values}
        return {**values, "buf": map_memory(max(length, PAGE)) if buf is None else buf}

    def srq(self, pd, /, **values):
        return self.call("create_srq", **self.srq_values(pd, **values))["srq"]

    def mr_values(self, pd, /, start=None, length=PAGE, **values):
        start = map_memory(length) if start is None else start
        return {"pd": pd, "start": start, "length": length, "virt": start, "access": 1, **values}

    def mr(self, pd, /, **values):
        return self.call("reg_mr", **self.mr_values(pd, **values))["mr"]


def gid_of(address):
    """The GID of an IPv4 address."""
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def gid_index(name, address):
    """Index of the RoCE v2 GID of an IPv4 address on the port of a device."""
    port = f"/sys/class/infiniband/{name}/ports/1"
    digits = gid_of(address).hex()
    text = ":".join(digits[at : at + 4] for at in range(0, 32, 4))
    for index in os.listdir(f"{port}/gids"):
        try:
            if open(f"{port}/gids/{index}").read().strip() == text and "v2" in open(f"{port}/gid_attrs/types/{index}").read():
                return int(index)
        except OSError:
            continue
    raise SystemExit(f"{name} has no GID of {address}")
