#!/usr/bin/env python3
"""The HTTP examples with curl: HTTP/1.1 and HTTP/2, keep-alive, 100 MB both ways, a slow client.

    ci/interop/http.py TARGET/release/examples

The folder holds axum_router and http_files (features `hyper` and `tokio-io`); curl must know HTTP/2.
"""

import hashlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from example import Example

SIZE = 100_000_000


def curl(*args):
    done = subprocess.run(["curl", "--silent", "--show-error", "--fail", *args], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") \
            else hashlib.sha256(file.read()).hexdigest()


def slow_client_is_cut_off(server):
    """It sends a byte of its header every now and then; others are served meanwhile."""
    start, served = time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.settimeout(0.5)
        slow.sendall(b"GET /small HTTP/1.1\r\n")
        while time.monotonic() - start < 30:
            try:
                slow.sendall(b"X")
                slow.recv(4096)  # Its end, or an answer that says why.
                break
            except socket.timeout:
                assert curl(f"{server.url}/small") == b"small\n"
                served += 1
            except OSError:
                break
    seconds = time.monotonic() - start
    assert served and 4 < seconds < 20, (served, seconds)
    print(f"a client that trickles its header: cut off after {seconds:.1f} s, {served} others served")


def main():
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout
    print(version.splitlines()[0])
    with tempfile.TemporaryDirectory() as directory:
        files = pathlib.Path(directory)
        (files / "small").write_bytes(b"small\n")
        (files / "big").write_bytes(os.urandom(SIZE))
        (files / "out").mkdir()
        (files / "secret").mkdir()
        wanted, out = digest(files / "big"), files / "out" / "got"

        with Example("http_files", str(files)) as server:
            curl("--http1.1", f"{server.url}/big", "-o", out)
            assert digest(out) == wanted
            print(f"http_files, HTTP/1.1: {SIZE} bytes down, the checksum is right")
            count = curl(f"{server.url}/small", f"{server.url}/small", "-o", out, "-o", out,
                         "-w", "%{num_connects}\n").split()
            assert count == [b"1", b"0"], count
            print("http_files: two requests on one connection")
            for path, expected in [("/none", b"404"), ("/../etc/passwd", b"404"), ("/secret", b"404")]:
                code = subprocess.run(["curl", "-s", "--path-as-is", "-o", out, "-w", "%{http_code}",
                                       server.url + path], capture_output=True).stdout
                assert code == expected, (path, code)
            print("http_files: what is not there, or outside, is not found")
            slow_client_is_cut_off(server)

        with Example("axum_router") as server:
            for flag, name in [("--http1.1", "HTTP/1.1"), ("--http2-prior-knowledge", "HTTP/2")]:
                assert curl(flag, f"{server.url}/hello/you") == b"hello you\n"
                curl(flag, "-H", "Expect:", "--data-binary", f"@{files / 'big'}", f"{server.url}/echo",
                     "-o", out)
                assert digest(out) == wanted
                print(f"axum_router, {name}: {SIZE} bytes up and down, the checksum is right")
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
