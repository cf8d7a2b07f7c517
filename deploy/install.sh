#!/bin/sh
# Install, upgrade, roll back or remove Gemini Bridge on a machine with systemd; docs/OPERATIONS.md explains how.
# Every release has its own folder and virtual environment, and the link `current` points to the release in use.
# An upgrade that fails changes nothing, and a rollback takes seconds.
set -eu
umask 022

usage() {
    cat <<'END'
usage: deploy/install.sh [--key-file FILE] [--wheels DIR] [--python PYTHON]
       deploy/install.sh --rollback
       deploy/install.sh --uninstall [--purge]

  --key-file FILE   read the Gemini API key from this file, or with - from standard input;
                    without this option the script keeps the present key, or asks for one
  --wheels DIR      install packages from this folder only, without a registry
  --python PYTHON   use this interpreter, 3.11 or newer (default: the first suitable python3)
  --rollback        return to the previous release; a second rollback undoes the first
  --uninstall       remove the service and its releases; keep settings, key and state
  --purge           with --uninstall: remove settings, key and state too

For a trial, DESTDIR=/some/folder installs everything below that folder and does not use systemd.
END
}

say() { printf '%s\n' "$*"; }
stop() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

action=install key_file='' wheels='' python='' purge=''
while [ $# -gt 0 ]; do
    case $1 in
        --key-file | --wheels | --python)
            [ $# -gt 1 ] || stop "$1 needs a value; --help shows the usage"
            case $1 in
                --key-file) key_file=$2 ;;
                --wheels) wheels=$2 ;;
                --python) python=$2 ;;
            esac
            shift
            ;;
        --rollback) action=rollback ;;
        --uninstall) action=uninstall ;;
        --purge) purge=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) stop "$1 is not an option; --help lists the options" ;;
    esac
    shift
done
[ -z "$purge" ] || [ "$action" = uninstall ] || stop "--purge needs --uninstall"

name=gemini-bridge
source=$(cd "$(dirname "$0")/.." && pwd)
root=${DESTDIR:-}
if [ -n "$root" ]; then
    mkdir -p "$root"
    root=$(cd "$root" && pwd)
fi
opt=$root/opt/$name
etc=$root/etc/$name
state=$root/var/lib/$name
unit=$root/etc/systemd/system/$name.service
command=$root/usr/local/bin/$name
manual=$root/usr/local/share/man/man1/$name.1
credential=$etc/credentials/gemini_api_key
state_url=$etc/credentials/state_url # the address of a PostgreSQL database; empty for SQLite files
contents='app.py bridge config deploy docs gunicorn.conf.py pyproject.toml requirements.in requirements.lock setup.cfg
          setup.py LICENSE README.md CHANGELOG.md SECURITY.md'
restart=$opt/.restart # exists while the service needs a restart

# --- requirements ------------------------------------------------------------------------------------

refuse_without_root() {
    [ -n "$root" ] || [ "$(id -u)" = 0 ] || stop "run this script as root: sudo $0"
}

refuse_without_systemd() {
    [ -z "$root" ] || return 0
    [ -d /run/systemd/system ] ||
        stop "this machine does not run systemd; for a trial, run DESTDIR=/some/folder $0"
    number=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
    [ "${number:-0}" -ge 247 ] || stop "systemd $number is too old: the service needs 247 or newer, for credentials"
}

why_not() { # prints why the interpreter $1 is not suitable; prints nothing if it is suitable
    if ! command -v "$1" >/dev/null; then
        echo "$1 does not exist"
    elif ! "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "$1 is $("$1" -V 2>&1), and the bridge needs 3.11 or newer"
    elif ! "$1" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$1 cannot create virtual environments; on Debian: apt install python3-venv"
    elif [ -z "$root" ]; then
        case $("$1" -c 'import os, sys; print(os.path.realpath(sys.base_prefix))') in
            /root/* | /home/*) echo "$1 is in a home folder, which the service cannot read" ;;
        esac
    fi
}

choose_python() {
    reasons=''
    for candidate in ${python:-python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11}; do
        reason=$(why_not "$candidate")
        if [ -z "$reason" ]; then
            python=$(command -v "$candidate")
            return
        fi
        reasons="${reasons:-$reason}"
    done
    stop "no suitable Python: $reasons. Choose another one with --python /path/to/python3.12"
}

# --- the release -------------------------------------------------------------------------------------

listed() { # the files of the release, without a developer's own files
    # shellcheck disable=SC2086 # split the names, which contain no blanks
    (cd "$source" && find $contents -type f ! -path '*/__pycache__/*' ! -path config/local.toml)
}

digest() { # a checksum of the files and of the Python version
    (cd "$source" && listed | sort | tr '\n' '\0' | xargs -0 cksum && "$python" -V) | cksum | cut -d' ' -f1
}

refuse_half_a_release() {
    for each in $contents; do
        [ -e "$source/$each" ] || stop "$source is not a complete release: $each is missing"
    done
}

choose_release() {
    version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$source/bridge/__init__.py")
    [ -n "$version" ] || stop "$source/bridge/__init__.py contains no version"
    mark=$(digest)
    # The same version with other contents gets another name, 1.2.3+2: an installed release never changes.
    number=1
    for folder in "$opt/releases/$version" "$opt/releases/$version+"*; do
        [ -e "$folder/.complete" ] || continue
        release=${folder##*/}
        [ "$(cat "$folder/.complete")" != "$mark" ] || return 0
        case $release in
            *+*) build=${release##*+} ;;
            *) build=1 ;;
        esac
        [ "$build" -lt "$number" ] || number=$((build + 1))
    done
    release=$version
    [ "$number" = 1 ] || release=$version+$number
}

pip_install() {
    "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

build_release() {
    folder=$opt/releases/$release
    if [ -e "$folder/.complete" ]; then
        say "release $release: already installed"
        return
    fi
    say "release $release: building in $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 1' HUP INT TERM
    listed | (cd "$source" && tar -cf - -T -) | tar -xf - -o -C "$folder"
    chmod -R a+rX,go-w "$folder"
    "$python" -m venv "$folder/venv"
    if [ -n "$wheels" ]; then
        say "packages: from $wheels, by requirements.lock"
        pip_install --require-hashes --no-index --find-links "$wheels" -r "$folder/requirements.lock"
    else
        say "packages: by requirements.lock"
        pip_install --require-hashes -r "$folder/requirements.lock"
    fi
    pip_install --no-index --no-deps --no-build-isolation -e "$folder"
    "$folder/venv/bin/python" -m compileall -q "$folder/bridge" "$folder/app.py"
    printf '%s\n' "$mark" >"$folder/.complete"
    trap - EXIT HUP INT TERM
}

in_force() { # prints the name of the release that link $1 points to
    target=$(readlink "$opt/$1" 2>/dev/null) || return 0
    [ ! -e "$opt/$target/.complete" ] || echo "${target##*/}"
}

point() { # points link $1 to release $2, atomically
    ln -s "releases/$2" "$opt/.$1"
    mv -T "$opt/.$1" "$opt/$1"
}

# --- settings ----------------------------------------------------------------------------------------

put() { # copies file $1 to $2, with mode $3
    cmp -s "$1" "$2" && return
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.tmp"
    chmod "$3" "$2.tmp"
    mv "$2.tmp" "$2"
    case $2 in
        "${stage:-none}"/*) ;;
        *) touch "$restart" ;;
    esac
}

merge_settings() { # into folder $1, from release $2; $3 is the release used before, or empty
    for new in "$opt/releases/$2"/config/*.toml; do
        mine=$1/${new##*/}
        former=$opt/releases/${3:-none}/config/${new##*/}
        if [ ! -e "$mine" ]; then
            put "$new" "$mine" 644
            say "settings: $mine"
        elif cmp -s "$new" "$mine"; then
            rm -f "$mine.new"
        elif cmp -s "$former" "$mine"; then
            put "$new" "$mine" 644
            say "settings: $mine updated to release $2"
        elif [ "${new##*/}" = default.toml ]; then
            put "$mine" "$mine.old" 644
            put "$new" "$mine" 644
            say "settings: $mine belongs to the release and is replaced; your version is $mine.old"
        else
            put "$new" "$mine.new" 644
            say "settings: $mine has your changes and stays; the version of release $2 is $mine.new"
        fi
    done
}

try_settings() { # release $1 must accept the administrator's settings before anything changes
    stage=$(mktemp -d)
    trap 'rm -rf "$stage"' EXIT
    for mine in "$etc"/*.toml; do
        [ ! -e "$mine" ] || cp "$mine" "$stage"
    done
    merge_settings "$stage" "$1" "$2" >/dev/null
    chmod -R a+rX "$stage"
    output=$(BRIDGE_CONFIG_DIR=$stage "$opt/releases/$1/deploy/$name" check 2>&1) || {
        printf '%s\n' "$output" | sed "s|$stage|$etc|g" >&2
        stop "release $1 does not accept your settings; nothing was changed"
    }
    say "settings: release $1 accepts them"
    rm -rf "$stage"
    trap - EXIT
}

read_key() { # early, so that a question or an error does not come after a long wait
    key='' origin=kept
    if [ -n "$key_file" ]; then
        [ "$key_file" = - ] || [ -r "$key_file" ] || stop "the key file $key_file cannot be read"
        key=$(if [ "$key_file" = - ]; then cat; else cat "$key_file"; fi)
        [ -n "$key" ] || stop "the key file $key_file is empty"
        origin=given
    elif [ -t 0 ] && [ ! -s "$credential" ]; then
        ask_for_key
        origin=${key:+given}
    fi
}

ask_for_key() {
    printf 'Gemini API key (empty: serve the offline demo model): '
    trap 'stty echo' EXIT
    trap 'exit 1' HUP INT TERM
    stty -echo
    read -r key || key=''
    stty echo
    trap - EXIT HUP INT TERM
    echo
}

settle_key() {
    mkdir -p "$etc/credentials"
    chmod 700 "$etc/credentials"
    if [ "$origin" = given ]; then
        write_key
        say "key: in $credential"
    elif [ -s "$credential" ]; then
        say "key: kept, in $credential"
    else
        write_key # systemd requires the file
        say "key: none, so the bridge serves the offline demo model; put a key into $credential and restart"
    fi
}

settle_state() { # the place of the state, and its tables for release $1
    [ -e "$state_url" ] || (umask 077 && : >"$state_url") # systemd requires the file
    folder=$opt/releases/$1
    if [ -s "$state_url" ] && ! "$folder/venv/bin/python" -c 'import psycopg_pool' 2>/dev/null; then
        say "packages: for PostgreSQL"
        pip_install ${wheels:+--no-index --find-links "$wheels"} --no-build-isolation -e "$folder[postgres]"
    fi
    output=$(BRIDGE_CONFIG_DIR=$folder/config "$folder/deploy/$name" state upgrade 2>&1) ||
        stop "release $1 cannot use the state: $output"
    say "state: $output"
}

write_key() {
    (umask 077 && printf '%s' "$key" >"$credential.given")
    put "$credential.given" "$credential" 600
    rm -f "$credential.given"
}

settle_user() {
    mkdir -p "$state"
    chmod 700 "$state"
    [ -z "$root" ] || return 0
    if ! getent passwd "$name" >/dev/null; then
        useradd --system --user-group --no-create-home --home-dir "$state" --shell /usr/sbin/nologin "$name"
        say "user: $name"
    fi
    chown "$name:$name" "$state"
}

# --- the service -------------------------------------------------------------------------------------

activate() { # release $1; $2 is the release used before, or empty
    merge_settings "$etc" "$1" "$2"
    put "$opt/releases/$1/deploy/$name.service" "$unit" 644
    put "$opt/releases/$1/deploy/$name" "$command" 755
    [ ! -e "$opt/releases/$1/deploy/$name.1" ] || put "$opt/releases/$1/deploy/$name.1" "$manual" 644
    if [ "$1" != "$2" ]; then
        point current "$1"
        [ -z "$2" ] || point previous "$2"
        touch "$restart"
    fi
    say "current: release $1"
}

prune() { # removes releases that no link points to
    for folder in "$opt"/releases/*; do
        case ${folder##*/} in
            "$(in_force current)" | "$(in_force previous)") ;;
            *)
                rm -rf "$folder"
                say "release ${folder##*/}: removed; only the current and the previous release are kept"
                ;;
        esac
    done
}

start_service() {
    if [ -n "$root" ]; then
        rm -f "$restart"
        say "systemd: not used, because of DESTDIR"
        return
    fi
    systemctl daemon-reload
    systemctl enable --quiet "$name"
    verb=start
    if [ -e "$restart" ]; then
        verb=restart
        say "systemd: starting $name; running answers may finish first"
    fi
    systemctl "$verb" "$name" || stop "the service does not start; journalctl -u $name -n 50 shows why"
    rm -f "$restart"
    "$command" doctor || say "The service runs; see the problems above."
}

# --- actions -----------------------------------------------------------------------------------------

install_release() {
    refuse_without_root
    refuse_without_systemd
    refuse_half_a_release
    choose_python
    read_key
    choose_release
    before=$(in_force current)
    build_release
    settle_user
    try_settings "$release" "$before"
    settle_key
    settle_state "$release"
    activate "$release" "$before"
    prune
    start_service
}

roll_back() {
    refuse_without_root
    before=$(in_force current)
    release=$(in_force previous)
    [ -n "$release" ] || stop "there is no previous release"
    try_settings "$release" "$before"
    activate "$release" "$before"
    start_service
}

uninstall() {
    refuse_without_root
    if [ -z "$root" ] && [ -e "$unit" ]; then
        say "systemd: stopping $name; running answers may finish first"
        systemctl disable --now --quiet "$name" || true
    fi
    rm -rf "$opt" "$unit" "$command" "$manual"
    [ -n "$root" ] || systemctl daemon-reload
    say "removed: the service, its releases and its command"
    if [ -z "$purge" ]; then
        say "kept: $etc and $state; --uninstall --purge removes them too"
        return
    fi
    rm -rf "$etc" "$state"
    if [ -z "$root" ] && getent passwd "$name" >/dev/null; then userdel "$name"; fi
    say "removed: settings, key and state"
}

case $action in
    install) install_release ;;
    rollback) roll_back ;;
    uninstall) uninstall ;;
esac
