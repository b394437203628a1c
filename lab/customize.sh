#!/bin/bash
# Finish the root file system that mmdebstrap made.
# usage: customize.sh ROOT
# environment: LAB_FILES this directory, LAB_ESP where the content of the ESP goes, LAB_KEY the ssh public key to admit
set -euo pipefail

root=$1
esp=$root/efi

echo "lab: host provides"
cp "$LAB_FILES/host-provides.spec" "$root/tmp/"
chroot "$root" rpmbuild -bb --define '_topdir /tmp/rpmbuild' /tmp/host-provides.spec
# Debian's rpm asks for this option where it would install beside dpkg.
chroot "$root" sh -c 'rpm --force-debian -i /tmp/rpmbuild/RPMS/noarch/lab-host-provides-*.rpm'
rm -r "$root/tmp/rpmbuild" "$root/tmp/host-provides.spec"

echo "lab: ssh key, units"
install -D -m 0600 "$LAB_KEY" "$root/root/.ssh/authorized_keys"
awk '$1 ~ /able$/ { print $2 }' "$root/etc/systemd/system-preset/10-lab.preset" | xargs chroot "$root" systemctl preset
# Every host makes its own id at its first start. An empty file, unlike a missing one, is not a "first boot".
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"

echo "lab: boot loader and stock kernel"
# kernel-install asks where the ESP is mounted, so something has to be.
mkdir -p "$esp"
mount -t tmpfs esp "$esp"
mkdir -p "$esp/loader/entries" "$esp/EFI/BOOT" "$esp/EFI/systemd"
echo type1 > "$esp/loader/entries.srel"
printf 'timeout 0\nconsole-mode keep\n' > "$esp/loader/loader.conf"
cp "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" "$esp/EFI/BOOT/BOOTX64.EFI"
cp "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" "$esp/EFI/systemd/"
kernels=("$root"/boot/vmlinuz-*)
version=${kernels[0]##*/vmlinuz-}
chroot "$root" kernel-install --verbose add "$version" "/boot/vmlinuz-$version"
cp -r "$esp/." "$LAB_ESP"
# The stock kernel is known to be good. The entry of a later one starts with three tries.
echo 3 > "$root/etc/kernel/tries"
umount "$esp"

rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin
