#!/bin/sh
# Sets protoedge up as a service on Debian, Ubuntu or JetPack 6: account, virtual environment, folders, settings, keys
# and unit. Once more repairs and upgrades; settings, keys and runs that are there stay as they are.
set -eu

prefix=/opt/protoedge settings=/etc/protoedge state=/var/lib/protoedge
account=protoedge
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

usage() {
    cat >&2 <<EOF
usage: install.sh coordinator [OPTION]...
       install.sh client ID ADDRESS PUBLIC_KEY [OPTION]...
       install.sh --uninstall [--purge]

  ID          the device's name, such as bench-01
  ADDRESS     the coordinator's host:port
  PUBLIC_KEY  what the installation of the coordinator printed

  --index N     which part of the run's own data the device has (default: 0)
  --extras E    optional parts, separated by commas: train, onnx, report, dashboard, privacy, nvml
  --from WHAT   a wheel, or a folder of the sources (default: the one that this script is in)
  --purge       remove settings, keys and runs as well
EOF
    exit 2
}

say() { printf 'install.sh: %s\n' "$1"; }
fail() { printf 'install.sh: %s\n' "$1" >&2; exit 1; }

# Whether systemd runs this machine: it does not in a chroot or while an image is built.
is_booted() { [ -d /run/systemd/system ]; }

as_account() { (cd "$state" && runuser -u "$account" -- "$@"); }

find_python() {
    for name in python3 python3.13 python3.12 python3.11 python3.10; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
            command -v "$name"
            return
        fi
    done
}

install_packages() {
    python=$(find_python)
    if [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null || ! [ -e /etc/ssl/certs/ca-certificates.crt ]; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates python3-venv
        python=$(find_python)
    fi
    [ -n "$python" ] || fail "expected Python 3.10 or newer; on an older system run the container of deploy/docker"
}

make_account() {
    if ! id "$account" >/dev/null 2>&1; then
        useradd --system --user-group --home-dir "$state" --shell /usr/sbin/nologin "$account"
    fi
    for group in video render; do # those who may use the GPU of a board
        if getent group "$group" >/dev/null; then usermod -aG "$group" "$account"; fi
    done
    install -d -m 755 "$settings"
    install -d -m 750 -o "$account" -g "$account" "$state"
}

make_environment() {
    site=
    if [ -e /etc/nv_tegra_release ]; then site=--system-site-packages; fi # where a Jetson has its own torch
    "$python" -m venv $site "$prefix"
    "$prefix/bin/python" -m pip install --quiet --upgrade --only-binary=:all: "$from${extras:+[$extras]}"
    for command in coordinator edge-client; do ln -sf "$prefix/bin/$command" "/usr/local/bin/$command"; done
}

# Writes a file of settings from an example, unless it is there: `write_settings EXAMPLE FILE SED_SCRIPT`.
write_settings() {
    if [ -e "$2" ]; then
        say "$2 stays as it is"
        return
    fi
    sed "$3" "$1" >"$2"
    chmod 644 "$2"
}

make_service() {
    install -m 644 "$here/systemd/protoedge-$role.service" /etc/systemd/system/
    if ! command -v systemctl >/dev/null; then
        say "no systemd here: start it by hand"
        return
    fi
    systemctl enable --quiet "protoedge-$role"
    if is_booted; then
        systemctl daemon-reload
        systemctl try-restart "protoedge-$role"
    fi
}

install_coordinator() {
    write_settings "$here/examples/run.toml" "$settings/run.toml" "
        s|^dir = [^#]*|dir = \"$state/runs\"  |
        s|^keys = [^#]*|keys = \"$state/coordinator-keys\"  |
        s|^bind = [^#]*|bind = \"0.0.0.0:7071\"  |"
    make_service
    say "installed. For each device, what its client.toml must say:"
    as_account "$prefix/bin/coordinator" keys init --config "$settings/run.toml"
    say "enroll each device with the command that its installation prints, then:"
    echo "systemctl start protoedge-coordinator"
}

install_client() {
    write_settings "$here/examples/client.toml" "$settings/client.toml" "
        s|^id = [^#]*|id = \"$id\"  |
        s|^dir = [^#]*|dir = \"$state/client-state\"  |
        s|^address = [^#]*|address = \"$address\"  |
        s|^public_key = [^#]*|public_key = \"$public_key\"  |
        s|^index = [^#]*|index = $index  |"
    make_service
    enroll=$(as_account "$prefix/bin/edge-client" keys init --config "$settings/client.toml")
    say "installed. On the coordinator, let this device in:"
    echo "sudo -u $account $enroll --config $settings/run.toml"
    say "then here:"
    echo "sudo -u $account edge-client doctor --config $settings/client.toml"
    echo "systemctl start protoedge-client"
}

uninstall() {
    for role in coordinator client; do
        unit=/etc/systemd/system/protoedge-$role.service
        if [ -e "$unit" ] && command -v systemctl >/dev/null; then
            if is_booted; then systemctl stop "protoedge-$role"; fi
            systemctl disable --quiet "protoedge-$role"
        fi
        rm -f "$unit"
    done
    if is_booted; then systemctl daemon-reload; fi
    for command in coordinator edge-client; do
        if [ "$(readlink "/usr/local/bin/$command")" = "$prefix/bin/$command" ]; then rm "/usr/local/bin/$command"; fi
    done
    rm -rf "$prefix"
    if [ "$1" != --purge ]; then
        say "removed, but for settings, keys and runs: $settings $state (--purge removes them)"
        return
    fi
    rm -rf "$settings" "$state"
    if id "$account" >/dev/null 2>&1; then userdel "$account"; fi
    say "removed, with settings, keys and runs"
}

parse_options() {
    index=0 extras='' from=$(dirname -- "$here")
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || usage
        case $1 in
            --index) index=$2 ;;
            --extras) extras=$2 ;;
            --from) from=$(realpath -- "$2") ;;
            *) usage ;;
        esac
        shift 2
    done
}

role=${1:-}
[ $# -eq 0 ] || shift
case $role in
    coordinator) ;;
    client)
        [ $# -ge 3 ] || usage
        id=$1 address=$2 public_key=$3
        shift 3
        ;;
    --uninstall) ;;
    *) usage ;;
esac
[ "$(id -u)" -eq 0 ] || fail "expected to be run as root: sudo $0 ..."
if [ "$role" = --uninstall ]; then
    case ${1:-} in '' | --purge) ;; *) usage ;; esac
    uninstall "${1:-}"
    exit
fi
parse_options "$@"
install_packages
make_account
make_environment
"install_$role"
