# Debian's packages, unpacked into the folder image: nothing of this machine changes, and nobody need be root. For scripts to
# read in, where they work, with a file `log`.

get_package() { # get_package NAME [APT'S OPTION…]
    wanted=$1
    shift
    apt-get -q -o APT::Sandbox::User= "$@" download "$wanted" >>log 2>&1 && dpkg-deb -x "$wanted"_*.deb image
}

# Prints where it is.
get_kernel() {
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -1)
    [ -n "$package" ] && get_package "$package" && ls image/boot/vmlinuz-*
}

# A static one. Prints where it is.
get_busybox() { get_package busybox-static && ls image/bin/busybox image/usr/bin/busybox 2>>log | head -1; }

qemu_is_new() { # qemu_is_new QEMU: its plugins may ask for registers
    "$1" --version 2>>log | awk 'NR == 1 { split($4, v, "."); exit !(v[1] * 100 + v[2] >= 902) }'
}

# Prints the command of a QEMU whose plugins may ask for registers: this machine's, or that of Debian 12's backports.
get_new_qemu() {
    qemu_is_new qemu-system-x86_64 && { echo qemu-system-x86_64; return; }
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$codename //p" | head -1)
    [ -n "$mirror" ] || return 1
    mkdir -p lists/partial
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $codename-backports main" >sources.list
    set -- -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$PWD/lists"
    apt-get -q -o APT::Sandbox::User= -o APT::Update::Post-Invoke-Success= -o Debug::NoLocking=1 -o Dir::Cache="$PWD" "$@" update >>log 2>&1 || return 1
    for part in qemu-system-x86 qemu-system-data seabios; do
        get_package $part "$@" || return 1
    done
    qemu_is_new image/usr/bin/qemu-system-x86_64 && echo "$PWD/image/usr/bin/qemu-system-x86_64 -L $PWD/image/usr/share/qemu -L $PWD/image/usr/share/seabios"
}
