#!/bin/sh
# Makes the veth pair in the guest anew, for one of the two stacks, on a whole or a spoiled wire. Runs in the guest.
#
#   guest_wire.sh rxe  [NETEM...]     both ends in the first network namespace: rxe receives only there
#   guest_wire.sh ours [NETEM...]     each end in a namespace of its own: rxe holds UDP port 4791 in the first one
#
# NETEM are words of tc-netem(8), applied to each direction.
set -e
stack=$1
shift

# What the last run left.
for dev in rxeA rxeB; do rdma link delete $dev; done 2>/dev/null || true
for ns in bench0 bench1 middle; do ip netns del $ns; done 2>/dev/null || true
for dev in veth0 veth1; do ip link del $dev; done 2>/dev/null || true

mac() { echo 02:00:5e:00:01:0$(($1 + 1)); }
address() { echo 198.51.100.$(($1 + 1)); }

if [ -z "$*" ]; then
	ip link add veth0 mtu 9000 address "$(mac 0)" type veth peer name veth1 mtu 9000 address "$(mac 1)"
else
	# A third namespace in the middle hands packets on, each way through netem: there no port gets past it, as packet sockets
	# would at either end.
	ip netns add middle
	for i in 0 1; do
		ip link add veth$i mtu 9000 address "$(mac $i)" type veth peer name middle$i mtu 9000 netns middle
		ip link set veth$i gso_max_segs 1 gso_max_size 4000 # else netem would drop many packets at once, before the kernel cuts them up
		ip -n middle link set middle$i up
	done
	for i in 0 1; do
		tc -n middle qdisc add dev middle$i root netem limit 100000 "$@"
		tc -n middle qdisc add dev middle$i ingress
		tc -n middle filter add dev middle$i ingress matchall action mirred egress redirect dev middle$((1 - i))
	done
fi
for i in 0 1; do
	peer=$((1 - i))
	in=
	if [ $stack = ours ]; then
		ip netns add bench$i
		ip link set veth$i netns bench$i
		in="-n bench$i"
	fi
	ip $in addr add "$(address $i)/24" dev veth$i
	ip $in link set veth$i up
	ip $in neigh replace "$(address $peer)" lladdr "$(mac $peer)" dev veth$i nud permanent
done
[ $stack = rxe ] || exit 0

# Between two addresses of its own the kernel would send over lo. Rules give each direction its way out of one end and in at
# the other.
sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.veth0.rp_filter=0 net.ipv4.conf.veth1.rp_filter=0
sysctl -q -w net.ipv4.conf.veth0.accept_local=1 net.ipv4.conf.veth1.accept_local=1
if ip rule show | grep -q '^0:'; then
	ip rule add pref 10 iif veth0 lookup local
	ip rule add pref 11 iif veth1 lookup local
	ip rule add pref 20 from "$(address 0)" to "$(address 1)" lookup 101
	ip rule add pref 21 from "$(address 1)" to "$(address 0)" lookup 102
	ip rule add pref 30 lookup local
	ip rule del pref 0
fi
ip route replace "$(address 1)" dev veth0 src "$(address 0)" table 101
ip route replace "$(address 0)" dev veth1 src "$(address 1)" table 102
rdma link add rxeA type rxe netdev veth0
rdma link add rxeB type rxe netdev veth1
