#!/bin/sh
# The real coding agents of tests/real/agents.json, from npm, each in a directory of its own: .agents/NAME.
#   sh tests/install_agents.sh [NAME...]
# Does nothing where they are there already. One that cannot be had is said and stops none of the others: a test
# that misses it is skipped. No script of a package runs but the one that is named there (`then`). On Node 18 some
# of them do not start, which their `--version` shows at once; all do on 20.
where=.agents listed=tests/real/agents.json
for program in node npm; do
    command -v $program >/dev/null 2>&1 && continue
    echo "$program is missing (Debian and Ubuntu: apt-get install nodejs npm), so no agent of npm is tested" >&2
    exit 6
done
lines='
const wanted = process.argv.slice(2), all = JSON.parse(require("fs").readFileSync(process.argv[1]))
for (const [name, {package, version, then}] of Object.entries(all))
    if (!wanted.length || wanted.includes(name)) console.log(name, package, version, then || "-")
'
missing=""
while read -r name package version then; do
    place=$where/$name mark=$package@$version
    [ "$(cat "$place/.installed" 2>/dev/null)" = "$mark" ] && continue
    echo "installing $place: $package $version (some seconds, once)" >&2
    rm -rf "$place" && mkdir -p "$place" || exit 6
    # no lock file: it would hold the address of whoever answered
    if why=$(npm install --prefix "$place" --no-audit --no-fund --no-save --no-package-lock --no-update-notifier \
             --ignore-scripts --engine-strict=false --loglevel=error "$package@$version" 2>&1 </dev/null) &&
       { [ "$then" = - ] || why=$(cd "$place/node_modules/$package" && node "$then" 2>&1 </dev/null); } &&
       why=$("$place/node_modules/.bin/$name" --version 2>&1 </dev/null)
    then echo "$mark" > "$place/.installed"
    else
        echo "$package $version could not be installed: $(echo "$why" | tail -n 3)" >&2
        rm -rf "$place"
        missing="$missing $name"
    fi
done <<END
$(node -e "$lines" "$listed" "$@")
END
[ -z "$missing" ]
