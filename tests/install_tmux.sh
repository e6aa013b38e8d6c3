#!/bin/sh
# Install tmux where that needs no question (root or passwordless sudo); else say the one line to type.
command -v tmux >/dev/null 2>&1 && exit 0

sudo="sudo "
prepare=true
if   command -v apt-get >/dev/null 2>&1; then line="apt-get install -y tmux"; prepare="apt-get update -q"
elif command -v dnf     >/dev/null 2>&1; then line="dnf install -y tmux"
elif command -v apk     >/dev/null 2>&1; then line="apk add tmux"
elif command -v pacman  >/dev/null 2>&1; then line="pacman -Sy --noconfirm tmux"
elif command -v brew    >/dev/null 2>&1; then line="brew install tmux"; sudo=""  # brew refuses root
else
    echo "tmux is missing; install it with the package tool of this machine, then run the same command again." >&2
    exit 6
fi
[ "$(id -u)" = 0 ] && sudo=""

# -n never asks; an update that fails (one broken source is enough) need not stop the install
if [ -z "$sudo" ]; then as_root=""
elif sudo -n true 2>/dev/null; then as_root="sudo -n"
else as_root="false"
fi
if [ "$as_root" != false ]; then
    echo "tmux is missing; installing it: $sudo$line" >&2
    export DEBIAN_FRONTEND=noninteractive
    $as_root $prepare </dev/null >/dev/null 2>&1
    why=$($as_root $line </dev/null 2>&1 >/dev/null) && command -v tmux >/dev/null 2>&1 && exit 0
    [ -n "$why" ] && echo "$why" | tail -n 3 >&2
fi
echo "tmux is missing; type this, then run the same command again:  $sudo$line" >&2
exit 6
