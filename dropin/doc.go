// Package dropin holds the tests of the libraries that take the place of rdma-core's libibverbs:
// the C library in verbs, the stack behind it in engine, and the symbols that they must have. make
// dropin builds them into build; docs/dropin.md says how they are used.
package dropin
