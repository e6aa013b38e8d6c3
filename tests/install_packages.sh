#!/bin/sh
# An environment of its own for a framework that tests run for real: .venv-NAME with tests/real/NAME.txt in it.
#   sh tests/install_packages.sh PYTHON NAME
# Does nothing where it is there already. Fails, with the reason, where it cannot be had.
python=$1 name=$2
place=.venv-$name wanted=tests/real/$name.txt
mark="$PWD $(cksum < "$wanted")"
[ "$(cat "$place/.installed" 2>/dev/null)" = "$mark" ] && "$place/bin/python" -c "" 2>/dev/null && exit 0

pip() { "$place/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }
echo "installing $place: $(grep -v '^#' "$wanted" | tr '\n' ' ')(a few minutes, once)" >&2
"$python" -m venv --clear "$place" && [ -x "$place/bin/python" ] || { echo "$place could not be made" >&2; exit 6; }
torch=$(grep '^torch==' "$wanted")
if [ -n "$torch" ] && [ -z "$ANY_TORCH" ]; then
    if pip install -qq --dry-run --report - "$torch" 2>/dev/null | grep -q '"name": *"nvidia-'; then
        echo "$torch would bring gigabytes of CUDA: let pip find a build for CPU (PIP_FIND_LINKS, PIP_INDEX_URL)," \
             "or say ANY_TORCH=1" >&2
        exit 6
    fi
fi
pip install -qq --no-compile -r "$wanted" || { echo "$place could not be filled: pip says why above" >&2; exit 6; }
# A Ray that compiles what it imports starts in a minute, and its raylet has given up on its own agent by then.
[ "$name" = ray ] && "$place/bin/python" -m compileall -qq "$place/lib"
echo "$mark" > "$place/.installed"
