"""What dnf may use on a host: the repositories of the rollout alone, and no key that nobody has accepted.

With -y, dnf imports whatever key the file of a repository names. So it gets the keys of the rpm database instead, for
metadata as well: every key that it could import is trusted already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command


def accepted() -> str:
    """Return the keys in the rpm database."""
    done = command.run(["rpm", "-q", "gpg-pubkey", "--qf", "%{description}\\n"])
    return done.out if done.code == 0 else ""


@contextmanager
def options(repositories: Sequence[str], pinned: str = "") -> Iterator[list[str]]:
    """Yield options of dnf. Without repositories it may use all that answer, as a rollback has to.

    `pinned` is the key to accept for metadata instead of those in the rpm database.
    """
    with TemporaryDirectory(prefix="kernel-thp-") as folder:
        keys = Path(folder) / "keys"
        keys.write_text(pinned or accepted())
        found = ["--setopt=gpgcheck=1", "--setopt=*.gpgcheck=1", f"--setopt=*.gpgkey=file://{keys}"]
        if repositories:
            found += ["--disablerepo=*", f"--enablerepo={','.join(repositories)}"]
        yield [*found, f"--setopt=*.skip_if_unavailable={int(not repositories)}"]
