#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Traffic whose every byte is compared, between two machines.

net-traffic.py serve                      answers, until killed; TCP and UDP port 7000
net-traffic.py tcp HOST BYTES [STREAMS]   sends BYTES over each of STREAMS connections and gets as many back; both ends
                                          compare the checksum of what came with that of what was sent
net-traffic.py push HOST BYTES            the same one way only: to the other machine
net-traffic.py pull HOST BYTES            from there
net-traffic.py udp HOST SIZE COUNT        sends COUNT datagrams of SIZE bytes, at most 8 under way, and compares the echo
"""

import os
import select
import socket
import struct
import sys
import threading
import zlib

PORT = 7000
CHUNK = 1 << 16


def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def pattern(seed):
    """A megabyte that has no period that a ring or a page could have."""
    return os.urandom(1 << 10) * 1023 + os.urandom(1021) + bytes([seed & 255])


def send(sock, count, seed):
    data = pattern(seed)
    crc, left = 0, count
    while left:
        for at in range(0, len(data), CHUNK):
            part = data[at : at + min(CHUNK, left)]
            sock.sendall(part)
            crc = zlib.crc32(part, crc)
            left -= len(part)
            if not left:
                break
    return crc


def receive(sock, count):
    crc = 0
    while count:
        part = sock.recv(min(CHUNK, count))
        if not part:
            raise ConnectionError(f"{count} bytes are missing")
        crc = zlib.crc32(part, crc)
        count -= len(part)
    return crc


def exactly(sock, count):
    parts = b""
    while len(parts) < count:
        part = sock.recv(count - len(parts))
        if not part:
            raise ConnectionError("the other end left")
        parts += part
    return parts


def answer(sock):
    """Takes bytes, sends as many of its own; then both tell their checksums."""
    with sock:
        comes, goes = struct.unpack("!QQ", exactly(sock, 16))
        got = receive(sock, comes)
        sent = send(sock, goes, 2)
        sock.sendall(struct.pack("!II", got, sent))


def serve():
    tcp = socket.create_server(("", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    udp.bind(("", PORT))
    while True:
        ready, _, _ = select.select([tcp, udp], [], [])
        if udp in ready:
            data, address = udp.recvfrom(1 << 16)
            udp.sendto(data, address)
        if tcp in ready:
            sock, _ = tcp.accept()
            threading.Thread(target=answer, args=(sock,), daemon=True).start()


def one_tcp(host, there, back, faults):
    try:
        with socket.create_connection((host, PORT), timeout=60) as sock:
            sock.sendall(struct.pack("!QQ", there, back))
            sent = send(sock, there, 1)
            got = receive(sock, back)
            theirs_got, theirs_sent = struct.unpack("!II", exactly(sock, 8))
            if (sent, got) != (theirs_got, theirs_sent):
                faults.append(f"checksums: sent {sent:08x}, arrived {theirs_got:08x}; back {theirs_sent:08x}, {got:08x}")
    except OSError as error:
        faults.append(str(error))


def tcp(host, there, back, streams=1):
    faults = []
    threads = [threading.Thread(target=one_tcp, args=(host, there, back, faults)) for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


def udp(host, size, count):
    sock = socket.socket(family(host), socket.SOCK_DGRAM)
    # Eight datagrams in fragments of a page each are more than the usual buffer.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.connect((host, PORT))
    sock.settimeout(5)
    faults, under_way, body = [], {}, pattern(3)
    for number in range(count):
        data = struct.pack("!I", number) + body[number % 1000 : number % 1000 + size - 4]
        under_way[number] = data
        sock.send(data)
        while len(under_way) == 8 or (number == count - 1 and under_way):
            try:
                back = sock.recv(1 << 16)
            except TimeoutError:
                return faults + [f"no echo of {sorted(under_way)}"]
            if back != under_way.pop(struct.unpack("!I", back[:4])[0], None):
                faults.append(f"datagram {back[:4].hex()} came back different")
    return faults


def main():
    kind, *rest = sys.argv[1:]
    if kind == "serve":
        serve()
    if kind == "tcp":
        faults = tcp(rest[0], int(rest[1]), int(rest[1]), int(rest[2]) if len(rest) > 2 else 1)
    elif kind == "push":
        faults = tcp(rest[0], int(rest[1]), 0)
    elif kind == "pull":
        faults = tcp(rest[0], 0, int(rest[1]))
    else:
        faults = udp(rest[0], int(rest[1]), int(rest[2]))
    for fault in faults:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
