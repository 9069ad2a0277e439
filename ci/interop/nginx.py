#!/usr/bin/env python3
"""Runs nginx in front of the examples, and `wrk` against them, with and without nginx in between.

    ci/interop/nginx.py TARGET/release/examples [SECONDS]

The folder holds axum_router and behind_proxy (features `hyper` and `tokio-io`). `wrk` runs ten seconds each time
unless told otherwise.

Checks that nginx forwards requests over connections that it keeps, that 10 MB pass both ways unchanged, that
each client's address comes through by the PROXY protocol, that a server which is restarted is found again,
and that wrk counts no failed request.
"""

import hashlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

from example import Example, free_ports, program, wait_for

# One process, in the foreground, that touches nothing outside its folder.
CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream router {{
        server 127.0.0.1:{router};
        keepalive 64;
    }}
    server {{
        listen 127.0.0.1:{front};
        location / {{
            proxy_pass http://router;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
stream {{
    server {{
        listen 127.0.0.1:{stream};
        proxy_pass 127.0.0.1:{behind};
        proxy_protocol on;
    }}
}}
"""


def get(port, path="/", data=None):
    body = [] if data is None else ["-H", "Expect:", "--data-binary", "@-"]
    done = subprocess.run(["curl", "-sSf", "-m", "60", *body, f"http://127.0.0.1:{port}{path}"],
                          input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def forwarded(front):
    assert get(front, "/hello/you") == b"hello you\n"
    sent = os.urandom(10_000_000)
    got = get(front, "/echo", sent)
    assert hashlib.sha256(got).digest() == hashlib.sha256(sent).digest(), len(got)
    print(f"through nginx: a request is answered, {len(sent)} bytes go and come back unchanged")


def addresses(port):
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b""
            while data := peer.recv(4096):
                answer += data
            name = "{}:{}".format(*peer.getsockname())
        client = answer.partition(b"\r\n\r\n")[2].split()[0].decode()
        assert client == name, f"{name} was taken for {client}"
    print("50 requests through nginx: every client told its own address, by the PROXY protocol")


def load(wrk, what, port, seconds):
    # It counts what takes longer than its own limit, two seconds, as failed: the machine may be busy.
    done = subprocess.run([wrk, "-t1", "-c64", f"-d{seconds}s", "--timeout", "30s", f"http://127.0.0.1:{port}/"],
                          capture_output=True, text=True, timeout=seconds + 60)
    failed = re.search("Socket errors.*|Non-2xx.*", done.stdout)
    assert done.returncode == 0 and not failed, done.stdout + done.stderr
    requests = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    assert requests > 100, done.stdout
    print(f"wrk {what}, {seconds} s: {requests} requests, none failed")


def main():
    packages = "nginx-light libnginx-mod-stream"
    nginx, module = program("nginx", packages), pathlib.Path("/usr/lib/nginx/modules/ngx_stream_module.so")
    if not nginx:
        return
    assert module.exists(), f"{module} is missing; apt-get install {packages}"
    examples, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    front, stream, router = free_ports(3)
    with tempfile.TemporaryDirectory() as folder, Example(examples / "behind_proxy", 0) as behind:
        config = pathlib.Path(folder, "nginx.conf")
        config.write_text(f"load_module {module};\n" + CONFIG.format(
            folder=folder, front=front, stream=stream, router=router, behind=behind.port))
        proxy = subprocess.Popen([nginx, "-c", config, "-e", f"{folder}/error.log"])
        try:
            with Example(examples / "axum_router", router):
                wait_for(front)
                wait_for(stream)
                forwarded(front)
                addresses(stream)
                if wrk := program("wrk", "wrk"):
                    load(wrk, "straight", router, seconds)
                    load(wrk, "through nginx", front, seconds)
            # The connections that nginx has kept are closed by now.
            with Example(examples / "axum_router", router):
                for _ in range(20):
                    assert get(front, "/hello/again") == b"hello again\n"
                print("the server was restarted: nginx goes on with the new one")
        finally:
            proxy.terminate()
            proxy.wait()
    print("ok")


if __name__ == "__main__":
    main()
