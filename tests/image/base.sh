#!/usr/bin/env bash
# Makes the base image of the Dockerfile where no registry can be reached: out of the packages of the Debian release that
# its tag names and a Python of this machine. Says nothing when all is well.
# Usage, as root: base.sh SCRATCH IMAGE RELEASE PYTHON_VERSION
set -euo pipefail
scratch=$1 image=$2 release=$3 version=$4
root=$scratch/root

python=
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".* /usr/local; do
    [ -e "$candidate/lib/libpython$version.so.1.0" ] && python=$candidate
done
[ -n "$python" ] || { echo "no Python $version with a shared library, to make $image from" >&2; exit 1; }

rm -rf "$root"
libraries=libssl3t64,libffi8,libsqlite3-0,libreadline8t64,libbz2-1.0,liblzma5,zlib1g,libncursesw6,libuuid1,libexpat1
debootstrap --variant=minbase --include="ca-certificates,$libraries" \
    "$release" "$root" >"$scratch/debootstrap.log" 2>&1 || { tail -20 "$scratch/debootstrap.log" >&2; exit 1; }

# As in the official image: Python in /usr/local, and no bytecode. What this machine has put into its own Python stays here.
tar -C "$python" --exclude='*.pth' --exclude='*.pyc' --exclude='*/test' --exclude='*/tests' --exclude='*.a' \
    --exclude='_tkinter*' --exclude='share' --exclude='lib/python*/site-packages/[!p]*' -cf - bin include lib \
    | tar -C "$root/usr/local" -xf -
ln -sf "python$version" "$root/usr/local/bin/python"
ln -sf "python$version" "$root/usr/local/bin/python3"
sed -i "1s|.*|#!/usr/local/bin/python$version|" "$root"/usr/local/bin/pip*
strip --strip-unneeded "$root/usr/local/lib/libpython$version.so.1.0" 2>/dev/null || true
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
chroot "$root" ldconfig
chroot "$root" python -c 'import ssl, sqlite3, ctypes, bz2, lzma, readline, uuid'
find "$root/usr/local" -name '*.pyc' -delete
tar -C "$root" -cf - . | podman import --quiet --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["python3"]' - "$image" >/dev/null
rm -rf "$root"
