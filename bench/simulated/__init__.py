"""Hosts that answer like hosts and do nothing, so that what a rollout itself costs can be measured with many of them.

Simulated are the kernel, the boot loader, dnf, rpm, systemd and tuned: what takes time on a real host takes none here.
Real are Ansible, ssh, sshd, Python, and every line of the collection, on the controller and on the host.
"""
