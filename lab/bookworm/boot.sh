#!/bin/bash
# Set up systemd-boot and the stock kernel.
# usage: boot.sh ROOT VERSION
set -euo pipefail

root=$1
version=$2
esp=$root/efi

mkdir -p "$esp/loader/entries" "$esp/EFI/BOOT" "$esp/EFI/systemd"
echo type1 > "$esp/loader/entries.srel"
printf 'timeout 0\nconsole-mode keep\n' > "$esp/loader/loader.conf"
cp "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" "$esp/EFI/BOOT/BOOTX64.EFI"
cp "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" "$esp/EFI/systemd/"
chroot "$root" kernel-install --verbose add "$version" "/lib/modules/$version/vmlinuz"
# The stock kernel is known to be good. The entry of a later one starts with three tries.
echo 3 > "$root/etc/kernel/tries"
