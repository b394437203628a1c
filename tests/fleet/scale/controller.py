"""Measure what many hosts cost the controller, without hosts: the collection's bookkeeping, and Ansible's memory.

Each host has the note of the first host of the last rollout that tests/fleet/scale/measure.py measured. Times are
processor times, so other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts import collection
from scripts.arguments import at_least_one
from scripts.console import UserError, main
from tests.fleet.scale.measure import TOOLS, WORK, environment

COUNTS = (200, 1000, 5000)
FORM = "{:>6} {:>10} {:>10} {:>10} {:>10} {:>11} {:>10} {:>14} {:>12}"
HEADINGS = ("hosts", "plan", "one note", "one look", "reports", "report.json", "page", "play, per host", "its memory")
FAILURES, BATCH = 3, 50
PLUGINS = "ansible_collections.kernel_thp.fleet.plugins.plugin_utils"
Note = dict[str, Any]


def sample() -> Note:
    path = next(iter(sorted(WORK.glob("kernel-thp-reports/*/hosts/h001.json"))), None)
    if path is None:
        raise UserError("no rollout was measured yet", "run `make fleet-scale` first")
    return dict(json.loads(path.read_text()))


def took(work: Callable[[], object], times: int = 1) -> str:
    began = time.process_time()
    for _ in range(times):
        work()
    return f"{(time.process_time() - began) / times * 1000:.1f} ms"


def bookkeeping(names: Sequence[str], note: Note, folder: Path) -> list[str]:
    """Measure a plan with 20 domains, and the journal of a run in which three hosts have failed."""
    batches, breaker, journals, report = (
        importlib.import_module(f"{PLUGINS}.{name}") for name in ("batches", "breaker", "journal", "report")
    )
    racks = {f"rack{rack}": names[rack::20] for rack in range(20)}
    planned = took(lambda: batches.plan({"all": names, **racks}, domains=list(racks)))
    journal = journals.Journal(folder / "journal")
    journal.begin("run", "rollout", "here", names, check=True, max_failed=len(names))
    for name in names:
        (journal.folder / "hosts" / f"{name}.json").write_text(json.dumps({**note, "host": name}, indent=1))
    for name in names[:FAILURES]:
        journal.fell(name, breaker.FAILED)
    noted = took(lambda: journal.add(names[0], {"remarks": []}), 20)
    looked = took(lambda: breaker.exceeded(journal), 20)
    written = took(lambda: report.write(journal))
    sizes = [f"{(journal.folder / name).stat().st_size >> 10} KiB" for name in ("report.json", "report.html")]
    return [planned, noted, looked, written, *sizes]


def noting(names: Sequence[str], note: Note, folder: Path) -> list[str]:
    """Measure ansible-playbook with only the tasks that need no host: a fact as large as a note, and three notes."""
    inventory, playbook = folder / "inventory.json", folder / "play.yml"
    inventory.write_text(json.dumps({"all": {"hosts": dict.fromkeys(names)}}))
    begin = {"directory": str(folder / "reports"), "playbook": "rollout", "state": "begun"}
    tasks = [
        {"kernel_thp.fleet.note": begin, "run_once": True},
        {"kernel_thp.fleet.note": {"step": "preflight"}},
        {"ansible.builtin.set_fact": {"thp_preflight_seen": note["facts"]}},
        {"kernel_thp.fleet.note": {"facts": note["facts"]}},
        {"kernel_thp.fleet.note": {"result": "done"}},
        {"kernel_thp.fleet.note": {"state": "evaluated"}, "run_once": True},
    ]
    playbook.write_text(json.dumps([{"hosts": "all", "serial": BATCH, "gather_facts": False, "tasks": tasks}]))
    words = [str(TOOLS / "ansible-playbook"), "-i", str(inventory), str(playbook)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, cwd=folder, env=environment(folder, {}), stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The largest process so far: of fewer hosts before, which need less.
    return [f"{seconds / len(names) * 1000:.0f} ms", f"{after.ru_maxrss >> 10} MiB"]


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=at_least_one, nargs="+", default=list(COUNTS), help="default: 200 1000 5000")
    given = parser.parse_args()
    sys.path.insert(0, str(collection.link()))
    note = sample()
    print(FORM.format(*HEADINGS))
    for count in sorted(given.hosts):
        names = [f"h{number:05}" for number in range(count)]
        with TemporaryDirectory() as folder:
            found = [*bookkeeping(names, note, Path(folder)), *noting(names, note, Path(folder))]
        print(FORM.format(count, *found), flush=True)


if __name__ == "__main__":
    main(command)
