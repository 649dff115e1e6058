#!/usr/bin/env bash
# Run attnscope's tests: install what is missing, then every suite.
#
#   scripts/test.sh                      all suites
#   scripts/test.sh gcc python           only these
#   scripts/test.sh --without arm,asan   all but these
#   scripts/test.sh --full               the long forms: more cases, fuzzing for longer, larger limits
#   scripts/test.sh --list               the suites, their time limits (usual, --full) and what each does
#
# A failing suite does not stop the others. Each prints a line with its counts, the time it took, the CPU time
# of its programs (twice the former where neither of two cores was idle) and its limit; logs are in
# build-logs/. The end names the skipped tests with their reasons and the failed ones with their logs; the
# last line is "N passed, N failed, N skipped", single tests counted, not programs.
# A suite that runs no test has failed, and so has a run of all suites in which a level ran nowhere, unless
# the suite that is there for it cannot run here, or that took more than 35 minutes, as they would pass on two
# cores which nothing else uses. What is built and fetched is in directories build-*, kept and reused.
# Variables that would make the tests other ones (ATTNSCOPE_TEST_LEVELS, OMP_NUM_THREADS, CFLAGS and the like)
# are taken out and named.
#
# Exit: 0 none failed; 1 some failed; 2 usage, or something could not be installed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suites_def=$root/scripts/testrunner/suites.def

usage_error() {
    printf 'test.sh: %s\n' "$*" >&2
    exit 2
}

all_suites() {
    awk '!/^#/ && NF { print $1 }' "$suites_def"
}

# The set-up groups of a suite: the words between its name and its minutes.
groups_of() {
    awk -v suite="$1" '$1 == suite { for (i = 2; $i !~ /^[0-9]+$/; i++) print $i }' "$suites_def"
}

check_suite() {
    all_suites | grep -qxF -- "$1" || usage_error "unknown suite: $1 ($(all_suites | paste -sd ' ' -))"
}

named="" without=""
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --list)
            sed -n '/^# suite  /,$p' "$suites_def" | sed 's/^# //'
            printf '\n%s %s\n' "limit, full: minutes after which a suite is ended, usually and with --full;" \
                "not what it takes"
            exit 0
            ;;
        --full) export ATTNSCOPE_TEST_FULL=1 ;;
        --without)
            [ $# -ge 2 ] || usage_error "--without needs a suite ($(all_suites | paste -sd ' ' -))"
            without+=" ${2//,/ }"
            shift
            ;;
        --without=*)
            without+=" ${1#*=}"
            without=${without//,/ }
            ;;
        -*) usage_error "unknown option: $1 (--full, --list, --without SUITE, --help)" ;;
        *) named+=" $1" ;;
    esac
    shift
done
for suite in $named $without; do
    check_suite "$suite"
done

chosen=()
for suite in $(all_suites); do
    case " ${named:-$(all_suites | paste -sd ' ' -)} " in *" $suite "*) ;; *) continue ;; esac
    case " $without " in *" $suite "*) ;; *) chosen+=("$suite") ;; esac
done
[ ${#chosen[@]} -gt 0 ] || usage_error "no suite is left to run"

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
groups=(python-dev)
for suite in "${chosen[@]}"; do
    for group in $(groups_of "$suite"); do
        groups+=("$group")
    done
done
"$root/scripts/setup.sh" "${groups[@]}"
MESON=$(find_meson 1.0.0 || echo meson)
export MESON
cd "$root"
PYTHONPATH=$root/scripts PYTHONDONTWRITEBYTECODE=1 exec "$root/.venv/bin/python" -m testrunner "${chosen[@]}"
