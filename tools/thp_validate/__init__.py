"""thp-validate: report whether this host is set up as supported, and if not, why and what to do.

It must run on every host with Python 3.9, so it uses the standard library only.
"""

# That of the package, SPECS/thp-tools.spec.
VERSION = "1.0"
