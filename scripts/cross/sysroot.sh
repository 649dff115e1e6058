#!/usr/bin/env bash
# Make an AArch64 system root in build-sysroot-arm64/ out of this distribution's own packages.
#
# The cross compiler and qemu-user come from the host's packages; the libraries that tests link to
# (C library, cmocka, hwloc, Google Benchmark, jansson, sanitizers) are downloaded and unpacked here.
# The host gets no foreign architecture, none of its packages is upgraded, and no root is needed.
# Adding arm64 to dpkg instead works on Debian, but it upgrades host packages to keep both sides at the
# same version, and on Ubuntu it breaks `apt update`, whose archive has no arm64.
#
# Beside the tree it leaves build-sysroot-arm64/machine.ini, to be given to Meson after
# scripts/cross/aarch64.ini. Exit: 0 it is there; 2 it could not be made.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
sysroot=$root/build-sysroot-arm64
packages="libc6-dev libstdc++6 libgcc-s1 libgomp1 libcmocka-dev libhwloc-dev libbenchmark-dev libjansson-dev"

# shellcheck source=/dev/null
. /etc/os-release
stamp="2 ${ID:-} ${VERSION_ID:-} $packages"
if [ "$(cat "$sysroot/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

log=$root/build-logs/sysroot.log
work=$(mktemp -d "$root/build-sysroot-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$root/build-logs" "$work/tree"
# shellcheck source=scripts/cross/apt.sh
. "$root/scripts/cross/apt.sh"
private_apt "$work/apt" arm64
if [ "${ID:-}" = ubuntu ]; then
    # Ubuntu keeps every architecture but amd64 and i386 in another archive.
    for suite in "$VERSION_CODENAME" "$VERSION_CODENAME-updates" "$VERSION_CODENAME-security"; do
        echo "deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg]" \
            "http://ports.ubuntu.com/ubuntu-ports $suite main universe"
    done >"$work/apt/sources.list"
    apt_options+=(-o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null)
fi

make_tree() {
    local package
    apt-get "${apt_options[@]}" update || true # a source that fails is judged by what is missing below
    # shellcheck disable=SC2086 # a list of words
    apt-get "${apt_options[@]}" --download-only -y install $packages || return 1
    for package in "$work"/apt/cache/archives/*.deb; do
        case ${package##*/} in
            # What the libraries depend on to be installed, but not to be linked or run.
            perl* | libperl* | dpkg_* | tar_* | debianutils_* | auto* | m4_*) ;;
            *) dpkg-deb -x "$package" "$work/tree" || return 1 ;;
        esac
    done
    # Packages put libraries into /lib or /usr/lib, which an installed system makes one directory.
    if [ -d "$work/tree/lib" ]; then
        cp -a "$work/tree/lib/." "$work/tree/usr/lib/" && rm -rf "$work/tree/lib" || return 1
    fi
    ln -s usr/lib "$work/tree/lib"
}

printf 'making an AArch64 system root in %s\n' "${sysroot#"$root"/}" >&2
if ! make_tree >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    printf 'sysroot.sh: could not download the arm64 packages (above: the end of %s).%s\n' "${log#"$root"/}" \
        " Run scripts/cross/sysroot.sh again when the archive can be reached, or leave out the suite: arm" >&2
    exit 2
fi
printf "[constants]\nsysroot = '%s'\n" "$sysroot" >"$work/tree/machine.ini"
printf '%s\n' "$stamp" >"$work/tree/stamp"
rm -rf "$sysroot"
mv "$work/tree" "$sysroot"
