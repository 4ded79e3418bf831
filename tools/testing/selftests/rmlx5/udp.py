# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends a datagram to the discard port from each of COUNT source ports: that many flows.

usage: udp.py FROM TO COUNT
"""
import socket
import sys

for port in range(5000, 5000 + int(sys.argv[3])):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.bind((sys.argv[1], port))
        out.sendto(b"x", (sys.argv[2], 9))
