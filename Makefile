# `make help` lists what there is; every target can be run again and resumes where it was interrupted.

SHELL := /bin/bash
comma := ,
PYTHON ?= python3
VENV := build/venv/bin
# Which kernel: cloud (the default), server or debug. DEBUG=1 is short for the last.
FLAVOUR ?= $(if $(DEBUG),debug,cloud)
# Which kind of virtual host, for every target with one: bookworm (the default) boots by systemd-boot, grub by GRUB and
# has newer packages.
# Some shells export a variable of this name, which is not meant for us.
ifneq ($(origin HOST),command line)
HOST := bookworm
endif
export LAB_HOST := $(HOST)
# A virtual host keeps one core busy, so two groups of tests run beside each other, in the order given.
HOSTS = $(VENV)/python -m pytest -v -n 2 --dist loadgroup --durations=8

# What the checkers remember stays below build/ like everything else that is made.
export MYPY_CACHE_DIR := build/cache/mypy
export RUFF_CACHE_DIR := build/cache/ruff
export PYTEST_ADDOPTS := -o cache_dir=build/cache/pytest

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps sources bump tree refresh config base-config rpms srpm srpm-check rebuild-check image vm gate matrix vm-selftests lockdep static collection collection-matrix package hosts hosts-full tuned tools flavours fleet fleet-full fleet-scale molecule releases series-check mutation hazards bench bench-check check check-full clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing on this host (asks the package manager only when something is)
	@$(PYTHON) -m scripts.deps

# KERNEL_ORG=URL: a mirror of https://cdn.kernel.org/pub/linux/kernel.
sources: ## fetch the pinned kernel source, hash and signature checked
	@$(PYTHON) -m scripts.sources

bump: ## move to the newest stable release: pin, apply, configure, build, gate, one commit (UNTIL=config: stop before the build)
	@$(PYTHON) -m scripts.bump $(if $(UNTIL),--until $(UNTIL))

tree: sources ## git tree with one commit per patch, in build/tree/
	@$(PYTHON) -m scripts.series tree

refresh: ## write the patches back from the commits of that tree
	@$(PYTHON) -m scripts.series refresh

config: tree ## write the complete configurations from the fragments in SOURCES/config/
	@$(PYTHON) -m scripts.config

base-config: tree ## try BASE_CONFIG=FILE, a distribution's configuration, as the base of the package
	@$(PYTHON) -m scripts.config --base '$(BASE_CONFIG)'

# FLAVOUR=server or debug: in build/repo-FLAVOUR/. BASE_CONFIG=FILE: server on a distribution's configuration, in build/repo-base/.
rpms: deps sources ## signed dnf repository with the packages, in build/repo/ (FLAVOUR=server, DEBUG=1, BASE_CONFIG=FILE: others)
	@$(PYTHON) -m scripts.rpms $(if $(BASE_CONFIG),--base-config '$(BASE_CONFIG)',--flavour $(FLAVOUR))

# These build with the options of `rpms`, too, which are variables of make or of the environment: SPIN=2 (the release, for a
# fix of one's own), REPO_URL=https://..., GPG_KEY=, SIGN_KEY= and SIGN_CERT=. docs/packages.md has them all.
srpm: deps sources ## source packages, one for each spec, in build/srpm/
	@$(PYTHON) -m scripts.srpms

srpm-check: rpms srpm ## the source packages rebuild in a clean root with only their BuildRequires (KERNEL=1: the kernel, too)
	@KERNEL=$(KERNEL) $(VENV)/python -m pytest -q -m full tests/package

rebuild-check: rpms ## build the selftests again elsewhere: the same bytes? (KERNEL=1: the kernel, minutes)
	@$(PYTHON) -m scripts.rebuild_check $(if $(KERNEL),--kernel)

image: deps ## disk image of the virtual host (HOST=grub: of the one that boots by GRUB)
	@$(PYTHON) -m lab.image

vm: image ## start a virtual host, with dnf set to build/repo, and log in to it (HOST=grub)
	@$(PYTHON) -m lab.shell

gate: deps rpms image ## install, boot and test the kernel in a virtual host (FLAVOUR=server; HOST=grub; DEBUG=1: with churn)
	@$(PYTHON) -m tests.kernel.gate --flavour $(FLAVOUR)

lockdep: deps tree rpms ## stress, migration, swap-in, defrag mode and cgroup v1 on a small kernel with lockdep and DEBUG_VM (CHANGED=1)
	@$(PYTHON) -m tests.kernel.lockdep $(if $(CHANGED),--changed) $(if $(RECORD),--record)

matrix: deps rpms image ## selftests on cgroup v1 and v2, swap on zram and on a disk, 1 and 2 NUMA nodes
	@$(PYTHON) -m tests.kernel.matrix

vm-selftests: deps tree rpms image ## the base kernel's own vm selftests: none worse than on the stock kernel
	@$(PYTHON) -m tests.kernel.vm_selftests

static: deps tree ## patches, headers, style, scripts, the Ansible collection
	@$(VENV)/ruff check . && $(VENV)/ruff format --check --quiet . && $(VENV)/mypy scripts lab bench tests/{programs,verdicts}.py tests/{fleet,kernel,mutation,package,tools,tuned} tools tuned-profiles/*/*.py && shellcheck $$(git ls-files -co --exclude-standard '*.sh' .ci/run)
	@$(PYTHON) -m scripts.collection --link && MYPYPATH=build/collections $(VENV)/mypy --explicit-package-bases -p ansible_collections.kernel_thp.fleet
	@$(VENV)/python -m pytest -q -n 2 -m 'not full' tests/unit

collection: deps ## archive of the Ansible collection for fleets, in build/galaxy/
	@$(PYTHON) -m scripts.collection

collection-matrix: deps ## all plays of the collection's tests with each ansible-core from 2.16 on (ANSIBLE=2.16: with that; minutes)
	@$(PYTHON) -m scripts.collection_matrix $(if $(ANSIBLE),--only $(ANSIBLE))

package: deps rpms srpm ## the built packages (FLAVOUR=server, DEBUG=1: those of other flavours)
	@FLAVOUR=$(FLAVOUR) $(VENV)/python -m pytest -q -m 'not full' tests/package

# Hosts with kernel-thp and the stock kernel, for hosts-full with Linux 6.12, too. The last gate's results are tests here.
hosts: deps rpms image ## tuned profiles and thp-validate on virtual hosts
	@$(HOSTS) -m 'not full' tests/kernel/test_gate.py tests/tools tests/tuned

hosts-full: deps rpms image ## the same with everything that takes minutes, and the lab itself
	@$(HOSTS) -m full tests/tools tests/tuned tests/kernel --ignore=tests/kernel/test_two_releases.py --ignore=tests/kernel/test_flavours.py

tuned tools: deps rpms image ## all tests of the profiles, or of thp-validate
	@$(HOSTS) tests/$@

flavours: deps image ## both flavours side by side in a virtual host (builds both)
	@$(MAKE) --no-print-directory rpms && $(MAKE) --no-print-directory rpms FLAVOUR=server
	@$(VENV)/python -m pytest -q tests/kernel/test_flavours.py

# One file of tests at a time has the machine for its hosts.
fleet: deps rpms image ## rollout to a fleet of virtual hosts, one with two failures, and the fleet's table (minutes; QUICK=1: one host each)
	@$(VENV)/python -m pytest -s -v tests/fleet/test_$(if $(QUICK),quick,rollout).py

fleet-full: deps rpms image ## the ways in which a rollout can fail, and the rollback (hours; resumes where it was interrupted)
	@$(VENV)/python -m pytest -s -v --go-on tests/fleet

fleet-scale: deps ## what a rollout itself costs the controller, with 20 and with 200 simulated hosts (SIZES='20 1000': others)
	@$(VENV)/python -m tests.fleet.scale.measure $(if $(SIZES),--hosts $(SIZES))
	@$(VENV)/python -m tests.fleet.scale.controller

molecule: deps rpms image ## each role of the Ansible collection by itself, on a virtual host
	@$(VENV)/python -m tests.fleet.roles

releases: deps rpms image ## two releases side by side in a virtual host, and removing the one that runs (minutes)
	@$(VENV)/python -m pytest -q tests/kernel/test_two_releases.py

# RECORD=1: write what passes to patches/6.1/tested.json, where CHANGED=1 looks (lockdep, series-check, mutation).
series-check: deps tree ## compile every prefix of the series for each variant: THP on and off, MEMCG off, i386, arm64 (CHANGED=1: what changed, in two of these)
	@$(PYTHON) -m scripts.series_check $(if $(CHANGED),--changed $(if $(RECORD),,--variant thp-off$(comma)memcg-off)) $(if $(RECORD),--record)

# TIMES=10: only count in how many of ten runs the tests fail.
mutation: deps tree ## the selftests fail on each mutant (MUTANT=NAME: on that; PATCH=SLUG: on those it guards against; CHANGED=1)
	@$(PYTHON) -m tests.mutation.run $(if $(CHANGED),--changed) $(if $(RECORD),--record) $(if $(TIMES),--times $(TIMES)) $(if $(PATCH),--patch $(PATCH)) $(if $(MUTANT),-- $(MUTANT))

hazards: ## write docs/hazards.md from the mutants of the series
	@$(PYTHON) -m tests.mutation.hazards

# ONLY=CASE or ONLY=CASE:TEST measures that alone, FORCE=1 what was measured before, ROUNDS=9 that often; PLAN=1 says what would run.
BENCH = $(if $(QUICK),--quick) $(if $(COUNT),--count) $(if $(ONLY),--only '$(ONLY)') $(if $(FORCE),--force) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PLAN),--plan)

bench: deps $(if $(COUNT),rpms,tree) ## stock kernel, kernel-thp and Linux 6.12 side by side: build/bench/report.html (QUICK=1: less of it)
	@$(VENV)/python -m bench.run $(BENCH)

bench-check: bench ## the benchmark, and no ratio of it worse than in bench/baseline.json
	@$(VENV)/python -m bench.baseline $(if $(COUNT),--count,$(if $(QUICK),--quick))

check: deps ## what CI runs: the essential of every suite, with a table of times at the end
	@$(PYTHON) -m scripts.check check

check-full: deps ## what `make check` leaves out, but for the extra cases of bench (hours; resumes where it was interrupted)
	@$(PYTHON) -m scripts.check check-full

clean: ## delete everything that was built; keep the downloaded source and the keys
	@$(PYTHON) -m scripts.clean
