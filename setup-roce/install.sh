#!/usr/bin/env bash
# Unpacks the tarball of a release, as whoever the runner is, into a folder that goes with the job.
# ROCE_TARBALL is one that is there already; else ROCE_VERSION says which release, and what does not
# look like a version means the newest.
set -euo pipefail

case "$(uname -s) $(uname -m)" in
"Linux x86_64") file=roce-linux-amd64.tar.gz ;;
"Linux aarch64") file=roce-linux-arm64.tar.gz ;;
*)
	echo "::error::setup-roce: $(uname -s) $(uname -m): the libraries are made for Linux, x86_64 and aarch64"
	exit 1
	;;
esac
if [ -z "${ROCE_TARBALL:-}" ]; then
	from=https://github.com/goroce/goroce/releases
	case "${ROCE_VERSION:-}" in
	v[0-9]*) from+=/download/$ROCE_VERSION ;;
	*) from+=/latest/download ;;
	esac
	got=$RUNNER_TEMP/roce-release
	mkdir -p "$got"
	for name in "$file" SHA256SUMS; do
		curl --fail --silent --show-error --location --retry 3 --output "$got/$name" "$from/$name"
	done
	(cd "$got" && sha256sum --check --ignore-missing SHA256SUMS)
	ROCE_TARBALL=$got/$file
fi
mkdir -p "$RUNNER_TEMP/roce"
tar -xzf "$ROCE_TARBALL" --strip-components=1 -C "$RUNNER_TEMP/roce"
echo "$RUNNER_TEMP/roce/bin" >>"$GITHUB_PATH"
"$RUNNER_TEMP/roce/bin/roce" version
