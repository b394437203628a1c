#!/bin/bash
# Install Debian's policy for SELinux, and label all files.
# usage: selinux.sh ROOT
# environment: LAB_KIND the directory of the kind of host, for lab.cil
set -euo pipefail

root=$1
modules=/usr/share/selinux/default

# The package is unpacked without its scriptlet, which fails: it turns off a module that the package no longer has.
chroot "$root" sh -ec 'cd /tmp; apt-get -q download selinux-policy-default
dpkg-deb -x selinux-policy-default_*.deb /; rm selinux-policy-default_*.deb'
# A policy that Linux 6.1 can read as it is: systemd would translate a newer one at each boot.
echo "policy-version = 33" >> "$root/etc/selinux/semanage.conf"
cp "$LAB_KIND/lab.cil" "$root$modules"
(cd "$root$modules" && printf "$modules/%s\n" *.pp.bz2 lab.cil) | xargs chroot "$root" semodule -n -X 100 -s default -i
# The kernel of this machine has no SELinux, but stores the labels. -m: nor does it say which file systems have them.
chroot "$root" setfiles -F -m -e /dev -e /proc -e /run -e /sys /etc/selinux/default/contexts/files/file_contexts /
