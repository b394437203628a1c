# The front door. `make help` lists what there is; every target can be run again and goes on from where it was.

SHELL := /bin/bash
PYTHON ?= python3
VENV := build/venv/bin

# What the checkers remember stays below build/ like everything else that is made.
export MYPY_CACHE_DIR := build/cache/mypy
export RUFF_CACHE_DIR := build/cache/ruff
export PYTEST_ADDOPTS := -o cache_dir=build/cache/pytest

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps sources bump tree refresh config rpms image vm gate static package kernel series-check check clean

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

config: tree ## make the complete configuration anew from the fragments in SOURCES/config/
	@$(PYTHON) -m scripts.config

rpms: sources ## signed dnf repository with the packages, in build/repo/
	@$(PYTHON) -m scripts.rpms

image: ## disk image of the virtual host
	@$(PYTHON) -m tests.lab.image

vm: image ## start a virtual host and log in to it
	@$(PYTHON) -m tests.lab.vm

gate: deps rpms image ## install, boot and judge the kernel in a virtual host, print the verdict
	@$(PYTHON) -m tests.lab.gate

static: deps tree ## patches, headers, style, scripts
	@$(VENV)/ruff check . && $(VENV)/mypy scripts tests/lab && shellcheck $$(git ls-files -co --exclude-standard '*.sh' .ci/run)
	@$(VENV)/python -m pytest -q tests/static

package: deps rpms ## the built packages
	@$(VENV)/python -m pytest -q tests/package

kernel: gate ## the gate's verdict as tests
	@$(VENV)/python -m pytest -q tests/kernel

series-check: tree ## compile every prefix of the series with THP on, THP off and MEMCG off
	@$(PYTHON) -m scripts.series_check

check: static package kernel ## everything; what CI runs

clean: ## delete everything that was built; keep the downloaded source and the signing key
	@$(PYTHON) -m scripts.clean
