#!/usr/bin/env python3
"""TLS with peers that are not ours: `openssl s_client` and `s_server`, and Python's asyncio on both ends.

    ci/interop/tls.py TARGET/release/examples/echo_tls
"""

import asyncio
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

from example import Example, certificate

DATA = os.urandom(3_000_000)


async def python_client(port, context, data):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context,
                                                   server_hostname="localhost")
    async def send():
        writer.write(data)
        await writer.drain()
    got, _ = await asyncio.gather(reader.readexactly(len(data)), send())
    writer.close()
    await writer.wait_closed()
    return got


def ask(example, port, cert, data):
    """Our client."""
    done = subprocess.run([example, "client", f"127.0.0.1:{port}", "localhost", cert], input=data,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


async def python_server(example, cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    got = await asyncio.to_thread(ask, example, port, cert, DATA)
    server.close()
    return got


def openssl_server(example, cert, key):
    """`s_server -rev` answers each line reversed."""
    with subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", cert, "-key", key,
                           "-rev"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        try:
            for line in child.stdout:
                if found := re.search(r"ACCEPT 127\.0\.0\.1:(\d+)", line):
                    return ask(example, int(found.group(1)), cert, b"hello world\n")
            raise AssertionError("openssl s_server did not start")
        finally:
            child.kill()


def goodbye(server, context):
    """A client that is there when the server ends hears that this is the end, and not that it was cut off."""
    with socket.create_connection(("127.0.0.1", server.port)) as plain, \
            context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as peer:
        peer.sendall(b"hello")
        assert peer.recv(5) == b"hello"
        server.child.send_signal(signal.SIGINT)
        assert peer.recv(1) == b"", "an SSLEOFError would be the end without a goodbye"
        peer.unwrap()
    assert server.child.wait(60) == 0


def main():
    example = os.path.abspath(sys.argv[1])
    print(subprocess.run(["openssl", "version"], capture_output=True, text=True).stdout.strip(),
          "and Python", sys.version.split()[0], "with", ssl.OPENSSL_VERSION)
    with tempfile.TemporaryDirectory() as directory:
        cert, key = certificate(pathlib.Path(directory))
        with Example(example, 0, cert, key) as server:
            for version in ["-tls1_2", "-tls1_3"]:
                done = subprocess.run(
                    ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", "localhost",
                     "-CAfile", cert, "-verify_return_error", "-quiet", "-no_ign_eof", version],
                    input=b"", capture_output=True, timeout=60)
                assert done.returncode == 0, done.stderr.decode()
                print(f"openssl s_client {version}: verified")
            with subprocess.Popen(
                    ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", cert,
                     "-verify_return_error", "-quiet"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
                client.stdin.write(b"hello\n")
                client.stdin.flush()
                assert client.stdout.readline() == b"hello\n"
                client.kill()
            print("openssl s_client: a line comes back")
            context = ssl.create_default_context(cafile=cert)
            for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
                context.minimum_version = context.maximum_version = version
                assert asyncio.run(python_client(server.port, context, DATA)) == DATA
                print(f"Python's asyncio as the client, {version.name}: {len(DATA)} bytes and back")
            assert ask(example, server.port, cert, DATA) == DATA
            print("our own client: likewise")
            assert asyncio.run(python_server(example, cert, key)) == DATA
            print(f"Python's asyncio as the server: {len(DATA)} bytes and back")
            assert openssl_server(example, cert, key).strip() == b"dlrow olleh"
            print("openssl s_server: a line comes back")
            goodbye(server, context)
            print("Python's ssl: when the server is interrupted its clients are told goodbye")
    print("ok")


if __name__ == "__main__":
    main()
