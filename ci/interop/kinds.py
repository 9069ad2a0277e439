#!/usr/bin/env python3
"""Has Python's asyncio talk to the `echo_kinds` example over all kinds of sockets, as a client of its servers and
as a server of its clients; and `socat`.

    ci/interop/kinds.py TARGET/release/examples/echo_kinds [MEBIBYTES]

Streams over TCP and Unix sockets echo random bytes with a checksum, both ways at once; datagrams over UDP
and Unix sockets of every size from 0 to the largest. A stale socket file is replaced, a live one refused,
and after SIGINT the files are gone and the exit status is 0.
"""

import asyncio
import hashlib
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

from example import Example, program


async def stream(reader, writer, total):
    rng, sent, got = random.Random(1), hashlib.sha256(), hashlib.sha256()

    async def send():
        left = total
        while left > 0:
            chunk = rng.randbytes(min(left, rng.choice([1, 64, 5_000, 200_000])))
            left -= len(chunk)
            sent.update(chunk)
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    sending, count = asyncio.ensure_future(send()), 0
    while data := await asyncio.wait_for(reader.read(1 << 16), 60):
        got.update(data)
        count += len(data)
    await sending
    writer.close()
    assert count == total and sent.digest() == got.digest(), f"{count} of {total}"


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = asyncio.Queue()

    def datagram_received(self, data, addr):
        self.received.put_nowait(data)

    def error_received(self, exc):
        self.received.put_nowait(exc)


async def datagrams(transport, protocol, sizes):
    rng = random.Random(2)
    for size in sizes:
        data = rng.randbytes(size)
        transport.sendto(data)
        back = await asyncio.wait_for(protocol.received.get(), 60)
        assert back == data, f"{size} bytes came back as {back!r:.60}"
    transport.close()
    return len(sizes)


SIZES = [0, 1, 2, 100, 1_472, 1_473, 9_000, 65_000, 65_506, 65_507, 0]


async def as_clients(directory, tcp, udp, total):
    await stream(*await asyncio.open_connection("127.0.0.1", tcp), total)
    await stream(*await asyncio.open_unix_connection(f"{directory}/stream"), total)
    print(f"asyncio's clients: {total >> 20} MiB each way over TCP and a Unix socket")
    loop = asyncio.get_running_loop()
    made = await loop.create_datagram_endpoint(Datagrams, remote_addr=("127.0.0.1", udp))
    # asyncio before 3.13.2 sends no empty datagrams.
    udp_sizes = SIZES if sys.version_info >= (3, 13, 2) else [size for size in SIZES if size]
    count = await datagrams(*made, udp_sizes)
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.bind(f"{directory}/client")
    ours.connect(f"{directory}/datagram")
    made = await loop.create_datagram_endpoint(Datagrams, sock=ours)
    unix_count = await datagrams(*made, [size for size in SIZES if size])
    print(f"asyncio's clients: {count} datagrams over UDP and {unix_count} over a Unix socket, "
          f"up to {max(SIZES)} bytes")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.connect(("127.0.0.1", udp))
        plain.send(b"")
        assert plain.recv(10) == b""
    print("an empty datagram comes back")


async def echo(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)


def ask(example, kind, address, data):
    """Our client."""
    done = subprocess.run([example, kind, address], input=data, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == data, f"{kind}: {len(done.stdout)} of {len(data)} bytes"


async def as_servers(example, directory, total):
    loop, rng = asyncio.get_running_loop(), random.Random(3)
    tcp = await asyncio.start_server(echo, "127.0.0.1", 0)
    unix = await asyncio.start_unix_server(echo, f"{directory}/python")
    port = tcp.sockets[0].getsockname()[1]
    data = rng.randbytes(total)
    await asyncio.to_thread(ask, example, "tcp", f"127.0.0.1:{port}", data)
    await asyncio.to_thread(ask, example, "unix", f"{directory}/python", data)
    print(f"asyncio's servers: our clients sent {total >> 20} MiB over TCP and a Unix socket and had them back")
    udp, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    theirs = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    theirs.bind(f"{directory}/python-datagram")
    unix_datagram, _ = await loop.create_datagram_endpoint(Echo, sock=theirs)
    lines = [b"x" * size for size in SIZES if size] + [b"last"]
    data = b"\n".join(lines) + b"\n"
    port = udp.get_extra_info("sockname")[1]
    await asyncio.to_thread(ask, example, "udp", f"127.0.0.1:{port}", data)
    await asyncio.to_thread(ask, example, "unix-datagram", f"{directory}/python-datagram", data)
    print(f"asyncio's servers: our clients had answers to {len(lines)} datagrams over UDP and a Unix socket, "
          f"up to {max(SIZES)} bytes")
    for server in (tcp, unix, udp, unix_datagram):
        server.close()
    for name in ("python", "python-datagram"):
        pathlib.Path(directory, name).unlink(missing_ok=True)


def with_socat(socat, directory, tcp, udp):
    text = b"through socat\n" * 1_000
    for address in (f"TCP:127.0.0.1:{tcp}", f"UNIX-CONNECT:{directory}/stream"):
        out = subprocess.run([socat, "-t60", "-", address], input=text, capture_output=True,
                             timeout=120, check=True).stdout
        assert out == text, address
    # Its input stays open until the answer is there: it waits so long, and no longer than that.
    with subprocess.Popen([socat, "-", f"UDP:127.0.0.1:{udp}"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        child.stdin.write(b"datagram")
        child.stdin.flush()
        assert child.stdout.read(8) == b"datagram"
        child.kill()
    print("socat: TCP, Unix and UDP")


def main():
    example, total = sys.argv[1], (int(sys.argv[2]) if len(sys.argv) > 2 else 16) << 20
    with tempfile.TemporaryDirectory() as directory:
        # What a server that died leaves behind.
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(f"{directory}/stream")
        stale.close()
        with Example(example, "serve", directory, 0) as server:
            tcp, udp = server.ports
            asyncio.run(as_clients(directory, tcp, udp, total))
            asyncio.run(as_servers(example, directory, total))
            if socat := program("socat", "socat"):
                with_socat(socat, directory, tcp, udp)
            second = subprocess.run([example, "serve", directory, "0"], capture_output=True, text=True,
                                    timeout=60)
            assert second.returncode != 0 and "in use" in second.stderr, second
            print("a second server is refused:", second.stderr.strip().splitlines()[-1])
            server.end()
            left = set(os.listdir(directory)) - {"client"}
            assert not left, left
            print("ended with 0, no file left")


if __name__ == "__main__":
    main()
