// What the files of this library share.
#ifndef CM_H
#define CM_H

#include "../verbs/engine.h"

#include <rdma/rdma_cma.h>

// An event channel.
struct channel {
	struct rdma_event_channel channel;
	uint32_t handle;
	int waiting; // threads in rdma_get_cm_event, with the lock of channel.c
	bool left;   // to the thread that waits, of which a handler has destroyed it
};

// An ID. One that is synchronous has a channel of its own, and its calls wait for their events.
struct id {
	struct rdma_cm_id id;
	uint32_t handle;
	bool sync;
	bool asks; // it connects, and the peer's answer makes its queue pair ready
	uint32_t acked; // events that were acknowledged, with the lock of channel.c
	struct ibv_sa_path_rec path;
	// Of rdma_create_ep: what queue pairs of a listener's connections are made from, and what is
	// said to the peer.
	struct ibv_qp_init_attr *init;
	void *connect;
	size_t connect_length;
};

static inline struct id *id_of(struct rdma_cm_id *id) { return (struct id *)id; }

// result is an errno as this library returns it.
static inline int result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

// devices.c

// cm_ready loads the engine and tells it which devices there are, once; an errno. Whatever makes the
// first object of this library calls it before.
int cm_ready(void);

// cm_context is the context of a device of the list, which is opened once and stays open; NULL, with
// errno: it cannot be.
struct ibv_context *cm_context(int index);

// cm_domain and cm_xrcd are the domains of a context for who names none; NULL, with errno.
struct ibv_pd *cm_domain(struct ibv_context *);
struct ibv_xrcd *cm_xrcd(struct ibv_context *);

// channel.c

// await_acks waits until as many events of an ID were acknowledged as the engine has reported.
void await_acks(struct id *, uint32_t reported);

// id.c

// id_born makes the ID of a request, id_unborn takes one back of which nobody will hear.
struct rdma_cm_id *id_born(struct rdma_cm_id *listener, uint32_t handle);
void id_unborn(struct rdma_cm_id *);

// id_known fills in what the engine knows of an ID; an errno.
int id_known(struct id *);

// id_create is rdma_create_id for queue pairs of a type.
int id_create(struct rdma_event_channel *, struct rdma_cm_id **, void *context, int port_space, enum ibv_qp_type);

// completed waits for the event that ends a call of a synchronous ID. It returns what the call does.
int completed(struct id *, int err);

#endif
