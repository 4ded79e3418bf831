# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UDP that the sender's card cuts into datagrams (UDP_SEGMENT).

net-cut.py take COUNT   receives that many datagrams, says how many are right
net-cut.py give HOST    sends five datagrams in one call
"""

import socket
import sys

PORT = 7009
UDP_SEGMENT = 103
SIZES = [1000, 1000, 1000, 1000, 300]


def pattern():
    return bytes(index * 7 % 251 for index in range(sum(SIZES)))


def take(count):
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind(("::", PORT))
    sock.settimeout(30)
    whole, at, good = pattern(), 0, 0
    for size in SIZES[:count]:
        good += sock.recv(65536) == whole[at : at + size]
        at += size
    print(good, "good")


def give(host):
    family, *_, address = socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)[0]
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SIZES[0])
    sock.sendto(pattern(), address)


if sys.argv[1] == "take":
    take(int(sys.argv[2]))
else:
    give(sys.argv[2])
