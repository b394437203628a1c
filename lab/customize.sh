#!/bin/bash
# Finish the root file system that mmdebstrap made.
# usage: customize.sh ROOT
# environment: LAB_FILES this directory, LAB_KIND the directory of the kind of host, LAB_KEY the ssh public key to admit,
# LAB_PARTITIONS words like LABEL=/MOUNTPOINT, LAB_TREES where the content of LABEL goes
set -euo pipefail

root=$1

echo "lab: host provides"
cp "$LAB_FILES/host-provides.spec" "$root/tmp/"
chroot "$root" rpmbuild -bb --define '_topdir /tmp/rpmbuild' --define "kind ${LAB_KIND##*/}" /tmp/host-provides.spec
# Debian's rpm before version 6 asks for this option where it would install beside dpkg.
force=$(chroot "$root" rpm --help | grep -o -- --force-debian || true)
chroot "$root" sh -c "rpm $force -i /tmp/rpmbuild/RPMS/noarch/lab-host-provides-*.rpm"
rm -r "$root/tmp/rpmbuild" "$root/tmp/host-provides.spec"

echo "lab: administrator, ssh key, units"
chroot "$root" useradd --create-home --shell /bin/bash admin
echo 'admin ALL=(ALL) NOPASSWD: ALL' | install -m 0440 /dev/stdin "$root/etc/sudoers.d/admin"
for user in root admin; do
    home=$(chroot "$root" sh -c "echo ~$user")
    chroot "$root" install -d -m 0700 -o "$user" -g "$user" "$home/.ssh"
    install -m 0600 "$LAB_KEY" "$root$home/.ssh/authorized_keys"
    chroot "$root" chown "$user:" "$home/.ssh/authorized_keys"
done
awk '$1 ~ /able$/ { print $2 }' "$root"/etc/systemd/system-preset/*-lab*.preset | xargs chroot "$root" systemctl preset
# Every host makes its own id at its first start. An empty file, unlike a missing one, is not a "first boot".
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"

echo "lab: boot loader and stock kernel"
# An RPM host has the kernel in here, and in /boot only what kernel-install puts there.
kernels=("$root"/boot/vmlinuz-*)
version=${kernels[0]##*/vmlinuz-}
mv "${kernels[0]}" "$root/lib/modules/$version/vmlinuz"
mv "$root/boot/config-$version" "$root/lib/modules/$version/config"
rm -f "$root"/boot/*-"$version"
# kernel-install and its plugins look at what is mounted, so each partition has to be a file system of its own.
mounted=()
for partition in $LAB_PARTITIONS; do
    tree=$LAB_TREES/${partition%%=*}
    mountpoint=$root${partition#*=}
    mkdir -p "$tree" "$mountpoint"
    cp -a "$mountpoint/." "$tree"
    find "$mountpoint" -mindepth 1 -delete
    mount -t tmpfs "${partition%%=*}" "$mountpoint"
    cp -a "$tree/." "$mountpoint"
    mounted=("$partition" "${mounted[@]}")
done
"$LAB_KIND/boot.sh" "$root" "$version"
for partition in "${mounted[@]}"; do
    tree=$LAB_TREES/${partition%%=*}
    mountpoint=$root${partition#*=}
    rm -r "$tree"
    cp -a "$mountpoint" "$tree"
    umount "$mountpoint"
done

if [ -x "$LAB_KIND/selinux.sh" ]; then
    echo "lab: SELinux"
    # A tmpfs may not keep labels, so now each partition is what its file system will be made from.
    for partition in $LAB_PARTITIONS; do
        mount --bind "$LAB_TREES/${partition%%=*}" "$root${partition#*=}"
    done
    "$LAB_KIND/selinux.sh" "$root"
    for partition in "${mounted[@]}"; do
        umount "$root${partition#*=}"
    done
fi

rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin
