#!/usr/bin/env python3
"""Runs HAProxy in front of two processes of the `behind_proxy` example and talks to it.

    ci/interop/haproxy.py TARGET/release/examples/behind_proxy [REQUESTS]

Checks that both processes serve, that each request is told its own client's address, through version 1
of the PROXY protocol (one process) and version 2 (the other), that garbage in the place of a header costs
nothing but its own connection, and that a process which is shut down, after HAProxy was told to send it nobody
new, loses no request: the other one answers the rest.
"""

import collections
import concurrent.futures
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from example import Example, free_ports, program, wait_for

CONFIG = """
global
    maxconn 2000
    stats socket {admin} level admin
defaults
    mode tcp
    retries 3
    option redispatch
    timeout connect 2s
    timeout client 10s
    timeout server 10s
    timeout check 10s
frontend front
    bind 127.0.0.1:{front}
    default_backend servers
backend servers
    balance roundrobin
    server one 127.0.0.1:{one} send-proxy check
    server two 127.0.0.1:{two} send-proxy-v2 check
"""


def request(port):
    """The address of the client as it knows itself, and the answer's two words."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(b"GET / HTTP/1.0\r\nHost: x\r\n\r\n")
        answer = b""
        while data := peer.recv(4096):
            answer += data
        name = "{}:{}".format(*peer.getsockname())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK"), answer
    client, pid = body.decode().split()
    return name, client, int(pid)


def requests(port, count):
    served = collections.Counter()
    for _ in range(count):
        name, client, pid = request(port)
        assert name == client, f"{name} was taken for {client}"
        served[pid] += 1
    return served


def refused(port, instead):
    """Whoever begins with something else than a header has no answer."""
    with socket.create_connection(("127.0.0.1", port)) as direct:
        try:
            direct.sendall(instead)
            assert direct.recv(100) == b"", "answered without a header"
        except (BrokenPipeError, ConnectionResetError):
            pass


def drain(admin, name, child):
    """Shuts a process down in order, as its administrator would, in the midst of requests."""
    time.sleep(0.1)
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(admin)
        control.sendall(f"set server servers/{name} state drain\n".encode())
        control.shutdown(socket.SHUT_WR)
        answer = control.recv(4096)
        assert not answer.strip(), answer
    child.send_signal(signal.SIGINT)


def check(one, two, front, admin, count):
    served = requests(front, count)
    assert set(served) == {one.child.pid, two.child.pid}, served
    assert min(served.values()) >= count // 4, served
    print(f"{count} requests through HAProxy, every client told its address; "
          f"PROXY v1: {served[one.child.pid]}, v2: {served[two.child.pid]}")

    garbage = random.Random(1).randbytes(300)
    for port in (one.port, two.port):
        for instead in (b"GET / HTTP/1.0\r\n\r\n", garbage, b"PROXY TCP4 1 2 3 4\r\n\r\n"):
            refused(port, instead)
    served = requests(front, 20)
    assert len(served) == 2, served
    print("who comes without a PROXY header, or with garbage in its place, is refused; both serve on")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        draining = pool.submit(drain, admin, "one", one.child)
        served = requests(front, count)
        draining.result()
    after = requests(front, count)
    assert one.child.wait(timeout=20) == 0
    assert set(after) == {two.child.pid}, after
    served += after
    assert served[one.child.pid] + served[two.child.pid] == 2 * count, served
    print(f"{2 * count} more while one process was shut down: {served[one.child.pid]} by it, "
          f"{served[two.child.pid]} by the other, none lost")
    two.end()
    print("both ended with 0")


def main():
    haproxy = program("haproxy", "haproxy")
    if not haproxy:
        return
    example, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    [front] = free_ports(1)
    with Example(example, 0) as one, Example(example, 0) as two, \
            tempfile.TemporaryDirectory() as folder:
        admin = f"{folder}/admin"
        config = pathlib.Path(folder, "haproxy.cfg")
        config.write_text(CONFIG.format(admin=admin, front=front, one=one.port, two=two.port))
        proxy = subprocess.Popen([haproxy, "-q", "-f", config, "-db"])
        try:
            wait_for(front)
            check(one, two, front, admin, count)
        finally:
            proxy.kill()
            proxy.wait()


if __name__ == "__main__":
    main()
