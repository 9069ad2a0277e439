#!/usr/bin/env python3
"""Runs HAProxy in front of two processes of the `behind_proxy` example and talks to it.

    ci/interop/haproxy.py TARGET/release/examples/behind_proxy [REQUESTS]

Says so and does nothing where HAProxy is not installed.

Checks that both processes serve, that each request is told its own client's address, through version 1
of the PROXY protocol (one process) and version 2 (the other), that garbage in the place of a header costs
nothing, and that a process which is shut down loses no request: the other one answers the rest.
"""

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

CONFIG = """
global
    maxconn 2000
defaults
    mode tcp
    retries 3
    option redispatch
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend front
    bind 127.0.0.1:{front}
    default_backend servers
backend servers
    balance roundrobin
    server one 127.0.0.1:{one} send-proxy check inter 100ms
    server two 127.0.0.1:{two} send-proxy-v2 check inter 100ms
"""


def start(program):
    process = subprocess.Popen([program, "0"], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    return process, int(re.match(r"listening on 127\.0\.0\.1:(\d+)", line).group(1))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


def main():
    if not shutil.which("haproxy"):
        return print("haproxy is not installed")
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    processes, proxy = [], None
    try:
        one, one_port = start(program)
        processes.append(one)
        two, two_port = start(program)
        processes.append(two)
        front = free_port()
        with tempfile.NamedTemporaryFile("w", suffix=".cfg") as config:
            config.write(CONFIG.format(front=front, one=one_port, two=two_port))
            config.flush()
            proxy = subprocess.Popen(["haproxy", "-q", "-f", config.name, "-db"])
            for _ in range(100):
                try:
                    socket.create_connection(("127.0.0.1", front)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            served = requests(front, count)
            assert set(served) == {one.pid, two.pid}, served
            assert min(served.values()) >= count // 4, served
            print(f"{count} requests through HAProxy, every client told its address; "
                  f"PROXY v1: {served[one.pid]}, v2: {served[two.pid]}")

            for port in (one_port, two_port):
                with socket.create_connection(("127.0.0.1", port)) as direct:
                    direct.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    try:
                        assert direct.recv(100) == b"", "answered without a header"
                    except ConnectionResetError:
                        pass
            print("who comes without a PROXY header is refused")

            threading.Timer(0.1, one.send_signal, [signal.SIGINT]).start()
            served = requests(front, count)
            assert one.wait(timeout=20) == 0
            assert served[one.pid] + served[two.pid] == count, served
            assert served[two.pid] > served[one.pid] > 0, served
            print(f"{count} more while one process was shut down: {served[one.pid]} by it, "
                  f"{served[two.pid]} by the other, none lost")
            two.send_signal(signal.SIGINT)
            assert two.wait(timeout=20) == 0
            print("both ended with 0")
    finally:
        for process in processes + ([proxy] if proxy else []):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()


if __name__ == "__main__":
    main()
