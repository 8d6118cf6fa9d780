// Package system is what the commands ask the operating system for, as each system has it: the
// processor time of the process, the memory that is to be had, and a sleep that is exact and can be
// ended.
package system
