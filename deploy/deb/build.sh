#!/bin/sh
# Build a Debian package: deploy/deb/build.sh WHEELS OUTPUT. WHEELS is a folder with the packages of requirements.lock,
# from `python3 -m pip download --require-hashes -r requirements.lock -d WHEELS`. The package fits the version of Python
# and the kind of processor that the wheels were downloaded for. OUTPUT is the folder for the package.
set -eu
umask 022

source=$(cd "$(dirname "$0")/../.." && pwd)
wheels=$(cd "$1" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)
[ -n "$(ls "$wheels")" ] || { echo "build.sh: $wheels has no packages" >&2; exit 1; }

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$source/bridge/__init__.py")
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$(python3 -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$stage"

release=$stage/opt/gemini-bridge/current
mkdir -p "$release/wheels" "$stage/etc/gemini-bridge" "$stage/usr/bin" "$stage/lib/systemd/system" "$stage/DEBIAN"
contents=$(sed -n "/^contents='/,/'\$/p" "$source/deploy/install.sh" | sed "s/^contents='//; s/'\$//")
for each in $contents; do
    (cd "$source" && find "$each" -type f ! -path '*/__pycache__/*' ! -path config/local.toml -print) |
        (cd "$source" && tar -cf - -T -) | tar -xf - -o -C "$release"
done
cp "$wheels"/* "$release/wheels"
rm "$release/deploy/install.sh" # dpkg does its work

# The settings belong to the administrator: dpkg asks before it replaces a changed file.
mv "$release"/config/*.toml "$stage/etc/gemini-bridge"
cp "$stage"/etc/gemini-bridge/*.toml "$release/config"
cp "$source/deploy/gemini-bridge" "$stage/usr/bin/gemini-bridge"
cp "$source/deploy/gemini-bridge.service" "$stage/lib/systemd/system"
chmod -R a+rX,go-w "$stage"
chmod 755 "$stage/usr/bin/gemini-bridge"

for script in preinst postinst prerm postrm; do
    cp "$source/deploy/deb/$script" "$stage/DEBIAN/$script"
    chmod 755 "$stage/DEBIAN/$script"
done
(cd "$stage" && find etc -type f | sort | sed 's|^|/|') >"$stage/DEBIAN/conffiles"
cat >"$stage/DEBIAN/control" <<END
Package: gemini-bridge
Version: $version
Architecture: $(dpkg --print-architecture)
Depends: python3 (>= $python), python3 (<< $next), python3-venv, util-linux
Maintainer: Gemini Bridge <root@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk "$stage" | cut -f1)
Description: OpenAI's, Anthropic's and Google's client protocols on Google Gemini
 A gateway for developer tools, with keys, limits, usage and logs. The package
 contains all Python packages that it needs, and installs without a network.
END

package=$output/gemini-bridge_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group --build "$stage" "$package" >/dev/null
echo "$package"
