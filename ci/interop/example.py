"""A built example, started as a process of its own. For the scripts beside this file."""

import pathlib
import re
import signal
import subprocess
import sys


class Example:
    """Listens on a port of its own choice unless one is given. The scripts' first argument is the folder."""

    def __init__(self, name, *args, port=0):
        path = pathlib.Path(sys.argv[1], name)
        self.child = subprocess.Popen([path, str(port), *args], stdout=subprocess.PIPE, text=True)
        line = self.child.stdout.readline()
        self.port = int(re.match(r"listening on 127\.0\.0\.1:(\d+)", line).group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.send_signal(signal.SIGINT)
        try:
            assert self.child.wait(10) == 0, "the example failed"
        finally:
            self.child.kill()
            self.child.wait()
