# The front door. `make help` lists what there is; every target can be run again and goes on from where it was.

SHELL := /bin/bash
PYTHON ?= python3
VENV := build/venv/bin
# A virtual host keeps one core busy, so two files of tests run beside each other.
# In the order given: the hosts of the first files are made ready within seconds, meanwhile those of later ones are prepared.
HOSTS = $(VENV)/python -m pytest -v -n 2 --dist loadfile --no-loadscope-reorder --durations=8

# What the checkers remember stays below build/ like everything else that is made.
export MYPY_CACHE_DIR := build/cache/mypy
export RUFF_CACHE_DIR := build/cache/ruff
export PYTEST_ADDOPTS := -o cache_dir=build/cache/pytest

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps sources bump tree refresh config base-config rpms rebuild-check image vm gate matrix vm-selftests static collection package kernel tuned tools fleet fleet-full fleet-scale molecule releases series-check prove bench bench-check check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing on this host (asks the package manager only when something is)
	@$(PYTHON) -m scripts.deps

sources: ## fetch the pinned kernel source, hash checked
	@$(PYTHON) -m scripts.sources fetch

bump: ## pin the newest stable release that can really be had
	@$(PYTHON) -m scripts.sources bump

tree: sources ## git tree with one commit per patch, in build/tree/
	@$(PYTHON) -m scripts.series tree

refresh: ## write the patches back from the commits of that tree
	@$(PYTHON) -m scripts.series refresh

config: tree ## make the complete configurations anew from the fragments in SOURCES/config/
	@$(PYTHON) -m scripts.config

base-config: tree ## try BASE_CONFIG=FILE, a distribution's configuration, as the base of the package
	@$(PYTHON) -m scripts.config --base '$(BASE_CONFIG)'

# DEBUG=1: kernel-thp-debug, in build/repo-debug/. BASE_CONFIG=FILE: on a distribution's configuration, in build/repo-base/.
rpms: sources ## signed dnf repository with the packages, in build/repo/ (DEBUG=1, BASE_CONFIG=FILE: others)
	@$(PYTHON) -m scripts.rpms $(if $(DEBUG),--debug) $(if $(BASE_CONFIG),--base-config '$(BASE_CONFIG)')

rebuild-check: rpms ## build the selftests again elsewhere: the same bytes? (KERNEL=1: the kernel, minutes)
	@$(PYTHON) -m scripts.rebuild_check $(if $(KERNEL),--kernel)

image: ## disk image of the virtual host
	@$(PYTHON) -m lab.image

vm: image ## start a virtual host, with dnf set to build/repo, and log in to it
	@$(PYTHON) -m lab.shell

gate: deps rpms image ## install, boot and judge the kernel in a virtual host (DEBUG=1: the debug kernel, with churn)
	@$(PYTHON) -m tests.kernel.gate $(if $(DEBUG),--debug)

matrix: deps rpms image ## selftests on cgroup v1 and v2, swap on zram and on a disk, 1 and 2 NUMA nodes
	@$(PYTHON) -m tests.kernel.matrix

vm-selftests: deps tree rpms image ## the base kernel's own vm selftests: none worse than on the stock kernel
	@$(PYTHON) -m tests.kernel.vm_selftests

static: deps tree ## patches, headers, style, scripts, the Ansible collection
	@$(VENV)/ruff check . && $(VENV)/mypy scripts lab bench tests/verdicts.py tests/fleet tests/kernel tests/mutation tools tuned-profiles/*/*.py && shellcheck $$(git ls-files -co --exclude-standard '*.sh' .ci/run)
	@$(PYTHON) -m scripts.collection --link && MYPYPATH=build/collections $(VENV)/mypy --explicit-package-bases -p ansible_collections.kernel_thp.fleet
	@$(VENV)/python -m pytest -q -n 2 tests/unit

collection: deps ## archive of the Ansible collection for fleets, in build/galaxy/
	@$(PYTHON) -m scripts.collection

package: deps rpms ## the built packages (DEBUG=1: those of the debug kernel)
	@$(VENV)/python -m pytest -q $(if $(DEBUG),tests/package/test_debug.py,tests/package --ignore=tests/package/test_debug.py)

kernel: gate ## the gate's verdict as tests
	@$(HOSTS) tests/kernel --ignore=tests/kernel/test_two_releases.py

tuned: deps rpms image ## the tuned profiles on hosts with kernel-thp, the stock kernel and Linux 6.12
	@$(HOSTS) tests/tuned

tools: deps rpms image ## thp-validate and the sos plugin on hosts with the stock kernel, kernel-thp and Linux 6.12
	@$(HOSTS) tests/tools

# Of these, one file of tests has the machine for its hosts, so none runs beside another.
fleet: deps rpms image ## rollout to a fleet of virtual hosts, meanwhile two that fail, and the fleet's table (minutes)
	@$(VENV)/python -m pytest -s -v tests/fleet/test_rollout.py

fleet-full: deps rpms image ## every way in which a rollout can fail, and back (hours; goes on where it was interrupted)
	@$(VENV)/python -m pytest -s -v --go-on tests/fleet

fleet-scale: deps ## what a rollout itself costs the controller, with 20 and with 200 simulated hosts
	@$(VENV)/python -m bench.fleet_scale

molecule: deps rpms image ## each role of the Ansible collection by itself, on a virtual host
	@$(VENV)/python -m tests.fleet.roles

releases: deps rpms image ## two releases side by side in a virtual host, and removing the one that runs (minutes)
	@$(VENV)/python -m pytest -q tests/kernel/test_two_releases.py

series-check: deps tree ## compile every prefix of the series for each variant: THP off, MEMCG off, i386, arm64
	@$(PYTHON) -m scripts.series_check

prove: deps tree ## show that the selftests a patch names fail without it (PATCH=8: for that one)
	@$(PYTHON) -m tests.mutation.run $(PATCH)

# ONLY=CASE or ONLY=CASE:TEST measures that alone, ANEW=1 what was measured before, ROUNDS=9 that often; PLAN=1 says what would run.
BENCH = $(if $(QUICK),--quick) $(if $(ONLY),--only '$(ONLY)') $(if $(ANEW),--anew) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PLAN),--plan)

bench: deps tree ## stock kernel, kernel-thp and Linux 6.12 side by side: build/bench/report.html (QUICK=1: less of it)
	@$(VENV)/python -m bench.run $(BENCH)

bench-check: bench ## the benchmark, and no ratio of it worse than in bench/baseline.json
	@$(VENV)/python -m bench.baseline $(if $(QUICK),--quick)

check: static package gate fleet ## everything; what CI runs
	@$(HOSTS) tests/kernel tests/tuned tests/tools --ignore=tests/kernel/test_two_releases.py

clean: ## delete everything that was built; keep the downloaded source and the signing key
	@$(PYTHON) -m scripts.clean
