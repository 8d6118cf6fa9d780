// How the programs of this folder say that something is not as it should be.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, errno); \
			exit(1); \
		} \
	} while (0)

// FAILS: a call returns -1, with this errno.
#define FAILS(call, no) CHECK((errno = 0, (call) == -1) && errno == (no))
