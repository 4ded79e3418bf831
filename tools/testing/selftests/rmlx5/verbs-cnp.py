# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends notifications of congestion (RoCEv2 CNPs) for a QP number.

usage: verbs-cnp.py INTERFACE SOURCE-ADDRESS ADDRESS MAC QPN COUNT

Format: InfiniBand Architecture Specification, annexes A17.4 (ICRC over IPv4) and A17.9 (CNP).
"""
import socket
import struct
import sys
import zlib

interface, source, target, mac, number, count = sys.argv[1:]
PORT = 4791
CNP, BECN, PKEY = 0x81, 1 << 30, 0xFFFF
# IPv4: type of service (ECT(0)), identification, do not fragment, time to live, UDP.
TOS, ID, FLAGS, TTL, UDP = 2, 0, 0x4000, 64, 17


def ip(tos, ttl, check, length):
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    return struct.pack(">BBHHHBBH", 0x45, tos, length, ID, FLAGS, ttl, UDP, check) + addresses


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def icrc(length, udp, bth, rest):
    """What routers change counts as all ones: also the byte of the base header with FECN and BECN."""
    masked = b"\xff" * 8 + ip(0xFF, 0xFF, 0xFFFF, length) + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:] + rest
    return struct.pack("<I", zlib.crc32(masked))


bth = struct.pack(">BBHII", CNP, 0, PKEY, BECN | int(number, 0), 0)
rest = bytes(16)
length = 20 + 8 + len(bth) + len(rest) + 4
udp = struct.pack(">HHHH", 0xC000, PORT, length - 20, 0)
head = ip(TOS, TTL, checksum(ip(TOS, TTL, 0, length)), length)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((interface, 0))
ethernet = bytes.fromhex(mac.replace(":", "")) + out.getsockname()[4] + b"\x08\x00"
for _ in range(int(count)):
    out.send(ethernet + head + udp + bth + rest + icrc(length, udp, bth, rest))
