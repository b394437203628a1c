"""The collection as a whole: its documentation is complete, galaxy and Ansible accept it, hosts that are gone count."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import RUN

from scripts import collection, collection_matrix

ROLES = sorted(path.name for path in (collection.SOURCE / "roles").iterdir())
PLAYBOOKS = sorted(path.stem for path in (collection.SOURCE / "playbooks").glob("*.yml"))
MODULES = sorted(path.stem for path in (collection.SOURCE / "plugins" / "modules").glob("*.*"))
ACTIONS = sorted(path.stem for path in (collection.SOURCE / "plugins" / "action").glob("*.py"))
PLUGINS = "ansible_collections.kernel_thp.fleet.plugins"
# A port on which nobody listens.
NOBODY = 1


def load(role: str, *path: str) -> dict[str, Any]:
    return dict(yaml.safe_load((collection.SOURCE / "roles" / role / Path(*path)).read_text()))


def options(role: str) -> dict[str, Any]:
    """Return the options of all entry points; those of one name have to be the same."""
    found: dict[str, Any] = {}
    for entry in load(role, "meta", "argument_specs.yml")["argument_specs"].values():
        for name, option in entry["options"].items():
            assert found.setdefault(name, option) == option, name
    return found


def run(ansible: Mapping[str, str], *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=ansible, cwd=cwd or ansible["HOME"], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_of_a_role_has_default_specification_and_documentation(role: str) -> None:
    defaults = load(role, "defaults", "main.yml")
    assert set(defaults) == set(options(role))
    assert all(name.startswith(f"thp_{role}_") for name in defaults)
    readme = (collection.SOURCE / "roles" / role / "README.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)
    assert set(defaults) <= set(documented)


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_checks_the_variables_that_it_uses(role: str) -> None:
    for name, entry in load(role, "meta", "argument_specs.yml")["argument_specs"].items():
        used = set(re.findall(rf"\bthp_{role}_\w+", with_included(role, f"{name}.yml"))) & set(options(role))
        assert used <= set(entry["options"]), name


def with_included(role: str, name: str) -> str:
    """Return the tasks of a file and of those that it includes, and the role's own variables that occur there."""
    tasks = (collection.SOURCE / "roles" / role / "tasks" / name).read_text()
    tasks += "".join(with_included(role, each) for each in re.findall(r"(?:include|import)_tasks: (\w+\.yml)", tasks))
    path = collection.SOURCE / "roles" / role / "vars" / "main.yml"
    own = yaml.safe_load(path.read_text()) if path.exists() else {}
    return tasks + "".join(str(value) for variable, value in own.items() if variable in tasks)


def test_the_example_of_an_inventory_has_variables_that_exist() -> None:
    given = yaml.safe_load((collection.SOURCE / "examples" / "inventory.yml").read_text())["all"]["vars"]
    ours = {name for name in given if name.startswith("thp_")}
    assert ours and ours <= {name for role in ROLES for name in options(role)}


def test_facts_that_are_set_have_the_prefix_of_the_collection() -> None:
    """An inventory has variables of its own: a fact without a prefix could be one of them."""
    files = [*collection.SOURCE.glob("roles/*/tasks/*.yml"), *collection.SOURCE.glob("playbooks/**/*.yml")]
    found = [
        given for file in files for _, given in tasks(yaml.safe_load(file.read_text()), "ansible.builtin.set_fact")
    ]
    names = {name for given in found for name in given}
    assert names
    assert {name for name in names if not name.startswith(("thp_", "ansible_failed_"))} == set()


@pytest.mark.parametrize("role", ROLES)
def test_specified_defaults_are_those_in_force(role: str) -> None:
    for name, value in load(role, "defaults", "main.yml").items():
        option = options(role)[name]
        if isinstance(value, str) and "{{" in value:
            continue
        assert option["default"] == value, name


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_is_a_file_of_tasks(role: str) -> None:
    for entry in load(role, "meta", "argument_specs.yml")["argument_specs"]:
        assert (collection.SOURCE / "roles" / role / "tasks" / f"{entry}.yml").exists()


PROGRAM = re.compile(
    r"^ *(?:- )?(?:ansible\.(?:builtin|legacy)\.)?(?:command|expect|raw|script|shell|template):|\{%", re.MULTILINE
)


def test_no_task_holds_a_program() -> None:
    """Logic belongs where it is typed and tested: no command, no shell, no templates that compute."""
    paths = [path for name in ("roles", "playbooks") for path in (collection.SOURCE / name).rglob("*.yml")]
    assert {"rollout.yml", "hand_over.yml", "main.yml"} <= {path.name for path in paths}
    assert [path for path in paths if PROGRAM.search(path.read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "- ansible.builtin.shell: uname -r | cut -c 1-3\n",
        "- name: Look\n  shell: uname -r\n",
        "    - name: Look\n      ansible.builtin.command:\n        argv: [python3, -c, 'print(1)']\n",
        'when: "{% if a %}yes{% endif %}"\n',
    ],
)
def test_a_program_in_a_task_is_found(text: str) -> None:
    assert PROGRAM.search(text)


def tasks(found: object, of: str = "kernel_thp.fleet.") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the modules, of ours by default, that a file of YAML calls, with what they are given."""
    if isinstance(found, list):
        for item in found:
            yield from tasks(item, of)
    elif isinstance(found, dict):
        for key, value in found.items():
            if str(key).startswith(of):
                yield str(key).rpartition(".")[2], value or {}
            else:
                yield from tasks(value, of)


def test_tasks_give_modules_what_these_take() -> None:
    """Most tasks are done in the lab only, some of them only when others fail."""
    takes = {name: importlib.import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION for name in MODULES}
    options = {name: set(yaml.safe_load(text).get("options", {})) for name, text in takes.items()}
    called = [call for path in collection.SOURCE.rglob("*.yml") for call in tasks(yaml.safe_load(path.read_text()))]
    assert {"note", "packages", "record"} <= {name for name, _ in called}
    assert [(name, given) for name, given in called if not set(given) <= options[name]] == []


def test_every_module_has_an_action_of_ours() -> None:
    """Ansible's own would take a host that is gone out of the play, without a verdict."""
    routes = yaml.safe_load((collection.SOURCE / "meta" / "runtime.yml").read_text())["plugin_routing"]["modules"]
    routed = {name: route["action_plugin"].rpartition(".")[2] for name, route in routes.items()}
    own = set(ACTIONS) - set(routed.values())
    assert own | set(routed) == set(MODULES)
    assert set(routed.values()) <= set(ACTIONS)
    assert not own & set(routed)


def test_the_admitted_releases_of_ansible_are_those_that_are_tested() -> None:
    """Beyond the newest, nobody knows whether what test_fleet_internals.py lists is still there."""
    admitted = yaml.safe_load((collection.SOURCE / "meta" / "runtime.yml").read_text())["requires_ansible"]
    first, *_, last = collection_matrix.RELEASES
    major, minor = last.name.split(".")
    assert admitted == f">={first.name}.0,<{major}.{int(minor) + 1}.0"


def test_modules_are_documented(ansible: Mapping[str, str]) -> None:
    names = [f"kernel_thp.fleet.{name}" for name in MODULES]
    done = run(ansible, "ansible-doc", "--json", "-t", "module", *names)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(names)


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_playbooks_are_found_by_name_and_are_sound(ansible: Mapping[str, str], playbook: str) -> None:
    words = ["ansible-playbook", "-i", "localhost,", "--syntax-check", f"kernel_thp.fleet.{playbook}"]
    done = run(ansible, *words)
    assert done.returncode == 0, done.stderr


def test_lint_finds_nothing_at_its_strictest(ansible: Mapping[str, str]) -> None:
    words = ["ansible-lint", "--offline", "--strict", "--profile", "production", "--nocolor"]
    done = run(ansible, *words, cwd=collection.SOURCE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(ansible: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The search path in which ansible-galaxy has installed the archive."""
    target = tmp_path_factory.mktemp("installed")
    done = run(ansible, "ansible-galaxy", "collection", "build", "--output-path", str(target), str(collection.SOURCE))
    assert done.returncode == 0, done.stderr
    (archive,) = target.glob("kernel_thp-fleet-*.tar.gz")
    alone = {**ansible, "ANSIBLE_COLLECTIONS_PATH": str(target)}
    done = run(alone, "ansible-galaxy", "collection", "install", "--offline", "-p", str(target), str(archive))
    assert done.returncode == 0, done.stderr
    return target


def test_the_archive_holds_all_that_the_collection_needs(ansible: Mapping[str, str], installed: Path) -> None:
    assert not list((installed / "ansible_collections").glob("**/*.pyc"))
    # Here they are links to files of the project, which the archive has to hold itself.
    assert not [path for path in installed.rglob("*") if path.is_symlink()]
    for name in ("plugins/module_utils/splat_list.py", "docs/fleet.md", "LICENSE", "changelogs/changelog.yaml"):
        assert (installed / "ansible_collections" / "kernel_thp" / "fleet" / name).is_file(), name
    alone = {**ansible, "ANSIBLE_COLLECTIONS_PATH": str(installed)}
    done = run(alone, "ansible-playbook", "-i", "localhost,", "--syntax-check", "kernel_thp.fleet.rollout")
    assert done.returncode == 0, done.stderr


# Those of Ansible's sanity tests that install nothing.
SANITY = {"action-plugin-docs", "compile", "empty-init", "ignores", "line-endings", "no-assert", "no-get-exception"}
SANITY |= {"no-illegal-filenames", "no-smart-quotes", "shebang", "symlinks", "use-argspec-type-path", "use-compat-six"}


def test_the_sanity_tests_of_ansible_find_nothing(ansible: Mapping[str, str], installed: Path) -> None:
    folder = installed / "ansible_collections" / "kernel_thp" / "fleet"
    known = run(ansible, "ansible-test", "sanity", "--list-tests", cwd=folder).stdout.split()
    chosen = [word for name in sorted(SANITY.intersection(known)) for word in ("--test", name)]
    assert len(chosen) > len(SANITY)
    python = ".".join(map(str, sys.version_info[:2]))
    done = run(ansible, "ansible-test", "sanity", "--color", "no", "--python", python, *chosen, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_are_documented_as_they_are_taken() -> None:
    shared = {"type": "str", "required": False, "default": None, "choices": None, "elements": None}
    for name in MODULES:
        module = importlib.import_module(f"{PLUGINS}.modules.{name}")
        documented = yaml.safe_load(module.DOCUMENTATION)
        for attribute in documented.get("attributes", {}).values():
            assert set(attribute) == {"support", "description"}, name
        if hasattr(module, "ARGUMENTS"):
            described = {
                option: {key: given.get(key, shared[key]) for key in shared}
                for option, given in documented["options"].items()
            }
            taken = {**module.ARGUMENTS, **(RUN if "run" in described else {})}
            # Whether Ansible may log a value is not for the documentation.
            plain = {option: {key: given[key] for key in given if key != "no_log"} for option, given in taken.items()}
            assert described == {option: {**shared, **given} for option, given in plain.items()}, name


# Hosts that are gone: what Ansible by itself would pass over


def inventory(folder: Path, hosts: list[str]) -> str:
    variables = {"ansible_host": "127.0.0.1", "ansible_port": NOBODY, "thp_preflight_connect_timeout": 1}
    variables |= {"thp_gate_connect_timeout": 1, "thp_rollback_connect_timeout": 1}
    groups = {"all": {"hosts": dict.fromkeys(hosts), "vars": variables}, "canary": {"hosts": {hosts[-1]: None}}}
    path = folder / "inventory.json"
    path.write_text(json.dumps(groups))
    return str(path)


def play(ansible: Mapping[str, str], folder: Path, playbook: str, *words: str) -> tuple[int, str, dict[str, Any]]:
    hosts = inventory(folder, ["h1", "h2", "h3"])
    reports = f"thp_report_directory={folder / 'reports'}"
    done = run(ansible, "ansible-playbook", "-i", hosts, f"kernel_thp.fleet.{playbook}", "-e", reports, *words)
    report = folder / "reports" / "latest" / "report.json"
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else {}


def test_a_canary_that_does_not_answer_ends_the_rollout(ansible: Mapping[str, str], tmp_path: Path) -> None:
    code, output, report = play(ansible, tmp_path, "rollout")
    assert code == 2
    assert "1 host failed, 0 allowed; h3: unreachable, preflight failed: the host does not answer" in output
    assert (report["state"], report["failed"]) == ("stopped", True)
    assert {host["host"]: host["result"] for host in report["hosts"]} == {
        "h3": "unreachable",
        "h1": "not-reached",
        "h2": "not-reached",
    }
    assert (tmp_path / "reports" / "latest" / "report.html").exists()


def test_within_the_limit_a_run_goes_on_and_still_does_not_end_well(ansible: Mapping[str, str], tmp_path: Path) -> None:
    code, _, report = play(ansible, tmp_path, "rollback", "-e", '{"thp_fleet_max_failed": 3, "thp_fleet_serial": [1]}')
    assert code == 2
    assert (report["state"], report["failed"]) == ("finished", True)
    assert report["planned"] == ["h3", "h1", "h2"]
    assert report["counts"] == {"unreachable": 3}


def test_in_check_mode_no_report_is_left(ansible: Mapping[str, str], tmp_path: Path) -> None:
    code, output, _ = play(ansible, tmp_path, "rollout", "--check", "--diff")
    assert code == 2
    assert "h3: unreachable" in output
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize("playbook", ["rollback", "validate"])
def test_the_other_playbooks_count_them_as_well(ansible: Mapping[str, str], tmp_path: Path, playbook: str) -> None:
    code, _, report = play(ansible, tmp_path, playbook)
    assert code == 2
    assert report["playbook"] == playbook
    assert report["hosts"][0]["result"] == "unreachable"


# Mistakes of an operator: none of them may look like a successful rollout


@pytest.mark.parametrize("playbook", ["rollout", "rollback", "validate"])
def test_a_fleet_that_is_not_in_the_inventory_is_an_error(
    ansible: Mapping[str, str], tmp_path: Path, playbook: str
) -> None:
    code, output, report = play(ansible, tmp_path, playbook, "-e", "thp_fleet_hosts=wbe")
    assert code != 0
    assert "thp_fleet_hosts: the inventory has no group or host wbe" in output
    assert report == {}


def test_an_inventory_without_hosts_is_an_error(ansible: Mapping[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"all": {"hosts": {}}}')
    done = run(ansible, "ansible-playbook", "-i", str(empty), "kernel_thp.fleet.rollout")
    assert done.returncode != 0
    assert "thp_fleet_hosts: there is no host in all" in done.stderr


def test_a_limit_that_fits_no_host_is_an_error(ansible: Mapping[str, str], tmp_path: Path) -> None:
    code, output, report = play(ansible, tmp_path, "rollout", "--limit", "h9")
    assert code != 0
    assert "leaves us with no hosts to target" in output
    assert report == {}
