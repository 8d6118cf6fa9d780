#!/usr/bin/env bash
# Has roce read each capture that the job's programs have left, and says what it finds: to the log,
# to the job's summary, and into a file beside the capture.
set -euo pipefail

PATH=$RUNNER_TEMP/roce/bin:$PATH
shopt -s nullglob
captures=("$RUNNER_TEMP"/roce-pcap/*.pcapng)
if [ ${#captures[@]} = 0 ]; then
	echo "No program of this job has opened a device of roce's."
	exit
fi
for file in "${captures[@]}"; do
	if roce trace analyze "$file" >"$file.txt" 2>&1; then
		echo "::group::$(basename "$file")"
		cat "$file.txt"
		echo "::endgroup::"
		{ # of which GitHub takes a megabyte
			echo "#### $(basename "$file")"
			head -c 16384 "$file.txt" | sed 's/^/    /'
			echo
		} >>"$GITHUB_STEP_SUMMARY"
	else # such as one without a packet
		cat "$file.txt"
		rm "$file.txt"
	fi
done
