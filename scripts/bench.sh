#!/usr/bin/env bash
# Measure attention on this machine and draw the charts: install what is missing, build, run, report.
#
#   scripts/bench.sh                          the standard sweep
#   scripts/bench.sh --n 128:4096 --heads 8   any options of `attnscope bench`, passed on as they are
#   scripts/bench.sh --help                   this, and the help of `attnscope bench`
#
# Leaves results/HOST-DATE/ (a second run of a day gets -2, and so on) with results.json, which has its
# analysis inside, report.html, every chart as SVG and PNG and the rows as table.txt, and prints a short
# table and where to look. With --out FILE the measurements are written there too; with --resume the run
# goes on with that file. Options that measure nothing, as --dry-run, leave nothing.
#
# The exit code is that of `attnscope bench` (4: a row that should have been measured was not; 129, 130, 131,
# 143: SIGHUP, SIGINT, SIGQUIT or SIGTERM ended it early; what was measured, with SIGQUIT what was last
# written, is kept and drawn, also when the terminal is gone), then that of `attnscope analyze`, then that of
# `attnscope report`. A run that measured nothing leaves no directory; measurements whose report failed are
# kept, and the message says how to draw them. Further signals are ignored until what was measured is in its
# place; the same once more, half a second after the first, ends `attnscope bench` at once, with what it last
# wrote.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
build=$root/build-release
attnscope=$build/cli/attnscope

configure_and_compile() {
    if ! [ -d "$build" ]; then
        "$1" setup "$build" "$root" "${@:2}" || return 1
    fi
    "$1" compile -C "$build"
}

build_program() {
    local log=$root/build-logs/release.log stamp=$build/bench-stamp options meson key
    meson=$(find_meson 1.0.0)
    options=(--buildtype=release -Dbench=enabled -Dtests=disabled)
    # What Meson does not follow by itself: options given by hand, another compiler, a moved checkout, an
    # optional library that came or went.
    key=$({
        printf '%s\n' "$root" "${options[@]}" "${CC:-} ${CXX:-} ${CFLAGS:-} ${CXXFLAGS:-}"
        "$meson" --version
        "${CC:-cc}" --version
        pkg-config --modversion hwloc 2>/dev/null || true
    } | cksum)
    if [ -d "$build" ] && [ "$(cat "$stamp" 2>/dev/null)" != "$key" ]; then
        echo "${build#"$root"/} has other options, another compiler, or was not finished: making it anew" >&2
        rm -rf "$build"
    fi
    [ -d "$build" ] || echo "building in ${build#"$root"/}" >&2
    if ! configure_and_compile "$meson" "${options[@]}" >"$log" 2>&1 </dev/null; then
        tail -n 25 "$log" >&2
        printf 'bench.sh: the build failed (above: the end of %s)\n' "${log#"$root"/}" >&2
        exit 2
    fi
    echo "$key" >"$stamp"
}

# results/HOST-DATE, or the first of -2, -3, ... that is free.
free_directory() {
    local host base name number=1
    host=$(uname -n | cut -d . -f 1 | tr -c 'A-Za-z0-9_\n-' _)
    base=$root/results/${host:-host}-$(date +%F)
    name=$base
    while [ -e "$name" ]; do
        number=$((number + 1))
        name=$base-$number
    done
    echo "$name"
}

case " $* " in
    *" --help "* | *" -h "*)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
        ;;
esac

# The caller's file, if there is one.
own_out="" resume="" arguments=()
while [ $# -gt 0 ]; do
    case $1 in
        --out | --out=*)
            [ -z "$own_out" ] || {
                echo "bench.sh: more than one value given for --out" >&2
                exit 2
            }
            ;;
    esac
    case $1 in
        --out)
            [ $# -ge 2 ] || {
                echo "bench.sh: --out needs a file" >&2
                exit 2
            }
            own_out=$2
            shift
            ;;
        --out=*) own_out=${1#--out=} ;;
        --resume) resume=$1 ;;
        *) arguments+=("$1") ;;
    esac
    shift
done
if [ -n "$own_out" ] && ! [ -d "$(dirname "$own_out")" ]; then
    printf 'bench.sh: --out %s: there is no directory %s\n' "$own_out" "$(dirname "$own_out")" >&2
    exit 2
fi

if [ -n "$resume" ] && [ -z "$own_out" ]; then
    echo "bench.sh: --resume needs --out FILE, the file to go on with" >&2
    exit 2
fi

"$root/scripts/setup.sh" build python
build_program

mkdir -p "$root/results"
work=$(mktemp -d "$root/results/.run-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# `measure ARGUMENT...`: the program, in the script's process group, so that Ctrl-C, Ctrl-Z and the end of
# the terminal reach both. What the script gets it passes on, for who sends to it alone: the program takes
# the same signal within half a second for one. Ignored afterwards, until what was measured is in its place.
measure() {
    local number=0 program=""
    # shellcheck disable=SC2317,SC2329 # called by the traps
    forward() {
        number=$1
        [ -z "$program" ] || kill -"$number" "$program" 2>/dev/null || true
    }
    trap 'forward 1; hung_up=yes' HUP
    trap 'forward 2' INT
    trap 'forward 3' QUIT
    trap 'forward 15' TERM
    # Of what runs in the background, bash has Ctrl-C and QUIT ignored, unless it is told otherwise.
    (
        trap - INT QUIT
        exec "$attnscope" bench "$@" >"$work/table.txt"
    ) &
    program=$!
    [ "$number" = 0 ] || kill -"$number" "$program" 2>/dev/null || true
    # A signal ends `wait`, not the program.
    wait "$program" || status=$?
    while kill -0 "$program" 2>/dev/null; do
        status=0
        wait "$program" || status=$?
    done
    trap '' HUP INT QUIT TERM
}

# After a hang-up: what is left to say goes nowhere, where it stood on the terminal that is gone.
leave_terminal() {
    case $terminals in *1*) [ -t 1 ] || exec >/dev/null ;; esac
    case $terminals in *2*) [ -t 2 ] || exec 2>/dev/null ;; esac
}

# The whole table, a line for each row, goes into a file beside the results; on the terminal stands the
# report's short one. What measures nothing, as --help or --dry-run, is printed as it is.
[ -t 2 ] || echo "running attnscope bench (progress is shown on terminals only)" >&2
status=0 hung_up="" terminals=""
[ ! -t 1 ] || terminals+=1
[ ! -t 2 ] || terminals+=2
target=$work/results.json
[ -z "$resume" ] || target=$own_out
measure --out "$target" ${resume:+"$resume"} ${arguments[@]+"${arguments[@]}"}
leave_terminal
interrupted=""
case $status in 129 | 130 | 131 | 143) interrupted=yes ;; esac
# What is resumed is written where it was; a file that was refused is none to draw.
if [ -n "$resume" ] && [ "$status" != 2 ] && [ -s "$own_out" ]; then
    cp "$own_out" "$work/results.json" || status=2
fi
if ! [ -s "$work/results.json" ]; then
    cat "$work/table.txt"
    rm -rf "$work"
    rmdir "$root/results" 2>/dev/null || true # only when it is empty
    [ -z "$interrupted" ] || echo "bench.sh: ended before anything was measured" >&2
    exit "$status"
fi
if [ -n "$own_out" ] && [ -z "$resume" ]; then
    cp "$work/results.json" "$own_out" || status=2
fi
rm -f "$work"/.attnscope-* # half files of a program that could not remove them
place=$(free_directory)
mv "$work" "$place"
trap - INT QUIT TERM
[ -n "$hung_up" ] || trap - HUP # a terminal that goes away sends it several times

shown=${place#"$PWD"/}
[ -z "$interrupted" ] || echo "bench.sh: ended early; what was measured is in $shown/results.json" >&2
echo
analysis_status=0
"$attnscope" analyze "$shown/results.json" >/dev/null || analysis_status=$?
if [ "$analysis_status" != 0 ]; then
    echo "bench.sh: $shown/results.json has no analysis" >&2
    [ "$status" != 0 ] || status=$analysis_status
elif [ -n "$own_out" ]; then
    cp "$place/results.json" "$own_out" || status=2
fi
report_status=0
"$attnscope" report "$shown/results.json" --out "$shown" || report_status=$?
if [ "$report_status" != 0 ]; then
    {
        echo "bench.sh: the measurements are in $shown/results.json, but no report was drawn. To draw it:"
        echo "  ${attnscope#"$PWD"/} report $shown/results.json --out $shown"
    } >&2
    [ "$status" != 0 ] || status=$report_status
fi
exit "$status"
