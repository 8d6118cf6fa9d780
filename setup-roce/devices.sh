#!/usr/bin/env bash
# What "roce run" changes in a program's environment the later steps get, so that their programs are
# started as they are: our libraries, the devices, and the files that show these alone. Their packets
# are recorded, for setup-roce/verdict. Nothing is started: the first program that opens a device
# starts the hub, which ends with the last one.
set -euo pipefail

PATH=$RUNNER_TEMP/roce/bin:$PATH
args=()
IFS=, read -ra names <<<"$ROCE_DEVICES"
for name in "${names[@]}"; do
	args+=(--dev "$name")
done
pcap=$RUNNER_TEMP/roce-pcap
mkdir -p "$pcap"
mapfile -d '' changed < <(comm -z -13 <(env -0 | sort -z) <(roce run "${args[@]}" -- env -0 | sort -z) | grep -z -v '^_=')
[ ${#changed[@]} -gt 0 ] # roce has said why not

# A value ends where a line is that nobody can have put into it, so that none sets a second variable.
end=roce-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
for variable in "${changed[@]}" "GOROCE_PCAP=$pcap"; do
	printf '%s<<%s\n%s\n%s\n' "${variable%%=*}" "$end" "${variable#*=}" "$end"
done >>"$GITHUB_ENV"
