#!/bin/sh
# Sets protoedge up as a service on Debian, Ubuntu or JetPack 6: account, virtual environment, folders, settings, keys
# and unit. Once more repairs and upgrades; of the settings that are there, those change that are given, and keys and runs
# stay as they are.
set -eu

prefix=/opt/protoedge settings=/etc/protoedge state=/var/lib/protoedge units=/etc/systemd/system
account=protoedge
known_extras='train onnx report dashboard ray nvml privacy bench'
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

usage() {
    cat >&2 <<EOF
usage: install.sh coordinator [OPTION]...
       install.sh client ID ADDRESS PUBLIC_KEY [OPTION]...
       install.sh --uninstall [--purge]

  ID          the device's name, such as bench-01
  ADDRESS     the coordinator's host:port
  PUBLIC_KEY  what the installation of the coordinator printed

  --index N     which part of the run's own data the device has (default: 0, or what its settings say)
  --extras E    optional parts, separated by commas, of: $known_extras
  --from WHAT   a wheel, or a folder of the sources (default: the one that this script is in)
  --purge       remove settings, keys and runs as well
EOF
    exit 2
}

say() { printf 'install.sh: %s\n' "$1"; }
fail() { printf 'install.sh: %s\n' "$1" >&2; exit 1; }
refuse() { printf 'install.sh: %s\n' "$1" >&2; exit 2; }

# Whether all of a text has a form: `has_form REGEX TEXT`.
has_form() { LC_ALL=C expr "x$2" : "x$1\$" >/dev/null; }

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
    if [ -d "$from" ]; then
        rm -rf "$from/build" # what setuptools left there would be part of the next package, and is root's
    else # pip takes a wheel of the version that is there for the same, whatever is in it
        "$prefix/bin/python" -m pip install --quiet --force-reinstall --no-deps --only-binary=:all: "$from"
    fi
    for command in coordinator edge-client; do ln -sf "$prefix/bin/$command" "/usr/local/bin/$command"; done
}

# Writes a file of settings in which these keys have these values, and all else is as in another file, or as it was in this
# one: `write_settings FROM FILE KEY VALUE...`. It is written whole or not at all.
write_settings() {
    example=$1 file=$2 script=
    shift 2
    while [ $# -gt 0 ]; do
        line="^\\([[:space:]]*$1[[:space:]]*=[[:space:]]*\\)\\([^#]*[^#[:space:]]\\)"
        [ "$(grep -c "$line" "$example")" = 1 ] ||
            fail "$example: expected one line with $1 = $2: write it there, or move the file away, and run this again"
        was=$(sed -n "s|$line.*|\\2|p" "$example")
        if [ "$was" != "$2" ]; then
            script="$script;s|$line|\\1$2|"
            [ "$example" != "$file" ] || say "$file: $1 = $2 from now on, it was $was"
        fi
        shift 2
    done
    if [ "$example" != "$file" ]; then
        install -m 644 "$example" "$file.new"
    elif [ -n "$script" ]; then
        cp -p "$file" "$file.new" # with its owner and mode
    else
        say "$file stays as it is"
        return
    fi
    sed "$script" "$example" >"$file.new"
    mv "$file.new" "$file"
}

# Whether settings say which part of the run's data the device has, or have data of the device's own.
has_part() {
    grep -q '^[[:space:]]*index[[:space:]]*=' "$1" || {
        source=$(sed -n 's|^[[:space:]]*source[[:space:]]*=[[:space:]]*||p' "$1")
        [ -n "$source" ] && ! has_form "[\"']run[\"'].*" "$source"
    }
}

make_service() {
    install -m 644 "$here/systemd/protoedge-$role.service" "$units"
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
    file=$settings/run.toml
    if [ -s "$file" ]; then
        say "$file stays as it is"
    else
        write_settings "$here/examples/run.toml" "$file" \
            dir "\"$state/runs\"" keys "\"$state/coordinator-keys\"" bind '"0.0.0.0:7071"'
    fi
    told=$(as_account "$prefix/bin/coordinator" keys init --config "$file")
    make_service
    say "installed. For each device, what its client.toml must say:"
    printf '%s\n' "$told"
    say "enroll each device with the command that its installation prints, then:"
    echo "systemctl start protoedge-coordinator"
}

install_client() {
    file=$settings/client.toml
    set -- id "\"$id\"" address "\"$address\"" public_key "\"$public_key\""
    if [ -s "$file" ]; then
        [ -n "$index" ] || has_part "$file" ||
            fail "$file: expected one line with index = N, which part of the run's data the device has: write it there, and run this again"
        [ -z "$index" ] || set -- "$@" index "$index"
        write_settings "$file" "$file" "$@"
    else
        write_settings "$here/examples/client.toml" "$file" "$@" index "${index:-0}" dir "\"$state/client-state\""
    fi
    enroll=$(as_account "$prefix/bin/edge-client" keys init --config "$file")
    make_service
    say "installed. On the coordinator, let this device in:"
    echo "sudo -u $account $enroll --config $settings/run.toml"
    say "then here:"
    echo "sudo -u $account edge-client doctor --config $file"
    echo "systemctl start protoedge-client"
}

uninstall() {
    for role in coordinator client; do
        unit=$units/protoedge-$role.service
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
    index='' extras='' from=$(dirname -- "$here")
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || usage
        case $1 in
            --index)
                [ "$role" = client ] || refuse "--index: only a client has a part of the run's data"
                index=$2
                has_form 0 "$index" || has_form '[1-9][0-9]\{0,8\}' "$index" ||
                    refuse "--index: expected 0, 1, 2 ..., got '$index'"
                ;;
            --extras) extras=$2 ;;
            --from) from=$2 ;;
            *) usage ;;
        esac
        shift 2
    done
    check_package
}

# Refuses what pip would not install, or install without a part that it does not know.
check_package() {
    [ -f "$from/pyproject.toml" ] || { [ -f "$from" ] && has_form '.*\.whl' "$from"; } ||
        refuse "--from: expected a wheel, or a folder of the sources, got '$from'"
    from=$(realpath -- "$from")
    for extra in $(printf '%s' "$extras" | tr , ' '); do
        case " $known_extras " in
            *" $extra "*) ;;
            *) refuse "--extras: expected parts of '$known_extras', got '$extra'" ;;
        esac
    done
}

# Refuses what `edge-client` would, before anything is installed and written.
check_client() {
    has_form '[A-Za-z0-9][A-Za-z0-9._-]\{0,63\}' "$id" ||
        refuse "ID: expected 1 to 64 letters, digits or . _ -, the first a letter or digit, got '$id'"
    { has_form '[A-Za-z0-9._-]\{1,\}:[0-9]\{1,5\}' "$address" || has_form '\[[0-9A-Fa-f:.]\{1,\}]:[0-9]\{1,5\}' "$address"; } &&
        [ "${address##*:}" -ge 1 ] && [ "${address##*:}" -le 65535 ] ||
        refuse "ADDRESS: expected host:port, such as 192.168.1.10:7071, got '$address'"
    { has_form '[0-9a-f]\{64\}' "$public_key" && ! has_form '0*' "$public_key"; } ||
        refuse "PUBLIC_KEY: expected the 64 characters that 'coordinator keys init' prints on the server, got '$public_key'"
}

main() {
    role=${1:-}
    [ $# -eq 0 ] || shift
    case $role in
        coordinator) parse_options "$@" ;;
        client)
            [ $# -ge 3 ] || usage
            id=$1 address=$2 public_key=$3
            shift 3
            parse_options "$@"
            check_client
            ;;
        --uninstall)
            [ $# -le 1 ] || usage
            case ${1:-} in '' | --purge) ;; *) usage ;; esac
            ;;
        *) usage ;;
    esac
    [ "$(id -u)" -eq 0 ] || fail "expected to be run as root: sudo $0 ..."
    if [ "$role" = --uninstall ]; then
        uninstall "${1:-}"
        return
    fi
    install_packages
    make_account
    make_environment
    "install_$role"
}

main "$@"
