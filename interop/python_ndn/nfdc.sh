#!/usr/bin/env bash
# Drives the node in $NDN_CLIENT_TRANSPORT with python-ndn's pynfdc, every command of it, and reads what it prints.
# usage: nfdc.sh PYTHON
set -euo pipefail

python=$1
nfdc() { "$python" -m ndn.bin.nfdc "$@"; }
# expect PATTERN COMMAND...: what pynfdc prints must match.
expect() {
    local pattern=$1 said
    shift
    said=$(nfdc "$@")
    grep -Eq "$pattern" <<<"$said" || { echo "pynfdc $*: no $pattern in:"; echo "$said"; exit 1; }
}

expect 'version[[:space:]]+larder-' Get-Status
expect 'unix://' Get-Face
expect '200 OK' New-Face udp4://127.0.0.1:6399
id=$(nfdc Get-Face | awk '$2 == "udp4://127.0.0.1:6399" { print $1 }')
[ -n "$id" ] || { echo "the face that was made is not listed"; exit 1; }
expect 'NON_LOCAL' Get-Face "$id"
expect 'PERSISTENT' Get-Face udp4://127.0.0.1:6399
expect '200 OK' New-Route /interop/route "$id"
expect "FaceID=$id" Get-Route /interop/route
expect '200 OK' Set-Strategy /interop/route /localhost/nfd/strategy/multicast
expect 'strategy/multicast/v=5' Get-Strategy /interop/route
expect '200 OK' Remove-Strategy /interop/route
expect 'strategy/best-route/v=5' Get-Strategy
expect '200 OK' Remove-Route /interop/route "$id"
! nfdc Get-Route /interop/route | grep -q FaceID || { echo "the route is still there"; exit 1; }
expect '200 OK' Remove-Face udp4://127.0.0.1:6399
! nfdc Get-Face | grep -q 'udp4://127.0.0.1:6399' || { echo "the face is still there"; exit 1; }
