"""Have the tests of the Ansible collection find it under its name, as Ansible does."""

from __future__ import annotations

import sys

from scripts import collection

sys.path.insert(0, str(collection.link()))
