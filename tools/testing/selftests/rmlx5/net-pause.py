# SPDX-License-Identifier: Apache-2.0 OR MIT
# Pause frames for some priorities (802.1Q, priority-based flow control): net-pause.py DEVICE VECTOR COUNT
import socket
import struct
import sys

device, vector, count = sys.argv[1], int(sys.argv[2], 0), int(sys.argv[3])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((device, 0))
# One quantum for each of the priorities.
times = [vector >> priority & 1 for priority in range(8)]
frame = b"\x01\x80\xc2\x00\x00\x01" + out.getsockname()[4] + b"\x88\x08"
frame += struct.pack(">HH8H", 0x0101, vector, *times)
for _ in range(count):
    out.send(frame.ljust(60, b"\x00"))
