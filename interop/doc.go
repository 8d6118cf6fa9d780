// Package interop holds what is needed to run goroce against peers that we did not write.
//
// The first of them is Linux Soft-RoCE (rxe) in a virtual machine of our own: package interop/lab
// boots it.
package interop
