"""The command line: options, and the order of the steps."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import re
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from . import VERSION, checks, counters, estimate, facts, kernel_log, nagios, prometheus, report, selftests, waivers
from .document import json_schema
from .errors import UserError
from .system import System

NO_VERDICT = 3
INTERRUPTED = 130
QUIET = "--quiet"
EPILOG = "Exit code: 0 supported, 1 degraded, 2 unsupported, 3 no verdict (the message says why), 130 interrupted."


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise UserError(message, "`thp-validate --help` lists the options")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds above 0, up to 86400")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 2 <= int(text) <= 1 << 20):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 2 to {1 << 20}")
    return int(text)


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"`{text}` is not a process id")
    return int(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"`{text}` is not a regular expression: {error}") from None
    return text


def parser() -> Parser:
    made = Parser(
        prog="thp-validate",
        description="Report whether this host is set up as kernel-thp supports it, and if not, why and what to do.",
        epilog=EPILOG,
    )
    made.add_argument("--version", action="version", version=f"thp-validate {VERSION}")
    shown = made.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print one JSON object")
    shown.add_argument(QUIET, action="store_true", help="print one line, as a plugin of Nagios does")
    shown.add_argument("--schema", action="store_true", help="print the JSON Schema of that object, and check nothing")
    made.add_argument("--junit", type=Path, metavar="FILE", help="also write the checks to FILE, as JUnit XML")
    made.add_argument(
        "--prometheus", type=Path, metavar="FILE", help="also write metrics to FILE, for the node exporter's collector"
    )
    made.add_argument(
        "--allow-log",
        type=_pattern,
        action="append",
        default=[],
        metavar="REGEX",
        help="the kernel's complaints that match are known to be harmless (can be repeated)",
    )
    made.add_argument(
        "--kernel", metavar="UNAME", help="check the signature of this installed kernel instead of the newest one"
    )
    made.add_argument("--watch", type=_seconds, metavar="SECONDS", help="show how the counters change in that time")
    made.add_argument("--selftests", action="store_true", help="run the selftests of kernel-thp (as root, minutes)")
    made.add_argument(
        "--estimate", action="store_true", help="estimate how much of the huge pages is zero-filled (as root)"
    )
    whose = made.add_mutually_exclusive_group()
    whose.add_argument("--pid", type=_pid, help="estimate for one process")
    whose.add_argument("--cgroup", metavar="PATH", help="estimate for a cgroup and its descendants")
    made.add_argument(
        "--samples", type=_count, metavar="N", help=f"read at most N huge pages (default {estimate.SAMPLES})"
    )
    return made


def command() -> int:
    made = parser()
    given = made.parse_args()
    if not given.estimate and (given.pid or given.cgroup or given.samples):
        made.error("--pid, --cgroup and --samples need --estimate")
    if given.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    if given.quiet and (given.watch or given.estimate):
        made.error(f"{QUIET} has no room for what --watch and --estimate find")
    files = (("--junit", given.junit, report.as_junit), ("--prometheus", given.prometheus, prometheus.text))
    for option, path, _ in files:
        _check_writable(option, path)
    system = System()
    found = facts.collect(system, given.kernel)
    if given.estimate:
        samples = given.samples or estimate.SAMPLES
        found.estimate = estimate.run(system, found.thp, given.pid, given.cgroup, samples)
    if given.watch:
        found.watch = counters.watch(system, found.thp, given.watch)
    if given.selftests:
        tested = selftests.run(system)
        # Again: what they change and do not restore, and every taint that they cause, is part of the verdict.
        again = facts.collect(system, given.kernel)
        found = replace(again, estimate=found.estimate, watch=found.watch, selftests=tested)
    # Last, as everything above could make the kernel complain.
    found.kernel.splats = kernel_log.collect(system, given.allow_log)
    found.waivers = waivers.collect(system)
    waivers.apply(found.waivers, found.kernel)
    results = checks.evaluate(found)
    for option, path, content in files:
        if path:
            _write(option, path, content(found, results))
    if given.quiet:
        print(nagios.line(found, results))
    else:
        print(json.dumps(report.as_json(found, results), indent=2) if given.json else report.as_text(found, results))
    return report.EXIT[checks.verdict(results)]


def _check_writable(option: str, path: Path | None) -> None:
    """Fail before minutes of work, not after."""
    if path and (not path.parent.is_dir() or path.is_dir()):
        raise UserError(f"{option} {path} cannot be written", "name a file in a directory that exists")


def _write(option: str, path: Path, text: str) -> None:
    """Write a file that is complete or absent, as UTF-8, which the readers expect.

    Write to a pipe or device directly, and never replace it.
    """
    target = path.resolve()
    part = target.with_name(f".{target.name}.part")
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"{option} {path} cannot be written: {error.strerror}", "name another file") from None


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Process names can contain any character, including those the terminal's encoding lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = command()
        sys.stdout.flush()
        return code
    except UserError as error:
        return _failed(str(error), NO_VERDICT)
    except BrokenPipeError:
        # The reader closed the pipe: discard the rest silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_VERDICT
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except Exception as error:
        # Python's own exit code would be that of a degraded host.
        traceback.print_exc()
        return _failed(f"{type(error).__name__}: {error}; report this with `sos report`", NO_VERDICT)


def _failed(why: str, code: int) -> int:
    print(f"thp-validate: {why}", file=sys.stderr)
    if QUIET not in sys.argv:
        return code
    print(nagios.unknown(why))
    return NO_VERDICT
