# shellcheck shell=bash
# A private apt, to be sourced: packages are downloaded for an architecture, and nothing is installed.
#
#   private_apt DIRECTORY ARCHITECTURE     sets the array `apt_options`, for apt-get and apt-cache
#
# It has its own lists, cache and an empty list of installed packages in DIRECTORY, so the host's are left
# alone and no root is needed. Where root runs it, apt's user _apt could not write to DIRECTORY: it keeps
# to the user who started it.

private_apt() {
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    : >"$1/status"
    # shellcheck disable=SC2034 # for the caller
    apt_options=(-o APT::Architecture="$2" -o APT::Architectures="$2" -o Dir::State="$1"
        -o Dir::State::lists="$1/lists" -o Dir::State::status="$1/status" -o Dir::Cache="$1/cache"
        -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 -o Acquire::Languages=none
        -o APT::Install-Recommends=0 -o APT::Update::Post-Invoke=true
        -o APT::Update::Post-Invoke-Success=true)
}
