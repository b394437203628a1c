#!/bin/bash
# Set up shim, GRUB and the stock kernel.
# usage: boot.sh ROOT VERSION
# environment: LAB_SIGN_KEY, LAB_SIGN_CERT: sign GRUB
set -euo pipefail

root=$1
version=$2
esp=/boot/efi/EFI/BOOT
# Under Secure Boot GRUB loads no module, so all that it needs is built in. Debian's signed GRUB lacks blsuki.
modules=(blsuki configfile echo ext2 fat linux loadenv normal part_gpt reboot search serial terminal test)

cp "$root/usr/lib/shim/shimx64.efi.signed" "$root$esp/BOOTX64.EFI"
cp "$root/usr/lib/shim/mmx64.efi.signed" "$root$esp/mmx64.efi"
# The first line of what shim wants to know of a loader is the format, the second our GRUB's generation.
# shellcheck disable=SC2016  # dpkg-query reads it
release=$(chroot "$root" dpkg-query -W -f='${source:Upstream-Version}' grub-efi-amd64-bin)
cat > "$root/tmp/sbat" << END
sbat,1,SBAT Version,sbat,1,https://github.com/rhboot/shim/blob/main/SBAT.md
grub,5,Free Software Foundation,grub,$release,https://www.gnu.org/software/grub/
END
chroot "$root" grub-mkimage -O x86_64-efi -p /EFI/BOOT --sbat /tmp/sbat -o "$esp/grubx64.efi" "${modules[@]}"
rm "$root/tmp/sbat"
sbsign --key "$LAB_SIGN_KEY" --cert "$LAB_SIGN_CERT" --output "$root$esp/grubx64.efi" "$root$esp/grubx64.efi"

# The stock kernel would take AppArmor.
sed -i 's/$/ security=selinux/' "$root/etc/kernel/cmdline"
mkdir -p "$root/boot/loader/entries"
chroot "$root" grub-editenv /boot/grub2/grubenv create
chroot "$root" kernel-install --verbose add "$version" "/lib/modules/$version/vmlinuz"
