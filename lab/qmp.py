"""Control qemu by its own protocol (QMP): one JSON object a line."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from typing import Any

from scripts.console import UserError

POLL = 0.1
TIMEOUT = 120.0
# Bytes a second; qemu's own limit is made for a network.
UNLIMITED = 1 << 40


class Monitor:
    """Our end of a pair of sockets; qemu has the other end."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT)
        self._stream = connection.makefile("rw", encoding="utf-8")
        self._ready = False

    def execute(self, command: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer = self._request(command, arguments or {})
        assert isinstance(answer, dict), f"{command} answers {answer}"
        return answer

    def listing(self, command: str) -> list[dict[str, Any]]:
        """Return the answer of a command that has a list to give."""
        answer = self._request(command, {})
        assert isinstance(answer, list), f"{command} answers {answer}"
        return answer

    def _request(self, command: str, arguments: Mapping[str, Any]) -> object:
        if not self._ready:
            self._ready = True
            self._read()  # its greeting
            self.execute("qmp_capabilities")
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._stream.flush()
        while True:
            answer = self._read()
            if "error" in answer:
                raise UserError(f"qemu refuses {command}: {answer['error']['desc']}", "try another qemu version")
            if "return" in answer:
                return answer["return"]

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise UserError("qemu ended during a request", "read qemu.log beside the console log")
        return dict(json.loads(line))

    def migrate(self, uri: str) -> None:
        """Write the machine's memory and devices to a URI; the machine is stopped afterwards.

        Do not stop it first: whether it was running is a part of what is saved.
        """
        self.execute("migrate-set-parameters", {"max-bandwidth": UNLIMITED})
        self.execute("migrate", {"uri": uri})
        deadline = time.monotonic() + TIMEOUT
        while (status := self.execute("query-migrate").get("status")) != "completed":
            if status in ("failed", "cancelled") or time.monotonic() > deadline:
                raise UserError(f"qemu could not save the machine: {status}", "check the free space on this disk")
            time.sleep(POLL)
