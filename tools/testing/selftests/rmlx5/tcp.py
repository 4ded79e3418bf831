# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A TCP stream in each direction at the same time; prints the SHA-256 of what was sent and of what came.

usage: tcp.py listen PORT BYTES
       tcp.py ADDRESS PORT BYTES

Every step has a time-out of 60 seconds; a stream that breaks ends with an error.
"""
import hashlib
import os
import socket
import sys
import threading

address, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
socket.setdefaulttimeout(60)
if address == "listen":
    connection, _ = socket.create_server(("", port)).accept()
else:
    connection = socket.create_connection((address, port))
connection.settimeout(60)
data = os.urandom(size)


def send():
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


sender = threading.Thread(target=send)
sender.start()
got, count = hashlib.sha256(), 0
while block := connection.recv(1 << 18):
    got.update(block)
    count += len(block)
sender.join()
print("sent", hashlib.sha256(data).hexdigest(), size)
print("got", got.hexdigest(), count)
