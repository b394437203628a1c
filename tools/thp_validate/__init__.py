"""thp-validate: is this host set up as supported, and if not, why and what to do.

Runs on every host with Python 3.9, so it uses the standard library only.
"""
