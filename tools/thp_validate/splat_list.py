# SPDX-License-Identifier: GPL-2.0-only OR GPL-3.0-or-later
"""The one list of splats: what a kernel logs when it has a defect.

thp-validate has this file; the lab and the Ansible collection have links to it, so each of them can stand alone. Every
kind names the messages it was made from, as they stand in the source of Linux 6.1. Other kernels word a few of them
differently; what they say after `BUG: ` is found in any case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# What it means that the kernel says this.
CRASH = "crash"  # It could not go on, and ended a thread or itself.
DAMAGE = "damage"  # Memory, a page table, a list or a count is not what it has to be.
RULE = "rule"  # A rule was broken, of locks for example; this time perhaps without consequences.
STALL = "stall"  # Something did not get on for a long time; the load or the disk may be the reason.
WARNING = "warning"  # Something happened that the authors thought impossible.
BLIND = "blind"  # A checker has switched itself off, and finds nothing from then on.
DEVICE = "device"  # A device lost data.

# The first line of a kernel; without it the beginning of the log is missing.
START = "Linux version"
# The journal keeps what the ring buffer loses, but not every host has it.
READERS = (("journalctl", "-k", "-b", "--no-pager", "-o", "cat"), ("dmesg",))
# The console and dmesg print the time first, the journal does not; some kernels add the thread or processor.
STAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ")


@dataclass(frozen=True)
class Format:
    """A message in the kernel's source; `before` and `after` are what other places add to it."""

    source: str
    text: str
    before: str = ""
    after: str = ""

    @property
    def printed(self) -> str:
        return self.before + self.text + self.after


@dataclass(frozen=True)
class Kind:
    name: str
    meaning: str
    pattern: re.Pattern[str]
    formats: tuple[Format, ...]


def _kind(name: str, meaning: str, pattern: str, *formats: Format) -> Kind:
    return Kind(name, meaning, re.compile(pattern), formats)


def _of(source: str, *texts: str, before: str = "", after: str = "") -> tuple[Format, ...]:
    return tuple(Format(source, text, before, after) for text in texts)


# How the report of every fatal exception ends: error code, number of the report, configuration.
_DIED = ": %04lx [#%d]%s%s%s%s%s"

# In this order: the first kind whose pattern is in a line names it.
KINDS = (
    _kind(
        "kernel-stack",
        CRASH,
        r"stack guard page was hit|Thread overran stack, or stack corrupted|Kernel stack is corrupted in: ",
        *_of("arch/x86/kernel/traps.c", "BUG: %s stack guard page was hit at %p (stack is %p..%p)"),
        *_of("arch/x86/mm/fault.c", "Thread overran stack, or stack corrupted"),
        *_of("kernel/sched/core.c", "Thread overran stack, or stack corrupted"),
        *_of(
            "kernel/panic.c",
            "stack-protector: Kernel stack is corrupted in: %pB",
            before="Kernel panic - not syncing: ",
        ),
    ),
    _kind(
        "panic",
        CRASH,
        r"Kernel panic - not syncing",
        *_of(
            "kernel/panic.c",
            "Kernel panic - not syncing: %s",
            "---[ end Kernel panic - not syncing: %s ]---",
        ),
    ),
    _kind(
        "early-exception",
        CRASH,
        r"PANIC: (?:double fault, error_code|early exception)",
        *_of("arch/x86/kernel/traps.c", "PANIC: double fault, error_code: 0x%lx", before="traps: "),
        *_of("arch/x86/mm/extable.c", "PANIC: early exception 0x%02x IP %lx:%lx error %lx cr2 0x%lx"),
    ),
    _kind(
        "oops",
        CRASH,
        r": [0-9a-f]{4,16} \[#\d+\]|Fixing recursive fault but reboot is needed",
        *_of("arch/x86/kernel/dumpstack.c", "%s: %04lx [#%d]%s%s%s%s%s"),
        *_of("arch/x86/mm/fault.c", "Oops", "Bad pagetable", after=_DIED),
        *_of(
            "arch/x86/kernel/traps.c",
            "invalid opcode",
            "divide error",
            "stack segment",
            "double fault",
            "alignment check",
            after=_DIED,
        ),
        *_of("arch/x86/kernel/traps.c", "general protection fault", after=", %s 0x%lx" + _DIED),
        *_of("kernel/exit.c", "Fixing recursive fault but reboot is needed!"),
    ),
    _kind(
        "kernel-bug",
        CRASH,
        r"[Kk]ernel BUG at ",
        *_of("lib/bug.c", "kernel BUG at %s:%u!", "Kernel BUG at %pB [verbose debug info unavailable]"),
    ),
    _kind(
        "bad-access",
        CRASH,
        r"BUG: (?:kernel NULL pointer dereference|unable to handle )|kernel tried to execute NX-protected page|"
        r"unable to execute userspace code|Corrupted page table at address",
        *_of(
            "arch/x86/mm/fault.c",
            "BUG: kernel NULL pointer dereference, address: %px",
            "BUG: unable to handle page fault for address: %px",
            "kernel tried to execute NX-protected page - exploit attempt? (uid: %d)",
            "unable to execute userspace code (SMEP?) (uid: %d)",
            "%s: Corrupted page table at address %lx",
        ),
    ),
    _kind(
        "overflow",
        CRASH,
        r"usercopy: Kernel memory \w+ attempt detected|detected buffer overflow in ",
        *_of(
            "mm/usercopy.c",
            "Kernel memory %s attempt detected %s %s%s%s%s (offset %lu, size %lu)!",
            before="usercopy: ",
        ),
        *_of("lib/string_helpers.c", "detected buffer overflow in %s"),
    ),
    _kind(
        "kasan",
        DAMAGE,
        r"KASAN: ",
        *_of(
            "mm/kasan/report.c",
            "BUG: KASAN: %s in %pS",
            "BUG: KASAN: invalid-access",
            "KASAN: %s in range [0x%016lx-0x%016lx]",
        ),
    ),
    _kind(
        "kfence",
        DAMAGE,
        r"BUG: KFENCE: ",
        *_of(
            "mm/kfence/report.c",
            "BUG: KFENCE: out-of-bounds %s in %pS",
            "BUG: KFENCE: use-after-free %s in %pS",
            "BUG: KFENCE: memory corruption in %pS",
            "BUG: KFENCE: invalid %s in %pS",
            "BUG: KFENCE: invalid free in %pS",
        ),
    ),
    _kind("kmsan", DAMAGE, r"BUG: KMSAN: ", *_of("mm/kmsan/report.c", "BUG: KMSAN: %s in %pSb")),
    _kind(
        "bad-page",
        DAMAGE,
        r"BUG: Bad page (?:state|cache)",
        *_of(
            "mm/page_alloc.c",
            "BUG: Bad page state in process %s  pfn:%05lx",
            "BUG: Bad page state: %lu messages suppressed",
        ),
        *_of("mm/filemap.c", "BUG: Bad page cache in process %s  pfn:%05lx"),
    ),
    _kind(
        "bad-page-map",
        DAMAGE,
        r"BUG: Bad page map",
        *_of(
            "mm/memory.c",
            "BUG: Bad page map in process %s  pte:%08llx pmd:%08llx",
            "BUG: Bad page map: %lu messages suppressed",
        ),
    ),
    _kind(
        "mm-counter",
        DAMAGE,
        r"BUG: (?:Bad rss-counter state|non-zero pgtables_bytes)",
        *_of(
            "kernel/fork.c",
            "BUG: Bad rss-counter state mm:%p type:%s val:%ld",
            "BUG: non-zero pgtables_bytes on freeing mm: %ld",
        ),
    ),
    # Hotplug of memory dumps pages as well, which is no defect: only assertions count.
    _kind(
        "page-dump",
        DAMAGE,
        r"page dumped because: VM_(?:BUG|WARN)_ON",
        *_of("mm/debug.c", "page dumped because: %s"),
        *_of(
            "include/linux/mmdebug.h",
            "VM_BUG_ON_PAGE(",
            "VM_BUG_ON_FOLIO(",
            "VM_WARN_ON_ONCE_PAGE(",
            "VM_WARN_ON_FOLIO(",
            "VM_WARN_ON_ONCE_FOLIO(",
            before="page dumped because: ",
            after="%s)",
        ),
    ),
    _kind(
        "page-table",
        DAMAGE,
        r":\d+: bad (?:pte|pmd|pud|p4d|pgd) ",
        *_of(
            "arch/x86/include/asm/pgtable_64.h",
            "%s:%d: bad pte %p(%016lx)",
            "%s:%d: bad pmd %p(%016lx)",
            "%s:%d: bad pud %p(%016lx)",
            "%s:%d: bad p4d %p(%016lx)",
            "%s:%d: bad pgd %p(%016lx)",
        ),
    ),
    _kind(
        "swap-entry",
        DAMAGE,
        r": (?:Bad|Unused) swap (?:file|offset) entry ",
        *_of(
            "mm/swapfile.c",
            "Bad swap file entry ",
            "Bad swap offset entry ",
            "Unused swap file entry ",
            "Unused swap offset entry ",
            before="%s: ",
            after="%08lx",
        ),
    ),
    _kind("vm-counter", DAMAGE, r"vmstat_refresh: \w+ -\d", *_of("mm/vmstat.c", "%s: %s %ld")),
    _kind(
        "page-counter",
        DAMAGE,
        r"page_counter underflow: ",
        *_of("mm/page_counter.c", "page_counter underflow: %ld nr_pages=%lu"),
    ),
    _kind(
        "list",
        DAMAGE,
        r"list_(?:add|del)(?: corruption| double add)",
        *_of(
            "lib/list_debug.c",
            "list_add corruption. prev is NULL.",
            "list_add corruption. next is NULL.",
            "list_add corruption. next->prev should be prev (%px), but was %px. (next=%px).",
            "list_add corruption. prev->next should be next (%px), but was %px. (prev=%px).",
            "list_add double add: new=%px, prev=%px, next=%px.",
            "list_del corruption, %px->next is NULL",
            "list_del corruption, %px->prev is NULL",
            "list_del corruption, %px->next is LIST_POISON1 (%px)",
            "list_del corruption, %px->prev is LIST_POISON2 (%px)",
            "list_del corruption. prev->next should be %px, but was %px. (prev=%px)",
            "list_del corruption. next->prev should be %px, but was %px. (next=%px)",
        ),
    ),
    _kind(
        "refcount",
        DAMAGE,
        r"refcount_t: ",
        *_of(
            "lib/refcount.c",
            "saturated; leaking memory",
            "addition on 0; use-after-free",
            "underflow; use-after-free",
            "decrement hit 0; leaking memory",
            "unknown saturation event!?",
            before="refcount_t: ",
            after=".",
        ),
    ),
    _kind(
        "slab",
        DAMAGE,
        r"BUG .+ \((?:Not tainted|Tainted: .+)\): |Slab corruption \(|Slab cache still has objects when called|"
        r"Wrong slab cache\. |Object is not a Slab page!",
        *_of("mm/slub.c", "BUG %s (%s): %pV"),
        *_of("mm/slab.c", "Slab corruption (%s): %s start=%px, len=%d"),
        *_of("mm/slab_common.c", "%s %s: Slab cache still has objects when called from %pS"),
        *_of("mm/slab.h", "%s: Wrong slab cache. %s but object is from %s", "%s: Object is not a Slab page!"),
    ),
    _kind(
        "poison",
        DAMAGE,
        r"pagealloc: (?:memory corruption|single bit error)|mempool element poison mismatch",
        *_of("mm/page_poison.c", "pagealloc: memory corruption", "pagealloc: single bit error"),
        *_of("mm/mempool.c", "BUG: mempool element poison mismatch"),
    ),
    _kind(
        "object",
        DAMAGE,
        r"ODEBUG: (?:.+ \(active state \d+\)|object .+ on stack )",
        *_of("lib/debugobjects.c", "ODEBUG: %s %s (active state %u) object type: %s hint: %pS"),
        *_of(
            "lib/debugobjects.c",
            "object %p is on stack %p, but NOT annotated.",
            "object %p is NOT on stack %p, but annotated.",
            before="ODEBUG: ",
        ),
    ),
    _kind("maple-tree", DAMAGE, r"\bBUG at \S+:\d+ \(\d+\)", *_of("include/linux/maple_tree.h", "BUG at %s:%d (%u)")),
    _kind(
        "lock-order",
        RULE,
        r"WARNING: (?:possible (?:circular locking|recursive locking|irq lock inversion)|inconsistent lock state|"
        r"\w+-safe -> \w+-unsafe lock order|Nested lock was not taken)|BUG: Invalid wait context",
        *_of(
            "kernel/locking/lockdep.c",
            "WARNING: possible circular locking dependency detected",
            "WARNING: possible recursive locking detected",
            "WARNING: possible irq lock inversion dependency detected",
            "WARNING: inconsistent lock state",
            "WARNING: %s-safe -> %s-unsafe lock order detected",
            "WARNING: Nested lock was not taken",
            "[ BUG: Invalid wait context ]",
        ),
    ),
    _kind(
        "lock-held",
        RULE,
        r"WARNING: (?:bad unlock balance|bad contention|held lock freed|lock held when returning to user space|"
        r".+/\d+ still has locks held!)",
        *_of(
            "kernel/locking/lockdep.c",
            "WARNING: bad unlock balance detected!",
            "WARNING: bad contention detected!",
            "WARNING: held lock freed!",
            "WARNING: lock held when returning to user space!",
            "WARNING: %s/%d still has locks held!",
        ),
    ),
    _kind(
        "lock-class",
        RULE,
        r"INFO: trying to register non-static key|BUG: looking up invalid subclass|"
        r"BUG: key \S+ has not been registered|WARNING: chain_key collision",
        *_of(
            "kernel/locking/lockdep.c",
            "INFO: trying to register non-static key.",
            "BUG: looking up invalid subclass: %u",
            "BUG: key %px has not been registered!",
            "WARNING: chain_key collision",
        ),
    ),
    _kind(
        "lock-misuse",
        RULE,
        r"BUG: (?:spinlock|rwlock) |DEBUG_(?:LOCKS|RWSEMS)_WARN_ON\(|rtmutex deadlock detected",
        *_of(
            "kernel/locking/spinlock_debug.c",
            "BUG: spinlock %s on CPU#%d, %s/%d",
            "BUG: rwlock %s on CPU#%d, %s/%d, %p",
        ),
        *_of("include/linux/debug_locks.h", "DEBUG_LOCKS_WARN_ON(%s)"),
        *_of(
            "kernel/locking/rwsem.c",
            "DEBUG_RWSEMS_WARN_ON(%s): count = 0x%lx, magic = 0x%lx, owner = 0x%lx, curr 0x%lx, list %sempty",
        ),
        *_of("kernel/locking/rtmutex.c", "rtmutex deadlock detected"),
    ),
    _kind(
        "rcu-usage",
        RULE,
        r"WARNING: suspicious RCU usage",
        *_of("kernel/locking/lockdep.c", "WARNING: suspicious RCU usage"),
    ),
    _kind(
        "context",
        RULE,
        r"BUG: (?:sleeping function called from invalid context|scheduling while atomic|"
        r"scheduling in a non-blocking section|assuming (?:atomic|non migratable) context|"
        r"using \S+ in preemptible |workqueue leaked lock or atomic)|huh, entered softirq | preempt leak: ",
        *_of(
            "kernel/sched/core.c",
            "BUG: sleeping function called from invalid context at %s:%d",
            "BUG: scheduling while atomic: %s/%d/0x%08x",
            "BUG: scheduling in a non-blocking section: %s/%d/%i",
            "BUG: assuming atomic context at %s:%d",
            "BUG: assuming non migratable context at %s:%d",
        ),
        *_of("lib/smp_processor_id.c", "BUG: using %s%s() in preemptible [%08x] code: %s/%d"),
        *_of("kernel/workqueue.c", "BUG: workqueue leaked lock or atomic: %s/0x%08x/%d"),
        *_of(
            "kernel/softirq.c",
            "huh, entered softirq %u %s %p with preempt_count %08x, exited with %08x?",
            before="softirq: ",
        ),
        *_of("kernel/time/timer.c", "timer: %pS preempt leak: %08x -> %08x"),
    ),
    _kind(
        "kcsan",
        RULE,
        r"BUG: KCSAN: ",
        *_of("kernel/kcsan/report.c", "BUG: KCSAN: %s in %ps / %ps", "BUG: KCSAN: %s in %pS"),
    ),
    _kind("ubsan", RULE, r"UBSAN: \S+ in ", *_of("lib/ubsan.c", "UBSAN: %s in %s:%d:%d")),
    _kind(
        "soft-lockup",
        STALL,
        r"BUG: soft lockup - CPU#",
        *_of("kernel/watchdog.c", "BUG: soft lockup - CPU#%d stuck for %us! [%s:%d]", before="watchdog: "),
    ),
    _kind(
        "hard-lockup",
        STALL,
        r"Watchdog detected hard LOCKUP on cpu ",
        *_of("kernel/watchdog_hld.c", "Watchdog detected hard LOCKUP on cpu %d", before="NMI watchdog: "),
    ),
    _kind(
        "hung-task",
        STALL,
        r"INFO: task .+:\d+ blocked ",
        *_of("kernel/hung_task.c", "INFO: task %s:%d blocked for more than %ld seconds."),
    ),
    _kind(
        "rcu-stall",
        STALL,
        r"INFO: .*(?:detected (?:expedited )?stalls|self-detected stall|Stall ended before state dump)",
        *_of(
            "kernel/rcu/tree_stall.h",
            "INFO: %s detected stalls on CPUs/tasks:",
            "INFO: %s self-detected stall on CPU",
            "INFO: Stall ended before state dump start",
            before="rcu: ",
        ),
        *_of(
            "kernel/rcu/tree_exp.h", "INFO: %s detected expedited stalls on CPUs/tasks: {", before="rcu: ", after="%s"
        ),
        *_of(
            "kernel/rcu/tasks.h",
            "INFO: rcu_tasks detected stalls on tasks:",
            "INFO: rcu_tasks_trace detected stalls on tasks:",
            "INFO: rcu_tasks_trace detected stalls? (Late IPI?)",
        ),
    ),
    _kind(
        "workqueue-stall",
        STALL,
        r"BUG: workqueue lockup - pool",
        *_of("kernel/workqueue.c", "BUG: workqueue lockup - pool", after="%s stuck for %us!"),
    ),
    _kind(
        "csd-stall",
        STALL,
        r"csd: \w+ non-responsive CSD lock ",
        *_of(
            "kernel/smp.c",
            "csd: %s non-responsive CSD lock (#%d) on CPU#%d, waiting %llu ns for CPU#%02d %pS(%ps).",
            before="smp: ",
        ),
    ),
    _kind(
        "warning",
        WARNING,
        r"WARNING: CPU: \d+ PID: \d+ at ",
        *_of("kernel/panic.c", "WARNING: CPU: %d PID: %d at %s:%d %pS", "WARNING: CPU: %d PID: %d at %pS"),
    ),
    _kind(
        "lockdep-off",
        BLIND,
        r"INFO: lockdep is turned off|BUG: MAX_\w+ too low!|turning off the locking correctness validator",
        *_of(
            "kernel/locking/lockdep.c",
            "INFO: lockdep is turned off.",
            "BUG: MAX_STACK_TRACE_ENTRIES too low!",
            "BUG: MAX_LOCKDEP_KEYS too low!",
            "BUG: MAX_LOCKDEP_ENTRIES too low!",
            "BUG: MAX_LOCKDEP_CHAINS too low!",
            "BUG: MAX_LOCKDEP_CHAIN_HLOCKS too low!",
            "BUG: MAX_LOCK_DEPTH too low!",
            "turning off the locking correctness validator.",
        ),
    ),
    # Suspected leaks are not here: kmemleak's own report has them, and the next scan may clear them.
    _kind(
        "kmemleak-off",
        BLIND,
        r"kmemleak: (?:Cannot allocate a kmemleak_object|Cannot insert |Kernel memory leak detector disabled)",
        *_of(
            "mm/kmemleak.c",
            "Cannot allocate a kmemleak_object structure",
            "Cannot insert 0x%lx into the object search tree (overlaps existing)",
            "Kernel memory leak detector disabled",
            before="kmemleak: ",
        ),
    ),
    _kind(
        "object-off",
        BLIND,
        r"ODEBUG: Out of memory\. ODEBUG disabled",
        *_of("lib/debugobjects.c", "Out of memory. ODEBUG disabled", before="ODEBUG: "),
    ),
    # A write error is not here: the page stays in memory, and zram reports one whenever it finds no memory.
    _kind(
        "swap-read",
        DEVICE,
        r"Read-error on swap-device",
        *_of("mm/page_io.c", "Read-error on swap-device (%u:%u:%llu)", "Read-error on swap-device"),
    ),
    # What has no kind of its own, and what other kernels word differently. Bugs of the firmware are not the kernel's.
    _kind(
        "bug",
        WARNING,
        r"(?<!irmware )(?<!IRMWARE )\bBUG: ",
        *_of("fs/dcache.c", "BUG: Dentry %p{i=%lx,n=%pd}  still in use (%d) [unmount of %s %s]"),
        *_of("kernel/sched/topology.c", "BUG: arch topology borken"),
    ),
)


def kind(line: str) -> Kind | None:
    """Return which kind of splat a line of a log is, or None."""
    return next((each for each in KINDS if each.pattern.search(line)), None)


def unstamped(line: str) -> str:
    """Return a line without the time at which the kernel printed it."""
    return STAMP.sub("", line.strip())


def splats(log: str, allowed: Sequence[str]) -> list[str]:
    """Return each splat of a log once, without those that match a regular expression in `allowed`."""
    patterns = [re.compile(pattern) for pattern in allowed]
    found: dict[str, None] = {}
    for line in filter(kind, log.splitlines()):
        text = unstamped(line)
        if not any(pattern.search(words) for pattern in patterns for words in (line, text)):
            found[text] = None
    return list(found)
