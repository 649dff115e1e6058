#!/usr/bin/env bash
# Install what attnscope's own commands need, and nothing that is already there.
#
#   scripts/setup.sh [GROUP]...     build, if none is named; --help lists the groups
#
# scripts/bench.sh and scripts/test.sh call this; it is of use alone to prepare a machine.
#
# System packages come from the system's own manager (apt, dnf, pacman or brew), as root or through
# sudo. Python packages go into .venv in this checkout, at pinned versions, never into the system's
# Python. apt on Debian 12 is what this is run on regularly; dnf, pacman and brew are written from
# their package lists and have not been tried.
#
# hwloc, Google Benchmark's tools, llvm-mca, the emulators of oldcpu and avx512 and the browser are optional:
# they are installed where they can be, and where they cannot, a line says so and the set-up goes on.
#
# Exit: 0 everything needed is there; 2 something is missing and could not be installed (one message names
# the command to run). Environment: ATTNSCOPE_NO_INSTALL=1 never installs system packages, only says
# what is missing; ATTNSCOPE_PYTHON names the Python (3.11 or newer) that .venv is made from.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
log_dir=$root/build-logs
venv=$root/.venv

# What each group looks for, and the package that provides it. cmd: a program on PATH; pc: a
# pkg-config module; fuzzer, omp: libFuzzer, OpenMP of that compiler; deb: a Debian package that shows in none
# of these ways, looked for under apt alone. "-" means that this manager needs nothing for it, or that its
# system has no such thing (Apple's clang has no OpenMP). A kind that ends in "?" is optional.
#
#       group   look for                   apt                      dnf                     pacman                 brew
readonly table='
        build   cmd:gcc                    gcc                      gcc                     gcc                    -
        build   cmd:g++                    g++                      gcc-c++                 gcc                    -
        build   meson:1.0.0                meson                    meson                   meson                  meson
        build   cmd:ninja                  ninja-build              ninja-build             ninja                  ninja
        build   cmd:pkg-config             pkg-config               pkgconf-pkg-config      pkgconf                pkgconf
        build   pc?:hwloc                  libhwloc-dev             hwloc-devel             hwloc                  hwloc
        build   pc:benchmark               libbenchmark-dev         google-benchmark-devel  benchmark              google-benchmark
        build   pc:jansson                 libjansson-dev           jansson-devel           jansson                jansson
        test    pc:cmocka                  libcmocka-dev            libcmocka-devel         cmocka                 cmocka
        test    cmd:nm                     binutils                 binutils                binutils               -
        test    deb?:libbenchmark-tools    libbenchmark-tools       -                       -                      -
        clang   cmd:clang                  clang                    clang                   clang                  -
        clang   cmd:clang++                clang                    clang                   clang                  -
        clang   omp:clang                  libomp-dev               libomp-devel            openmp                 -
        fuzz    cmd:clang                  clang                    clang                   clang                  -
        fuzz    cmd:clang++                clang                    clang                   clang                  -
        fuzz    fuzzer:clang               libclang-rt-dev          compiler-rt             compiler-rt            -
        valgrind cmd:valgrind              valgrind                 valgrind                valgrind               -
        lint    cmd:shellcheck             shellcheck               ShellCheck              shellcheck             shellcheck
        arm     cmd:aarch64-linux-gnu-gcc  gcc-aarch64-linux-gnu    -                       -                      -
        arm     cmd:aarch64-linux-gnu-g++  g++-aarch64-linux-gnu    -                       -                      -
        arm     cmd:qemu-aarch64           qemu-user                -                       -                      -
        mca     cmd?:llvm-mca-19           llvm-19                  -                       -                      -
        oldcpu  cmd?:qemu-x86_64           qemu-user                qemu-user               qemu-user              -
        avx512  cmd?:bochs                 bochs                    -                       -                      -
        avx512  deb?:bochs-term            bochs-term               -                       -                      -
        avx512  deb?:bochsbios             bochsbios                -                       -                      -
        avx512  deb?:vgabios               vgabios                  -                       -                      -
        avx512  deb?:busybox-static        busybox-static           -                       -                      -
        avx512  deb?:isolinux              isolinux                 -                       -                      -
        avx512  deb?:syslinux-common       syslinux-common          -                       -                      -
        avx512  cmd?:xorriso               xorriso                  -                       -                      -
        avx512  cmd?:cpio                  cpio                     -                       -                      -
        avx512  deb?:debian-archive-keyring debian-archive-keyring  -                       -                      -
        browser cmd?:chromium              chromium                 chromium                chromium                -
        python  python:3.11                python3-venv             python3                 python                 python@3.12
'

# The groups that may be asked for, in the table's order. python-dev: python, and what the tests need of it.
all_groups() {
    awk 'NF && !seen[$1]++ { print $1 }' <<<"$table"
    echo python-dev
}

die() {
    printf '%s\n' "setup.sh: $*" >&2
    exit 2
}

say() {
    printf '%s\n' "$*" >&2
}

# The first meson that runs and is at least version $1. A version manager's shim may stand on PATH
# before the one that works.
find_meson() {
    local want=$1 candidate have
    while read -r candidate; do
        have=$("$candidate" --version 2>/dev/null) || continue
        if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ]; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done < <({ [ -z "${MESON:-}" ] || echo "$MESON"; type -aP meson || true; echo /usr/bin/meson; })
    return 1
}

# The first Python that is new enough and can make virtual environments: Debian splits that off.
find_python() {
    local want=$1 candidate
    while read -r candidate; do
        if "$candidate" -c "import ensurepip, sys, venv
sys.exit(sys.version_info < ($want,))" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done < <([ -z "${ATTNSCOPE_PYTHON:-}" ] || echo "$ATTNSCOPE_PYTHON"
             type -aP python3 || true
             type -aP python3.14 python3.13 python3.12 python3.11 || true
             echo /usr/bin/python3)
    return 1
}

have() {
    local kind=${1%%:*} name=${1#*:}
    case ${kind%\?} in
        cmd) command -v "$name" >/dev/null ;;
        pc) pkg-config --exists "$name" 2>/dev/null ;;
        meson) find_meson "$name" >/dev/null ;;
        python) find_python "${name/./, }" >/dev/null ;;
        fuzzer) echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
            "$name" -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null ;;
        omp) printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' |
            "$name" -fopenmp -x c - -o /dev/null 2>/dev/null ;;
        deb) [ "$manager" != apt ] ||
            [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] ;;
        *) die "internal: unknown kind in the table: $1" ;;
    esac
}

find_manager() {
    local name
    for name in apt-get dnf pacman brew; do
        if command -v "$name" >/dev/null; then
            echo "${name%-get}"
            return
        fi
    done
    echo none
}

# Packages whose thing is not there, each once, in the table's order. $1: needed or optional; the rest:
# the wanted groups.
missing_packages() {
    local kind=$1 wanted=" ${*:2} " group look apt dnf pacman brew package
    while read -r group look apt dnf pacman brew; do
        case $wanted in *" ${group:-none} "*) ;; *) continue ;; esac
        case $look in *\?:*) [ "$kind" = optional ] ;; *) [ "$kind" = needed ] ;; esac || continue
        case $group in arm | oldcpu | avx512) [ "$(uname -m)" = x86_64 ] || continue ;; esac
        have "$look" && continue
        case $manager in
            dnf) package=$dnf ;;
            pacman) package=$pacman ;;
            brew) package=$brew ;;
            *) package=$apt ;; # without a manager Debian's name says what is meant
        esac
        [ "$package" = - ] || echo "$package"
    done <<<"$table" | awk '!seen[$0]++'
}

install_command() {
    case $manager in
        apt) echo "apt-get update && ${1}apt-get install -y --no-install-recommends ${*:2}" ;;
        dnf) echo "dnf install -y ${*:2}" ;;
        pacman) echo "pacman -S --needed --noconfirm ${*:2}" ;;
        brew) echo "brew install ${*:2}" ;;
    esac
}

# The command a person would type; without sudo on the machine, root's own shell is what is left.
command_for_person() {
    if [ "$manager" = brew ] || [ "$(id -u)" = 0 ]; then
        install_command "" "$@"
    elif command -v sudo >/dev/null; then
        echo "sudo $(install_command 'sudo ' "$@")"
    else
        echo "su -c '$(install_command "" "$@")'"
    fi
}

# $1: the command that a message tells a person to run; the rest: packages.
install_packages() {
    local log=$log_dir/packages.log sudo=() command=$1
    shift
    if [ "$manager" = none ]; then
        die "missing: $*; none of apt-get, dnf, pacman and brew is here. Install them, then start this again."
    fi
    if [ -n "${ATTNSCOPE_NO_INSTALL:-}" ]; then
        die "missing: $* (ATTNSCOPE_NO_INSTALL is set). Run: $command"
    fi
    if [ "$manager" != brew ] && [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            die "missing: $*, and this user may not install packages (not root, no sudo). Run: $command"
        elif sudo -n true 2>/dev/null; then
            sudo=(sudo -n)
        elif [ -t 0 ]; then
            sudo=(sudo)
        else
            die "missing: $*, and sudo wants a password. Run: $command"
        fi
    fi
    say "installing: $*"
    case $manager in
        apt)
            # A source that cannot be reached is no reason to stop: the packages may come from another.
            "${sudo[@]}" apt-get update >"$log" 2>&1 || true
            "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y \
                --no-install-recommends "$@" >>"$log" 2>&1 </dev/null
            ;;
        dnf) "${sudo[@]}" dnf install -y "$@" >"$log" 2>&1 ;;
        pacman) "${sudo[@]}" pacman -S --needed --noconfirm "$@" >"$log" 2>&1 ;;
        brew) brew install "$@" >"$log" 2>&1 ;;
    esac || {
        tail -n 10 "$log" >&2
        die "could not install: $* (above: the end of ${log#"$root"/}). Run: $command"
    }
}

# The virtual environment, made again when its Python is gone and filled when a list of requirements
# is new or has changed. $@: requirement files.
make_venv() {
    local python log=$log_dir/python.log stamp=$venv/.installed args=() keys="" file key
    "$venv/bin/python" -c '' 2>/dev/null || rm -rf "$venv"
    for file in "$@"; do
        key=$(cksum <"$file")
        grep -qsxF "$key" "$stamp" && continue
        args+=(-r "$file")
        keys+=$key$'\n'
    done
    [ -n "$keys" ] || return 0
    say "installing Python packages into ${venv#"$root"/}"
    python=$(find_python "3, 11") ||
        die "no Python 3.11 or newer that can make virtual environments; set ATTNSCOPE_PYTHON to one"
    if ! fill_venv "$python" "${args[@]}" >"$log" 2>&1; then
        tail -n 10 "$log" >&2
        die "could not install Python packages (above: the end of ${log#"$root"/})." \
            "Run: $python -m venv .venv && .venv/bin/python -m pip install ${args[*]//"$root"\//}"
    fi
    printf '%s' "$keys" >>"$stamp"
}

fill_venv() {
    local python=$1
    if [ ! -x "$venv/bin/python" ]; then
        "$python" -m venv "$venv" || return 1
    fi
    "$venv/bin/python" -m pip install --disable-pip-version-check --retries 2 "${@:2}"
}

main() {
    local missing optional group groups wanted="" requirements=("$root/scripts/requirements.txt")
    groups=$(all_groups)
    for group in "${@:-build}"; do
        case $group in
            -h | --help)
                sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
                printf '\nGroups: %s\n' "${groups//$'\n'/ }"
                exit 0
                ;;
        esac
        grep -qxF -- "$group" <<<"$groups" || die "unknown group: $group (${groups//$'\n'/ })"
        wanted+=" ${group%-dev}"
        [ "$group" != python-dev ] || requirements+=("$root/scripts/requirements-dev.txt")
    done
    mkdir -p "$log_dir"
    # shellcheck disable=SC2086 # these are lists of words
    {
        missing=$(missing_packages needed $wanted)
        optional=$(missing_packages optional $wanted)
        if [ -n "$missing" ]; then
            # Who types the command gets what is optional with it.
            install_packages "$(command_for_person $missing $optional)" $missing
            missing=$(missing_packages needed $wanted)
            [ -z "$missing" ] ||
                die "still missing after installing: ${missing//$'\n'/ }" \
                    "(see ${log_dir#"$root"/}/packages.log)"
        fi
        # Apart from the others, group by group: one package that is not to be had stops all that are
        # installed with it.
        for group in $wanted; do
            optional=$(missing_packages optional "$group")
            if [ -n "$optional" ]; then
                (install_packages "$(command_for_person $optional)" $optional) ||
                    say "setup.sh: going on without ${optional//$'\n'/ }, which is optional"
            fi
        done
    }
    case "$wanted " in *" python "*) make_venv "${requirements[@]}" ;; esac
    # Elsewhere there is nothing to make it from, and on AArch64 no need for it: the suite says so.
    if [ "$manager" = apt ] && [ "$(uname -m)" = x86_64 ]; then
        case "$wanted " in *" arm "*) "$root/scripts/cross/sysroot.sh" ;; esac
        case "$wanted " in *" avx512 "*)
            "$root/scripts/cross/kernel.sh" || say "setup.sh: going on without it" ;;
        esac
    fi
}

manager=$(find_manager)
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    main "$@"
fi
