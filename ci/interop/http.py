#!/usr/bin/env python3
"""The HTTP examples with curl: HTTP/1.1 and HTTP/2, in the clear and behind TLS, keep-alive, 100 MB both ways, a
slow client.

    ci/interop/http.py TARGET/release/examples

The folder holds axum_router, http_files and https (features `hyper`, `tls` and `tokio-io`); curl must know HTTP/2.
"""

import hashlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from example import Example, certificate

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
    assert served and 4 < seconds < 30, (served, seconds)
    print(f"a client that trickles its header: cut off after {seconds:.1f} s, {served} others served")


def keeps_connections(name, url, *args, out):
    """Two requests are made on one connection."""
    count = curl(*args, url, url, "-o", out, "-o", out, "-w", "%{num_connects}\n").split()
    assert count == [b"1", b"0"], count
    print(f"{name}: two requests on one connection")


def secured(program, files, out, wanted):
    """The version of HTTP is agreed upon in the handshake, by ALPN."""
    cert, key = certificate(files)
    with Example(program, 0, cert, key) as server:
        url = f"https://localhost:{server.port}"
        trusted = ["--cacert", cert, "--resolve", f"localhost:{server.port}:127.0.0.1"]
        for flag, version in [("--http1.1", b"1.1"), ("--http2", b"2")]:
            spoken = curl(*trusted, flag, f"{url}/hello/you", "-w", "%{http_version}")
            assert spoken == b"hello you\n" + version, spoken
            name = f"https, HTTP/{version.decode()} by ALPN"
            curl(*trusted, flag, "-H", "Expect:", "--data-binary", f"@{files / 'big'}", f"{url}/echo", "-o", out)
            assert digest(out) == wanted
            print(f"{name}: {SIZE} bytes up and down, the checksum is right")
            keeps_connections(name, f"{url}/", *trusted, flag, out=out)
        refused = subprocess.run(["curl", "-sS", url], capture_output=True, text=True)
        assert refused.returncode == 60, refused
        print("https: who does not know the certificate does not talk to it")
        context = ssl.create_default_context(cafile=cert)
        with socket.create_connection(("127.0.0.1", server.port)) as plain, \
                context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert peer.recv(1000).startswith(b"HTTP/1.1 200 OK")
            start = time.monotonic()
            server.child.send_signal(signal.SIGINT)
            assert peer.recv(1000) == b"", "an SSLEOFError would be the end without a goodbye"
        # After five seconds it would have been ended by force.
        assert server.child.wait(60) == 0 and time.monotonic() - start < 5
        print("https: interrupted, it says goodbye to an idle connection, and ends at once")


def main():
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout
    print(version.splitlines()[0])
    with tempfile.TemporaryDirectory() as directory:
        files = pathlib.Path(directory)
        (files / "small").write_bytes(b"small\n")
        (files / "with blank").write_bytes(b"small\n")
        (files / "big").write_bytes(os.urandom(SIZE))
        (files / "out").mkdir()
        (files / "secret").mkdir()
        wanted, out = digest(files / "big"), files / "out" / "got"

        examples = pathlib.Path(sys.argv[1])

        with Example(examples / "http_files", 0, files) as server:
            curl("--http1.1", f"{server.url}/big", "-o", out)
            assert digest(out) == wanted
            print(f"http_files, HTTP/1.1: {SIZE} bytes down, the checksum is right")
            keeps_connections("http_files", f"{server.url}/small", out=out)
            assert curl(f"{server.url}/with%20blank") == b"small\n"
            for path, expected in [("/none", b"404"), ("/../etc/passwd", b"404"), ("/secret", b"404"),
                                   ("/%2e%2e/etc/passwd", b"404"), ("/%2Fetc/passwd", b"404")]:
                code = subprocess.run(["curl", "-s", "--path-as-is", "-o", out, "-w", "%{http_code}",
                                       server.url + path], capture_output=True).stdout
                assert code == expected, (path, code)
            print("http_files: what is not there, or outside, is not found")
            slow_client_is_cut_off(server)

        with Example(examples / "axum_router", 0) as server:
            for flag, name in [("--http1.1", "HTTP/1.1"), ("--http2-prior-knowledge", "HTTP/2")]:
                assert curl(flag, f"{server.url}/hello/you") == b"hello you\n"
                curl(flag, "-H", "Expect:", "--data-binary", f"@{files / 'big'}", f"{server.url}/echo",
                     "-o", out)
                assert digest(out) == wanted
                print(f"axum_router, {name}: {SIZE} bytes up and down, the checksum is right")
                # curl 7.88 asks once on a connection whose HTTP/2 was not agreed upon, whoever serves.
                if name == "HTTP/1.1":
                    keeps_connections(f"axum_router, {name}", f"{server.url}/", flag, out=out)

        secured(examples / "https", files, out, wanted)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
