#!/bin/sh
# Install the programs that only `make test-real` uses, or those that are named (`install_tools.sh chromium`), where that needs no question (apt-get as root or with
# passwordless sudo). What cannot be had is said and stops nothing: a test that misses a program is skipped.
missing="" packages="" only="$*"
want() { # PROGRAM PACKAGE...
    program=$1
    shift
    case " ${only:-$program} " in *" $program "*) ;; *) return ;; esac
    command -v "$program" >/dev/null 2>&1 || { missing="$missing $program"; packages="$packages $*"; }
}
PATH="$PATH:/usr/sbin:/sbin"
want strace strace
want bwrap bubblewrap
want socat socat
want cc gcc libc6-dev
want mkfs.ext4 e2fsprogs
# one of any name will do (tests/browser.py); its font has the blocks of a sparkline
command -v google-chrome >/dev/null 2>&1 || want chromium chromium fonts-dejavu-core
want sshd openssh-server
want ssh-keygen openssh-client
want ip iproute2
want rsync rsync
want node nodejs
want npm npm
want slurmctld slurm-wlm
[ -z "$missing" ] && exit 0

line="apt-get install -y --no-install-recommends$packages"
if   ! command -v apt-get >/dev/null 2>&1; then as_root="" line="the package tool of this machine"
elif [ "$(id -u)" = 0 ]; then as_root="env"
elif sudo -n true 2>/dev/null; then as_root="sudo -n env"
else as_root="" line="sudo $line"
fi
if [ -n "$as_root" ]; then
    echo "installing, for the tests that need them:$packages" >&2
    apt="$as_root DEBIAN_FRONTEND=noninteractive"
    $apt apt-get update -q </dev/null >/dev/null 2>&1
    # one that is unknown here must not keep the others out
    for package in $packages; do
        why=$($apt apt-get install -y --no-install-recommends "$package" </dev/null 2>&1 >/dev/null) ||
            echo "$package could not be installed: $(echo "$why" | tail -n 1)" >&2
    done
fi
for program in $missing; do
    command -v "$program" >/dev/null 2>&1 || gone="$gone $program"
done
[ -z "$gone" ] || echo "missing, so that tests will be skipped:$gone; install with: $line" >&2
exit 0
