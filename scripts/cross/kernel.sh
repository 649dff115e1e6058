#!/usr/bin/env bash
# Fetch the Linux kernel that boots in the emulator, into build-kernel-amd64/vmlinuz.
#
# It is Debian 12's cloud kernel, downloaded and unpacked, not installed: 6.1 boots in half the time of
# what later releases have, and its packages are signed by the keyring that Debian and Ubuntu both carry.
# Exit: 0 it is there; 2 it could not be had.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kernel=$root/build-kernel-amd64
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [ -s "$kernel/vmlinuz" ]; then
    exit 0
fi

# shellcheck source=scripts/cross/apt.sh
. "$root/scripts/cross/apt.sh"
# shellcheck source=/dev/null
. /etc/os-release
log=$root/build-logs/kernel.log
work=$(mktemp -d "$root/build-kernel-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$root/build-logs" "$work/tree"
private_apt "$work/apt" amd64
if [ "${VERSION_CODENAME:-}" != bookworm ]; then
    for suite in bookworm bookworm-updates; do
        echo "deb [signed-by=$keyring] http://deb.debian.org/debian $suite main"
    done >"$work/apt/sources.list"
    echo "deb [signed-by=$keyring] http://deb.debian.org/debian-security bookworm-security main" \
        >>"$work/apt/sources.list"
    apt_options+=(-o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null)
fi

fetch() {
    local package
    apt-get "${apt_options[@]}" update || true # a source that fails is judged by what is missing below
    # The package of that name only points to the present version.
    package=$(apt-cache "${apt_options[@]}" depends linux-image-cloud-amd64 |
        sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
    [ -n "$package" ] || return 1
    (cd "$work" && apt-get "${apt_options[@]}" download "$package") || return 1
    dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb |
        tar -x -C "$work/tree" --strip-components=2 --wildcards './boot/vmlinuz-*' || return 1
    mv "$work"/tree/vmlinuz-* "$work/tree/vmlinuz"
}

printf 'fetching a kernel for the emulator into %s\n' "${kernel#"$root"/}" >&2
if ! fetch >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    printf 'kernel.sh: could not download the kernel (above: the end of %s).%s\n' "${log#"$root"/}" \
        " Run scripts/cross/kernel.sh again when the archive can be reached, or leave out suite avx512" >&2
    exit 2
fi
rm -rf "$kernel"
mv "$work/tree" "$kernel"
