#!/bin/sh
# Two containers without root, each with a network of its own, and a wire between them; in one a
# server, in the other its client: containers.sh ROCE PROGRAM... Started by "unshare -rnm", which
# makes its caller the root of what is in here. Whatever ends it, the server ends with it.
set -e
roce=$1
shift
for tool in ip ss mount; do
	command -v $tool >/dev/null || {
		echo "containers.sh: $tool is not in PATH ($PATH); ip and ss are of the package iproute2, mount of mount" >&2
		exit 1
	}
done
mount -t tmpfs tmpfs /run # where the names of networks are kept, and a hub's socket, as /tmp is all containers'
export GOROCE_HUB_FOLDER=/run/goroce
ip netns add one
ip netns add two
ip link add eth0 netns one type veth peer name eth0 netns two
ip -n one address add 10.77.0.1/24 dev eth0
ip -n two address add 10.77.0.2/24 dev eth0
for name in one two; do
	ip -n $name link set lo up
	ip -n $name link set eth0 up
done
ip netns exec one "$roce" run -- "$@" &
server=$!
trap 'kill $server 2>/dev/null || :' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
until ip netns exec one ss -Hltn | grep -q .; do
	kill -0 $server 2>/dev/null || {
		echo "containers.sh: the server has ended, and never listened: $*" >&2
		exit 1
	}
	sleep 0.1
done
ip netns exec two "$roce" run -- "$@" 10.77.0.1
wait $server
