#!/bin/sh
# Makes the keys of a coordinator and of its clients, enrolls those, and writes each a client.toml. Each folder is to
# be that of one of them alone, where its daemon is started; what is there already stays.
set -eu

if [ $# -lt 3 ]; then
    echo "usage: make-keys.sh COORDINATOR_FOLDER COORDINATOR_ADDRESS CLIENT_FOLDER..." >&2
    exit 2
fi
keys=$1/coordinator-keys address=$2
shift 2

told=$(coordinator keys init --set "transport.keys=$keys")
server_key=$(echo "$told" | sed -n 's/^public_key = "\(.*\)"$/\1/p')
index=0
for folder in "$@"; do
    id=$(basename "$folder")
    if [ ! -e "$folder/client.toml" ]; then
        cat >"$folder/client.toml" <<EOF
[client]
id = "$id"
key = "client.secret"

[coordinator]
address = "$address"
public_key = "$server_key"

[data]
index = $index
EOF
    fi
    enroll=$(cd "$folder" && edge-client keys init --config client.toml)
    public_key=${enroll##* }
    coordinator keys enroll "$id" "$public_key" --set "transport.keys=$keys"
    index=$((index + 1))
done
