// Package tshark holds what package trace says of a capture against what tshark says, field by
// field: for tests. What the two see otherwise is a table here, and docs/tshark.md.
package tshark
