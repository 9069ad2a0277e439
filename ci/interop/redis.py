#!/usr/bin/env python3
"""The redis_server example beside the real redis-server: the same bytes to both, the same answers.

    ci/interop/redis.py TARGET/release/examples/redis_server [REQUESTS]

Needs Debian's packages redis-server and redis-tools.

Checks answers as they come over the wire, also where commands are cut at every byte, errors and what
breaks the protocol included; redis-cli, expiry by the clock included; and that redis-benchmark finishes.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time

from example import Example, Server, free_ports, program, wait_for


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


BINARY = bytes(range(256))

# Each on a connection of its own, to a server without these keys.
KEYS = ["k", "n", "big", "none", BINARY]
CONVERSATIONS = [
    [command("PING"), command("ping", "hello"), command("PING", "a", "b"), command("ECHO", BINARY),
     command("ECHO"), command("echo", "a", "b"), command("ECHO", "")],
    [command("SET", "k", "v"), command("GET", "k"), command("GET", "none"), command("get"),
     command("GET", "a", "b"), command("SET", "k"), command("SET", "k", ""), command("GET", "k")],
    [command("SET", BINARY, BINARY[::-1]), command("GET", BINARY), command("DEL", BINARY),
     command("GET", BINARY)],
    [command("SET", "big", b"x" * 1_000_000), command("GET", "big"), command("SET", "big", "small"),
     command("GET", "big"), command("MGET", "big", "none", "k"), command("MGET")],
    [command("INCR", "n"), command("INCR", "n"), command("GET", "n"),
     command("SET", "n", 9223372036854775806), command("INCR", "n"), command("INCR", "n"),
     command("SET", "n", -9223372036854775808), command("INCR", "n"), command("INCR", "n", 2)]
    + [part for text in ["", "x", "+1", "01", "-0", "0", "-1", " 1", "1 ", "9223372036854775808", "1.0"]
       for part in (command("SET", "n", text), command("INCR", "n"), command("GET", "n"))],
    [command("SET", "k", "v"), command("DEL", "k", "k", "none"), command("DEL"), command("DEL", "k")],
    [command("SET", "k", "v", "EX", 100), command("TTL", "k"), command("INCR", "k"),
     command("SET", "k", "1"), command("TTL", "k"), command("SET", "k", 1, "px", 60_000),
     command("TTL", "k"), command("INCR", "k"), command("TTL", "k"), command("TTL", "none"),
     command("TTL"), command("EXPIRE", "k", 1_000), command("TTL", "k"), command("EXPIRE", "k", 0),
     command("GET", "k"), command("TTL", "k"), command("EXPIRE", "k", 10), command("EXPIRE", "k"),
     command("SET", "k", 1), command("EXPIRE", "k", -5), command("GET", "k"),
     command("SET", "k", 1), command("EXPIRE", "k", "soon"),
     command("EXPIRE", "k", 9223372036854775807), command("EXPIRE", "k", 9223372036854775),
     command("EXPIRE", "k", -9223372036854775808), command("TTL", "k")],
    [command("SET", "k", "v", *options) for options in [
        ("EX",), ("EX", 0), ("EX", -1), ("EX", "x"), ("EX", 1, "PX", 1), ("PX", 1, "EX"), ("XE", 1),
        ("EX", 10, "EX", 20), ("EX", 9223372036854775807), ("PX", 9223372036854775807),
        ("EX", 9223372036854776), ("PX", 9223300000000000000), ("EX", "1.5"), ("ex", "010")]]
    + [command("TTL", "k")],
    [command("NONE"), command("none", "a", b"b\r\nc"), command("NONESUCH" * 40, "x" * 200, "y"),
     command("GETX", *["word"] * 60), command(""), command("", "a")],
    [b"PING\r\n", b"ping hello\n", b"\r\n", b"\n", b"  SET   k   v  \r\n", b"GET k\r\n", b"GET\r\n",
     b"MGET k none\r\n", b"*0\r\n", b"PING\r\n"],
    [command("CONFIG", "GET", "save"), command("config", "get", "appendonly"),
     command("CONFIG", "GET", "nonesuch"), command("HELLO", 9)],
]

# These end their connection; most by breaking the protocol, for which there is an error first.
LAST_WORDS = [
    [command("SET", "k", "v"), command("GET", "k"), command("QUIT"), command("PING")],
    [b"PING\r\n", b"quit\r\n"],
    [b"*1\r\n+PING\r\n"], [b"*1\r\n$x\r\n"], [b"*1\r\n$-1\r\n"], [b"*x\r\n"], [b"*\r\n"],
    [b"*1\r\n$99999999999\r\n"], [b"*2000000000000\r\n"], [b"*1\r\n\r\n"], [b"x" * 70_000],
]


def real(folder):
    [port] = free_ports(1)
    server = Server("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
                    "--dir", folder)
    server.port = port
    wait_for(port)
    return server


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port))


def cli(server, *words, **options):
    done = subprocess.run(["redis-cli", "-p", str(server.port), *words], capture_output=True, timeout=60, **options)
    return done.stdout


def talk(server, sent, ends, pieces):
    """All that comes back. A PING with a mark of its own says that everything else is there."""
    mark = b"the end of the answers"
    with connect(server) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(command("DEL", *KEYS))
        assert re.fullmatch(rb":\d\r\n", peer.recv(100))
        if not ends:
            sent += command("PING", mark)
        got = b""
        try:
            for piece in pieces(sent):
                peer.sendall(piece)
        except (ConnectionResetError, BrokenPipeError):
            pass  # It has said why.
        try:
            while data := peer.recv(1 << 16):
                got += data
                if got.endswith(b"$%d\r\n%s\r\n" % (len(mark), mark)):
                    return got
        except (ConnectionResetError, BrokenPipeError):
            pass  # It was closed with bytes unread.
    assert ends, f"closed after {got[-200:]}"
    return got


def whole(data):
    return [data]


def bytes_of(data):
    return [data[i:i + 1] for i in range(len(data))]


def same_answers(ours, theirs):
    for conversation in CONVERSATIONS + LAST_WORDS:
        sent, ends = b"".join(conversation), conversation in LAST_WORDS
        # What comes after the end would make the system throw away the answers.
        for pieces in [whole] if ends or len(sent) > 5_000 else [whole, bytes_of]:
            # Who is held up for half a second tells another TTL; that does not happen three times.
            for _ in range(3 if b"TTL" in sent else 1):
                expected, got = talk(theirs, sent, ends, whole), talk(ours, sent, ends, pieces)
                if got == expected:
                    break
            else:
                same = len(os.path.commonprefix([got, expected]))
                sys.exit(f"to {sent[:2000]}\nredis: ...{expected[max(0, same - 80):same + 80]}\n"
                         f"ours:  ...{got[max(0, same - 80):same + 80]}")
    commands = sum(map(len, CONVERSATIONS))
    print(f"{commands} commands, pipelined and byte by byte: the answers of redis-server; "
          f"so are {len(LAST_WORDS)} last words")


def pipelined(ours):
    """More answers than anybody buffers, to a client that writes first and reads later."""
    count, value = 400, b"y" * 100_000
    with connect(ours) as peer:
        peer.sendall(command("SET", "big", value) + command("GET", "big") * count)
        time.sleep(0.3)
        expected, got = 5 + count * (len(value) + 11), 0
        while got < expected:
            data = peer.recv(1 << 20)
            assert data, "closed"
            got += len(data)
        assert got == expected, (got, expected)
    with open(f"/proc/{ours.child.pid}/status") as status:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1))
    assert peak < 32_000, f"{peak} kB"
    print(f"{expected >> 20} MiB of answers to a client that reads late: {peak >> 10} MiB of memory at most")


def redis_cli(ours, theirs):
    script = b"\n".join([b"SET a 1 PX 100000", b"SET b 2 EX 100", b"SET c 3", b"EXPIRE c 100", b"SET d 4",
                         b"MGET a b c d", b"TTL d", b"INCR d", b"ECHO \"two words\"", b"GET", b"NONE x", b"DEL d"])
    answers = [cli(server, input=script) for server in (ours, theirs)]
    assert answers[0] == answers[1], answers
    print("redis-cli: the same output from both")


def expiry(ours):
    """By the clock, of which nobody knows how late it is looked at: no key may go early, and each must go."""
    before = time.monotonic()
    cli(ours, input=b"SET a 1 PX 400\nSET b 2 EX 1\nSET c 3\nEXPIRE c 1\n")
    after = time.monotonic()
    for key, seconds in [("a", 0.4), ("b", 1), ("c", 1)]:
        while (asked := time.monotonic()) and cli(ours, "GET", key) != b"\n":
            assert asked < after + seconds + 10, f"{key} is still there"
            time.sleep(0.02)
        lived = time.monotonic() - before
        assert lived > seconds - 0.01, f"{key} is gone after {lived}"
        assert cli(ours, "TTL", key) == b"-2\n"
    print("keys with EX, PX and EXPIRE go when it is time")


def benchmark(ours, requests):
    for pipeline in ("1", "16"):
        done = subprocess.run(
            ["redis-benchmark", "-p", str(ours.port), "-t", "ping_inline,ping_mbulk,set,get,incr", "-c", "50",
             "-n", str(requests), "-P", pipeline, "--csv"],
            capture_output=True, text=True, timeout=300)
        rows = [line.split(",")[0] for line in done.stdout.splitlines()[1:]]
        assert done.returncode == 0 and len(rows) == 5, done
        assert "rror" not in done.stdout + done.stderr, done
        print(f"redis-benchmark -P {pipeline}: {requests} requests each of {', '.join(rows)}")


def main():
    packages = {"redis-server": "redis-server", "redis-cli": "redis-tools", "redis-benchmark": "redis-tools"}
    if not all(program(name, package) for name, package in packages.items()):
        return
    requests = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        with Example(sys.argv[1], 0) as ours, real(folder) as theirs:
            pipelined(ours)
            same_answers(ours, theirs)
            redis_cli(ours, theirs)
            expiry(ours)
            benchmark(ours, requests)
    print("ok")


if __name__ == "__main__":
    main()
