#!/usr/bin/env bash
# Unpacks the tarball of a release, as whoever the runner is, into a folder that goes with the job.
# ROCE_TARBALL is one that is there already; else ROCE_VERSION says which release. Else it is that of
# ROCE_REF, by which the workflow names the action: a release's tag, or a commit or a moving tag such
# as v1 at which a release's tag is, too. Only a branch, or no name at all, means the newest.
#
# Stages: the machine's file; the release; its tarball, whose sum is compared; a folder in PATH.
set -euo pipefail

github=https://github.com/goroce/goroce
release='^v[0-9]+\.[0-9]+\.[0-9]+'

# refuse ends it.
refuse() {
	echo "::error::setup-roce: $1" >&2
	exit 1
}

# released is the release whose tag is at the commit or tag $1: the newest one if there are more.
released() {
	local tags commit
	tags=$(git ls-remote --tags $github) || refuse "the tags of $github cannot be read: say by the input version which release, such as v0.1.0"
	commit=$(awk -v name="refs/tags/$1" '$2 == name || $2 == name "^{}" { at = $1 } END { print at }' <<<"$tags")
	awk -v at="${commit:-$1}" '$1 == at { print $2 }' <<<"$tags" | sed 's|^refs/tags/||; s|\^{}$||' |
		grep -E "$release" | sort -V | tail -n 1 ||
		refuse "no release has its tag at $1: use a release's tag or its commit, or say by the input version which release, such as v0.1.0"
}

case "$(uname -s) $(uname -m)" in
"Linux x86_64") file=roce-linux-amd64.tar.gz ;;
"Linux aarch64") file=roce-linux-arm64.tar.gz ;;
*)
	refuse "$(uname -s) $(uname -m): the libraries are made for Linux, x86_64 and aarch64"
	;;
esac
if [ -z "${ROCE_TARBALL:-}" ]; then
	version=${ROCE_VERSION:-} ref=${ROCE_REF:-}
	if [[ -n $version && $version != latest && ! $version =~ $release ]]; then
		refuse "the input version is \"$version\": it must be a release's tag, such as v0.1.0, or latest"
	elif [[ -z $version && $ref =~ $release ]]; then
		version=$ref
	elif [[ -z $version && $ref =~ ^([0-9a-f]{40}|v[0-9].*)$ ]]; then
		version=$(released "$ref")
	fi
	case "$version" in
	"" | latest) from=$github/releases/latest/download ;;
	*) from=$github/releases/download/$version ;;
	esac
	echo "setup-roce: $from"
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
