#!/usr/bin/env bash
# Model the kernels' inner loops with llvm-mca, for CPUs that this machine is not.
#
#   scripts/mca.sh
#
# Compiles the kernels to assembly with the flags of a release build, gcc and clang, takes the hottest loop
# of each function and prints what one turn of it costs:
#
#   cycles  of one turn in steady state          FMAs    in one turn
#   limit   cycles the FMA pipes need for those  use     limit / cycles
#   stack   instructions that write (w) to the stack or read (r) from it
#
# Nothing is executed. llvm-mca knows pipes and latencies; it knows no caches, no front end and no change of
# frequency: it says what a loop could do, not what it does. What a level needs is installed where it can
# be; a level that cannot be compiled is named and left out. What is held to which limit: scripts/loopmodel/.
#
# Exit: 0 every loop is as it should be; 1 one is not, its line says why; 2 nothing could be modelled.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
    "") ;;
    -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    *)
        printf 'mca.sh: unknown option: %s (there are none but --help)\n' "$1" >&2
        exit 2
        ;;
esac
"$root/scripts/setup.sh" build clang arm mca python
# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
MESON=$(find_meson 1.0.0 || echo meson)
export MESON
cd "$root"
PYTHONPATH=$root/scripts PYTHONDONTWRITEBYTECODE=1 exec "$root/.venv/bin/python" -m loopmodel
