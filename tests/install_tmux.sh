#!/bin/sh
# Install tmux where that needs no question (root or passwordless sudo); else say the one line to type.
command -v tmux >/dev/null 2>&1 && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if   command -v apt-get >/dev/null 2>&1; then line="apt-get install -y tmux"; prepare="apt-get update -q"
elif command -v dnf     >/dev/null 2>&1; then line="dnf install -y tmux";     prepare="true"
elif command -v apk     >/dev/null 2>&1; then line="apk add tmux";            prepare="true"
elif command -v pacman  >/dev/null 2>&1; then line="pacman -S --noconfirm tmux"; prepare="true"
elif command -v brew    >/dev/null 2>&1; then line="brew install tmux"; prepare="true"; as_root=""
else echo "tmux is missing; install it with your package manager, then run this again." >&2; exit 6
fi
if [ -z "$as_root" ] || sudo -n true 2>/dev/null; then
    { $as_root $prepare && $as_root $line; } >/dev/null 2>&1 && command -v tmux >/dev/null 2>&1 && exit 0
fi
echo "tmux is missing; type this, then run the same command again:  sudo $line" >&2
exit 6
