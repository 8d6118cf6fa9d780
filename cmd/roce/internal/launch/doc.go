// Package launch starts a program of somebody else's with goroce's libraries in the place of
// rdma-core's ("roce run"). It works on Linux.
//
//	libraries.go  where the libraries are: beside the command, or in it
//	keep.go       folders in the user's cache, named by what is in them
//	devices.go    which devices, on addresses that no other process has
//	profile.go    what devices a program should meet, and how they look
//	view.go       the files that show them: to libibverbs, and as sysfs and /dev would
//	run.go        all of it, the environment, and the program in this process' place
package launch
