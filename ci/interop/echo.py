#!/usr/bin/env python3
"""Sends bytes through an echo server that is not ours to judge: Python's `socket` and `asyncio`, and `nc`. Every
byte must come back, in order.

    ci/interop/echo.py TARGET/release/examples/echo_protocol [MEBIBYTES]

Starts the server on a port of the system's choosing, ends it with SIGINT, and expects exit status 0.
"""

import asyncio
import hashlib
import random
import socket
import subprocess
import sys
import threading

from example import Example, program


def chunks(total, seed):
    """Random bytes in pieces of random sizes, from one byte to 256 KiB."""
    rng = random.Random(seed)
    while total > 0:
        size = min(total, rng.choice([1, 7, 64, 1_000, 16_384, rng.randrange(1, 262_144)]))
        yield rng.randbytes(size)
        total -= size


def with_socket(port, total):
    sent, got = hashlib.sha256(), hashlib.sha256()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        def send():
            for chunk in chunks(total, 1):
                sent.update(chunk)
                peer.sendall(chunk)
            peer.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        count = 0
        while data := peer.recv(1 << 16):
            got.update(data)
            count += len(data)
        sender.join()
    return count, sent.digest() == got.digest()


async def with_asyncio(port, total):
    sent, got = hashlib.sha256(), hashlib.sha256()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send():
        for chunk in chunks(total, 2):
            sent.update(chunk)
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    sender = asyncio.create_task(send())
    count = 0
    while data := await asyncio.wait_for(reader.read(1 << 16), 60):
        got.update(data)
        count += len(data)
    await sender
    writer.close()
    await writer.wait_closed()
    return count, sent.digest() == got.digest()


def with_nc(nc, port, total):
    data = b"".join(chunks(total, 3))
    done = subprocess.run([nc, "-N", "127.0.0.1", str(port)], input=data, stdout=subprocess.PIPE,
                          timeout=120, check=True)
    return len(done.stdout), done.stdout == data


def main():
    total = (int(sys.argv[2]) if len(sys.argv) > 2 else 64) << 20
    with Example(sys.argv[1], 0) as server:
        print(f"{sys.argv[1]}: {server.line}")
        peers = [("Python socket", lambda: with_socket(server.port, total)),
                 ("Python asyncio", lambda: asyncio.run(with_asyncio(server.port, total)))]
        # Of several programs of that name it is this one that has the option -N.
        if nc := program("nc", "netcat-openbsd"):
            peers.append(("nc", lambda: with_nc(nc, server.port, total)))
        for name, run in peers:
            count, same = run()
            print(f"{name}: {count} of {total} bytes back, {'the same' if same else 'DIFFERENT'}")
            assert count == total and same
        server.end()
        print("SIGINT: exit status 0")


if __name__ == "__main__":
    main()
