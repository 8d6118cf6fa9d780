// Package figures is what the benchmark is made of: cases, which are one figure each; bouts, which
// are cases that are held against each other; bars, which are demands on ours; the results of a run
// with what can be said of them; the differences between two commits; and the report, with its
// pictures. It plays nothing.
package figures
