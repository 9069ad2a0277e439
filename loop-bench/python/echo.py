"""An echo server on asyncio, or with the argument `uvloop` on that; by a protocol, their fastest way. The
second argument is an address to listen on, or the word `version`."""

import asyncio
import contextlib
import os
import sys

echoed = 0


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        global echoed
        echoed += len(data)
        self.transport.write(data)

    # A peer that does not take its answers is not read from.
    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


class Input(asyncio.Protocol):
    """Standard input, whose end is the end of the server."""

    def __init__(self, ended):
        self.ended = ended

    def connection_lost(self, error):
        self.ended.set_result(None)


async def main():
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    await loop.connect_read_pipe(lambda: Input(ended), sys.stdin)
    host, port = (sys.argv[2:] or ["127.0.0.1:0"])[0].rsplit(":", 1)
    server = await loop.create_server(Echo, host.strip("[]"), int(port), backlog=4096)
    host, port = server.sockets[0].getsockname()[:2]
    print("listening on", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", flush=True)
    await ended
    # Whoever has ended it may be gone; what is printed would be tried again at exit.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"echoed {echoed}\n".encode())


version = f"python {sys.version.split()[0]}"
if sys.argv[1] == "uvloop":
    import uvloop

    version = f"uvloop {uvloop.__version__} ({version})"
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
if sys.argv[2:] == ["version"]:
    print(version)
else:
    asyncio.run(main())
