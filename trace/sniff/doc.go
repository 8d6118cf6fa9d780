// Package sniff captures the RoCE packets of a network interface, also those between other machines
// as far as the interface sees them. It answers nothing. Linux only, with CAP_NET_RAW.
package sniff
