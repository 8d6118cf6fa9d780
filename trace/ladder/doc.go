// Package ladder draws the packets of a capture as a sequence diagram: a line down for each
// address, an arrow for each packet, with what an analysis has to say of it. For a terminal and as
// SVG; trace/page has the page in which each packet opens to its bytes.
package ladder
