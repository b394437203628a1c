"""The programs whose memory is measured: how each is started, and what it is made to do."""

from __future__ import annotations

import http.client
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

PACKAGE = __name__.rpartition(".")[0]
REDIS = "/run/redis.sock"
PORT = 8080
KEYS, VALUE_BYTES, LOOKUPS = 60_000, 600, 10_000
BATCH = 500
REQUESTS = 80
START_LIMIT = 60.0
MIB = 1 << 20
Reached = TypeVar("Reached")


@dataclass(frozen=True)
class Workload:
    """`drive` has the program do its work, and returns what is to be said of it; above all the seconds it took.

    `limit` is the memory that it gets where memory is tight: 15 % more than its peak with `madvise`.
    """

    name: str
    command: tuple[str, ...]
    drive: Callable[[subprocess.Popen[str]], dict[str, Any]]
    limit: int


def until(reached: Callable[[], Reached], process: subprocess.Popen[str]) -> Reached:
    """Wait until a program that has been started can be reached."""
    end = time.monotonic() + START_LIMIT
    while True:
        try:
            return reached()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)


# redis: most of many keys go, and the rest is looked up.


class Redis:
    """As much of its protocol as is needed: commands in batches, answers of one line or one value each."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(REDIS)
        self.answers = self.socket.makefile("rb")

    @staticmethod
    def packed(command: Sequence[str]) -> str:
        return f"*{len(command)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in command)

    def ask(self, commands: Sequence[Sequence[str]]) -> None:
        self.socket.sendall("".join(map(self.packed, commands)).encode())
        for _ in commands:
            line = self.answers.readline()
            if not line:
                raise ConnectionError("redis is gone")
            if line.startswith(b"-"):
                raise RuntimeError(line.decode().strip())
            if line.startswith(b"$") and line != b"$-1\r\n":
                self.answers.read(int(line[1:]) + 2)


def drive_redis(process: subprocess.Popen[str]) -> dict[str, Any]:
    redis = until(Redis, process)
    redis.ask([("DEBUG", "POPULATE", str(KEYS), "key", str(VALUE_BYTES))])
    chance = random.Random(1)
    keys = [f"key:{number}" for number in range(KEYS)]
    chance.shuffle(keys)
    left, gone = keys[: KEYS // 5], keys[KEYS // 5 :]
    for at in range(0, len(gone), BATCH):
        redis.ask([("DEL", *gone[at : at + BATCH])])
    began = time.monotonic()
    for _ in range(LOOKUPS // BATCH):
        redis.ask([("GET", chance.choice(left)) for _ in range(BATCH)])
    return {"work": time.monotonic() - began}


# Java: requests open sessions and close most of them.


def drive_java(process: subprocess.Popen[str]) -> dict[str, Any]:
    def connect() -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=START_LIMIT)
        connection.connect()
        return connection

    until(connect, process).close()
    began = time.monotonic()
    for request in range(REQUESTS):
        # Each on a connection of its own, so that all of its threads get something to do.
        connection = connect()
        connection.request("GET", f"/?{request}")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the service answered {answer.status}")
    return {"work": time.monotonic() - began}


# What needs nobody to drive it says when it is done.


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ConnectionError("it ended before it had done its work")
    said: dict[str, Any] = json.loads(line)
    return said


def own(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"{PACKAGE}.{module}")


# Left to itself, redis wants no huge pages.
REDIS_OPTIONS = (
    *("--port", "0", "--unixsocket", REDIS, "--save", "", "--dir", "/tmp"),
    *("--disable-thp", "no", "--enable-debug-command", "yes"),
)
JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xms96m", "-Xmx96m", "-cp", "/opt/bench")
WORKLOADS = (
    Workload("redis", ("redis-server", *REDIS_OPTIONS), drive_redis, 52 * MIB),
    Workload("java", ("java", *JAVA, "Service", str(PORT)), drive_java, 106 * MIB),
    Workload("python", own("table"), hear, 27 * MIB),
    Workload("mix", own("mix"), hear, 43 * MIB),
)
# Read before anything is measured, so that their pages in the page cache are charged to nobody.
WARM = ("/usr/lib/jvm/*/lib/**/*", "/usr/bin/redis-*", "/usr/lib/x86_64-linux-gnu/*.so*", "/usr/lib/python3*/**/*.py*")
