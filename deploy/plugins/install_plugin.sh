#!/bin/sh
# Installs a PJRT plugin, pinned by hash, where rankd looks for it.
#
#   install_plugin.sh cpu|cuda|tpu [DEST]      DEST defaults to ./.build/plugins/<platform>
#
# The package comes through pip as it is configured on this machine (mirrors and proxies included). Only the plugin's
# shared library is kept. A second run with the same pin does nothing. The library is moved into place in one step and
# the file .installed is written last, so an interrupted run leaves either the old state or nothing that looks complete.
set -eu

fail() {
	echo "install_plugin.sh: $*" >&2
	exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
platform=${1:-}
case $platform in
cpu) member=pjrt_c_api_cpu_plugin.so target='' ;;
cuda) member=xla_cuda_plugin.so target='--platform manylinux_2_27_x86_64' ;;
tpu) member=libtpu.so target='--platform manylinux_2_31_x86_64 --implementation cp --python-version 3.11 --abi cp311' ;;
*)
	echo "usage: install_plugin.sh cpu|cuda|tpu [DEST]" >&2
	exit 2
	;;
esac
dest=${2:-./.build/plugins/$platform}
requirements=$here/requirements-$platform.txt

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
	fail "the pinned $platform plugin is built for Linux x86_64, this machine is $(uname -s) $(uname -m): give rankd a plugin of your own with --plugin"
command -v python3 >/dev/null 2>&1 || fail "python3 is missing: apt-get install python3 python3-pip"

pin=$(sed -n 's/.*--hash=sha256:\([0-9a-f]*\).*/\1/p' "$requirements")
[ -n "$pin" ] || fail "no sha256 in $requirements"

# .installed holds: wheel sha256, library name, library size.
if [ -f "$dest/.installed" ]; then
	read -r have name size <"$dest/.installed" || true
	if [ "${have:-}" = "$pin" ] && [ "${name:-}" = "$member" ] && [ -f "$dest/$member" ] &&
		[ "$(wc -c <"$dest/$member")" -eq "${size:-0}" ]; then
		echo "$platform plugin already installed: $dest/$member"
		exit 0
	fi
fi

python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3-pip"
mkdir -p "$dest" || fail "cannot create $dest"
tmp=$(mktemp -d "$dest/.incoming.XXXXXX") || fail "cannot write to $dest"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "downloading: $(grep -v '^#' "$requirements" | cut -d' ' -f1)"
# shellcheck disable=SC2086 # target is a list of options
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: $target \
	--require-hashes -r "$requirements" -d "$tmp" >&2 ||
	fail "pip could not download the package named in $requirements: pip's own message is above. Check the network and pip's index, or copy $member to $dest by hand"

python3 - "$tmp" "$member" <<'PY' || fail "the package does not hold a usable $member"
import os, pathlib, shutil, sys, zipfile

folder, member = pathlib.Path(sys.argv[1]), sys.argv[2]
wheels = list(folder.glob("*.whl"))
if len(wheels) != 1:
    sys.exit(f"got {len(wheels)} wheels, want 1: {[w.name for w in wheels]}")
with zipfile.ZipFile(wheels[0]) as z:
    found = [i for i in z.infolist() if i.filename.rsplit("/", 1)[-1] == member]
    if len(found) != 1:
        libs = [i.filename for i in z.infolist() if ".so" in i.filename]
        sys.exit(f"{wheels[0].name} holds {len(found)} files called {member}, want 1; its libraries: {libs}")
    with z.open(found[0]) as src, open(folder / member, "wb") as dst:
        shutil.copyfileobj(src, dst, 1 << 20)  # ends with an error if the CRC of the whole member is wrong
        dst.flush()
        os.fsync(dst.fileno())
    if (folder / member).stat().st_size != found[0].file_size:
        sys.exit(f"{member}: size differs from the archive's")
PY
chmod 755 "$tmp/$member"
size=$(wc -c <"$tmp/$member")
rm -f "$dest/.installed"
mv -f "$tmp/$member" "$dest/$member"
echo "$pin $member $size" >"$tmp/installed"
mv -f "$tmp/installed" "$dest/.installed"
echo "$platform plugin installed: $dest/$member"
