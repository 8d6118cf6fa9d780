// What the files of this library share.
#ifndef CM_H
#define CM_H

#include "../verbs/engine.h"

#include <rdma/rdma_cma.h>

// devices.c
// cm_ready loads the engine and tells it which devices there are, once; an errno. Whatever makes the
// first object of this library calls it before.
int cm_ready(void);
// cm_context is the context of a device of the list, which is opened once and stays open; NULL, with
// errno: it cannot be.
struct ibv_context *cm_context(int index);

// result is an errno as this library returns it.
static inline int result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

#endif
