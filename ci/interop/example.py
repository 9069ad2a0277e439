"""What the scripts beside this file have in common: built examples and programs of others, as processes of their
own, and certificates."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

# A peer that falls silent is a failure, and not waited for without an end.
socket.setdefaulttimeout(60)


def program(name, package):
    """Where a program is, also one that only administrators have in their PATH. Without it what it would check is
    left out, and said to be; with INTEROP_COMPLETE in the environment that is a failure."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    if not found:
        message = f"left out: {name} is missing; apt-get install {package}"
        if os.environ.get("INTEROP_COMPLETE"):
            sys.exit(message)
        print(message)
    return found


# Bound, and listening to nobody, for as long as the script runs.
held = []


def free_ports(count):
    """Numbers for programs that cannot choose one and say which. Linux gives a number that is held here to no socket
    that asks for any, nor to an outgoing connection; to one that asks for this number, and sets SO_REUSEADDR as
    servers do, it gives it, again and again."""
    ports = []
    for _ in range(count):
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        held.append(holder)
        ports.append(holder.getsockname()[1])
    return ports


def wait_for(port):
    """Until somebody listens there."""
    begin = time.monotonic()
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError as error:
            if time.monotonic() - begin > 60:
                raise TimeoutError(f"nobody listens at {port}") from error
            time.sleep(0.02)


def certificate(folder):
    """A certificate for localhost, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost",
         # A client takes it as a server's own, not only as an authority's.
         "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True)
    return cert, key


class Server:
    """A process that serves until it is interrupted, and ends well then."""

    def __init__(self, *command):
        self.child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)

    def end(self):
        self.child.send_signal(signal.SIGINT)
        status = self.child.wait(60)
        assert status == 0, f"{self.child.args[0]} ended with {status}"

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        try:
            # It may have been ended already, or what failed may be why it does not end.
            if failed is None and self.child.poll() is None:
                self.end()
        finally:
            self.child.kill()
            self.child.wait()


class Example(Server):
    """Says which ports of the loopback interface it listens on."""

    def __init__(self, *command):
        super().__init__(*command)
        self.line = self.child.stdout.readline().strip()
        self.ports = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", self.line)]
        assert self.line.startswith("listening on ") and self.ports, f"{command[0]} says {self.line!r}"
        self.port = self.ports[0]
        self.url = f"http://127.0.0.1:{self.port}"
