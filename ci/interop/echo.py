#!/usr/bin/env python3
"""Sends bytes through an echo server that is not ours to judge: Python's `socket` and `asyncio`, and
`nc` where it is installed. Every byte must come back, in order.

    ci/interop/echo.py TARGET/release/examples/echo_protocol [MEBIBYTES]

Starts the server on a port of the system's choosing, ends it with SIGINT, and expects exit status 0.
"""

import asyncio
import hashlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading


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

        sender = threading.Thread(target=send)
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
    while data := await reader.read(1 << 16):
        got.update(data)
        count += len(data)
    await sender
    writer.close()
    await writer.wait_closed()
    return count, sent.digest() == got.digest()


def with_nc(port, total):
    data = b"".join(chunks(total, 3))
    nc = subprocess.run(["nc", "-N", "127.0.0.1", str(port)], input=data, stdout=subprocess.PIPE,
                        timeout=120, check=True)
    return len(nc.stdout), nc.stdout == data


def main():
    binary, mebibytes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 64
    total = mebibytes << 20
    server = subprocess.Popen([binary, "0"], stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        port = int(re.search(r":(\d+)", line).group(1))
        print(f"{binary}: {line.strip()}")
        peers = [("Python socket", lambda: with_socket(port, total)),
                 ("Python asyncio", lambda: asyncio.run(with_asyncio(port, total)))]
        if shutil.which("nc"):
            peers.append(("nc", lambda: with_nc(port, total)))
        else:
            print("nc: not installed, left out")
        for name, run in peers:
            count, same = run()
            print(f"{name}: {count} of {total} bytes back, {'the same' if same else 'DIFFERENT'}")
            if count != total or not same:
                sys.exit(1)
        server.send_signal(signal.SIGINT)
        status = server.wait(timeout=10)
        print(f"SIGINT: exit status {status}")
        sys.exit(status)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
