"""Measure the cost of a rollout itself, with many simulated hosts: `make fleet-scale`.

The kernel, the boot loader, dnf, rpm, systemd and tuned are simulated and take no time. Ansible, ssh, sshd, Python and
every line of the collection are real, on the controller and on the host.
"""
