#!/usr/bin/env bash
# Has roce read each capture that the job's programs have left, and says what it finds: to the log,
# to the job's summary, and into a file beside the capture.
set -euo pipefail

PATH=$RUNNER_TEMP/roce/bin:$PATH
shopt -s nullglob
most=1000000 # bytes of the summary, of which GitHub takes a mebibyte or nothing
summary=$RUNNER_TEMP/roce-summary
: >"$summary"
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
		{
			echo "#### $(basename "$file")"
			head -c 16384 "$file.txt" | sed 's/^/    /'
			echo
		} >>"$summary"
	else # such as one without a packet
		cat "$file.txt"
		rm "$file.txt"
	fi
done
if [ "$(wc -c <"$summary")" -gt $most ]; then
	head -c $most "$summary" | sed '$d' # the last line may be half of one
	printf '\nThere is no room for the rest: it is in the log, and beside the captures in the artifact.\n'
else
	cat "$summary"
fi >>"$GITHUB_STEP_SUMMARY"
rm "$summary"
