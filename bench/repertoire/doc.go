// Package repertoire is what the benchmark plays: which cases there are, ours, those of the rivals
// and the references, with their command lines and where the figure stands in what they print;
// which of them are held against each other; and what is demanded of ours.
package repertoire
