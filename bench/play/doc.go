// Package play performs the cases of the benchmark: on a stage on this machine, or in a guest; in
// rounds, with their processor time; one commit's, or two commits' in pairs; or with a profile.
package play
