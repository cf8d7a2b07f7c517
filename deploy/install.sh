#!/bin/sh
# Install, upgrade, roll back or remove Gemini Bridge on a machine with systemd; docs/OPERATIONS.md tells how.
# Every release has a folder and a virtual environment of its own, and `current` points to the one in force:
# an upgrade that fails changes nothing, and a rollback is a matter of seconds.
set -eu
umask 022

usage() {
    cat <<'END'
usage: deploy/install.sh [--key-file FILE] [--wheels DIR] [--python PYTHON]
       deploy/install.sh --rollback
       deploy/install.sh --uninstall [--purge]

  --key-file FILE   take the Gemini API key from this file, or with - from standard input;
                    otherwise the key that is there is kept, or a terminal is asked for one
  --wheels DIR      install packages from this folder only, without any registry
  --python PYTHON   the interpreter to use, 3.11 or newer (else the first suitable python3)
  --rollback        go back to the release before; once more, and you are here again
  --uninstall       remove the service and its releases; settings, key and state stay
  --purge           with --uninstall: remove those too

With DESTDIR=/some/folder everything is done below that folder and systemd is left alone: for trying it out.
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
            [ $# -gt 1 ] || stop "$1 needs a value; --help shows how"
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
        *) stop "$1 is not an option; --help shows them" ;;
    esac
    shift
done
[ -z "$purge" ] || [ "$action" = uninstall ] || stop "--purge goes with --uninstall"

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
credential=$etc/credentials/gemini_api_key
contents='app.py bridge config deploy docs gunicorn.conf.py pyproject.toml requirements.in requirements.lock setup.cfg
          setup.py LICENSE README.md CHANGELOG.md SECURITY.md'
restart=$opt/.restart # there while something is different that the service was not yet restarted for

# --- may it be done here? ----------------------------------------------------------------------------

refuse_without_root() {
    [ -n "$root" ] || [ "$(id -u)" = 0 ] || stop "it must be run as root: sudo $0"
}

refuse_without_systemd() {
    [ -z "$root" ] || return 0
    [ -d /run/systemd/system ] ||
        stop "this machine does not run systemd; DESTDIR=/some/folder $0 tries it out in that folder"
    number=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
    [ "${number:-0}" -ge 247 ] || stop "systemd $number is too old: 247 is the first that hands over credentials"
}

why_not() { # what speaks against the interpreter $1; nothing, if it will do
    if ! command -v "$1" >/dev/null; then
        echo "there is no $1"
    elif ! "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "$1 is $("$1" -V 2>&1), and 3.11 is needed"
    elif ! "$1" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$1 cannot make virtual environments; on Debian: apt install python3-venv"
    elif [ -z "$root" ]; then
        case $("$1" -c 'import os, sys; print(os.path.realpath(sys.base_prefix))') in
            /root/* | /home/*) echo "$1 lies in a home folder, where the service may not look" ;;
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
    stop "no suitable Python: $reasons. Name another one with --python /path/to/python3.12"
}

# --- the release -------------------------------------------------------------------------------------

listed() { # the files of the release, without what a developer left among them
    # shellcheck disable=SC2086 # names without blanks, to be split
    (cd "$source" && find $contents -type f ! -path '*/__pycache__/*' ! -path config/local.toml)
}

digest() { # of the files, and of the Python they will run on
    (cd "$source" && listed | sort | tr '\n' '\0' | xargs -0 cksum && "$python" -V) | cksum | cut -d' ' -f1
}

refuse_half_a_release() {
    for each in $contents; do
        [ -e "$source/$each" ] || stop "$source is not a whole release: $each is missing"
    done
}

choose_release() {
    version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$source/bridge/__init__.py")
    [ -n "$version" ] || stop "$source/bridge/__init__.py does not say which version this is"
    mark=$(digest)
    # The same version with other contents gets a name of its own, 1.2.3+2: what runs is never changed underfoot.
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
        say "release $release: is there"
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

in_force() { # the name of the release that link $1 points to
    target=$(readlink "$opt/$1" 2>/dev/null) || return 0
    [ ! -e "$opt/$target/.complete" ] || echo "${target##*/}"
}

point() { # link $1 to release $2, in one step
    ln -s "releases/$2" "$opt/.$1"
    mv -T "$opt/.$1" "$opt/$1"
}

# --- settings ----------------------------------------------------------------------------------------

put() { # file $1 as $2, with mode $3
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

merge_settings() { # into folder $1, from release $2, where release $3 was in force before, or none
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
            say "settings: $mine is now that of $2"
        elif [ "${new##*/}" = default.toml ]; then
            put "$mine" "$mine.old" 644
            put "$new" "$mine" 644
            say "settings: $mine belongs to the release; yours is kept as $mine.old"
        else
            put "$new" "$mine.new" 644
            say "settings: $mine has changes of yours and stays; that of $2 is beside it, ending in .new"
        fi
    done
}

try_settings() { # a release must accept the administrator's settings before anything is changed
    stage=$(mktemp -d)
    trap 'rm -rf "$stage"' EXIT
    for mine in "$etc"/*.toml; do
        [ ! -e "$mine" ] || cp "$mine" "$stage"
    done
    merge_settings "$stage" "$1" "$2" >/dev/null
    chmod -R a+rX "$stage"
    told=$(BRIDGE_CONFIG_DIR=$stage "$opt/releases/$1/deploy/$name" check 2>&1) || {
        printf '%s\n' "$told" | sed "s|$stage|$etc|g" >&2
        stop "release $1 does not take your settings; nothing was changed"
    }
    say "settings: release $1 takes them"
    rm -rf "$stage"
    trap - EXIT
}

read_key() { # early, so that nobody is asked, or told off, after a long wait
    key='' origin=kept
    if [ -n "$key_file" ]; then
        [ "$key_file" = - ] || [ -r "$key_file" ] || stop "the key file $key_file cannot be read"
        key=$(if [ "$key_file" = - ]; then cat; else cat "$key_file"; fi)
        [ -n "$key" ] || stop "there is no key in $key_file"
        origin=given
    elif [ -t 0 ] && [ ! -s "$credential" ]; then
        ask_for_key
        origin=${key:+given}
    fi
}

ask_for_key() {
    printf 'Gemini API key (none: serve the offline demo model): '
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
        say "key: the one in $credential stays"
    else
        write_key # systemd insists on the file
        say "key: none, so the offline demo model is served; put one into $credential and restart"
    fi
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

activate() { # release $1, where release $2 was in force before, or none
    merge_settings "$etc" "$1" "$2"
    put "$opt/releases/$1/deploy/$name.service" "$unit" 644
    put "$opt/releases/$1/deploy/$name" "$command" 755
    if [ "$1" != "$2" ]; then
        point current "$1"
        [ -z "$2" ] || point previous "$2"
        touch "$restart"
    fi
    say "in force: release $1"
}

prune() { # releases that no link points to
    for folder in "$opt"/releases/*; do
        case ${folder##*/} in
            "$(in_force current)" | "$(in_force previous)") ;;
            *)
                rm -rf "$folder"
                say "release ${folder##*/}: removed, since it is two behind"
                ;;
        esac
    done
}

start_service() {
    if [ -n "$root" ]; then
        rm -f "$restart"
        say "systemd: left alone, because of DESTDIR"
        return
    fi
    systemctl daemon-reload
    systemctl enable --quiet "$name"
    verb=start
    if [ -e "$restart" ]; then
        verb=restart
        say "systemd: starting $name; answers under way may end first"
    fi
    systemctl "$verb" "$name" || stop "it does not start; journalctl -u $name -n 50 says why"
    rm -f "$restart"
    "$command" doctor || say "The service runs; what is red above needs a look."
}

# --- what can be asked for ---------------------------------------------------------------------------

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
    activate "$release" "$before"
    prune
    start_service
}

roll_back() {
    refuse_without_root
    before=$(in_force current)
    release=$(in_force previous)
    [ -n "$release" ] || stop "there is no release before this one to go back to"
    try_settings "$release" "$before"
    activate "$release" "$before"
    start_service
}

uninstall() {
    refuse_without_root
    if [ -z "$root" ] && [ -e "$unit" ]; then
        say "systemd: stopping $name; answers under way may end first"
        systemctl disable --now --quiet "$name" || true
    fi
    rm -rf "$opt" "$unit" "$command"
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
