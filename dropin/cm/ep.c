// Endpoints: an ID and a queue pair in one call, from addresses in one call.
//
// Stages: addresses; endpoints; requests.
#include "cm.h"

#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

// copied is a copy; NULL, with *err ENOMEM: there is no room.
static void *copied(const void *from, size_t n, int *err)
{
	void *to = n ? malloc(n) : NULL;
	if (to)
		memcpy(to, from, n);
	else if (n)
		*err = ENOMEM;
	return to;
}

// sought is what getaddrinfo is asked for.
static struct addrinfo sought(const struct rdma_addrinfo *hints)
{
	struct addrinfo ai = {.ai_socktype = SOCK_STREAM};
	if (!hints)
		return ai;
	ai.ai_flags = (hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) | (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
	ai.ai_family = hints->ai_family;
	if (hints->ai_qp_type == IBV_QPT_UD || hints->ai_port_space == RDMA_PS_UDP)
		ai.ai_socktype = SOCK_DGRAM;
	return ai;
}

// found fills in what getaddrinfo has found: the source of who listens, or the destination. An errno.
static int found(struct rdma_addrinfo *rai, const struct addrinfo *ai)
{
	bool passive = rai->ai_flags & RAI_PASSIVE;
	int err = 0;
	rai->ai_family = ai->ai_family;
	*(passive ? &rai->ai_src_addr : &rai->ai_dst_addr) = copied(ai->ai_addr, ai->ai_addrlen, &err);
	*(passive ? &rai->ai_src_len : &rai->ai_dst_len) = ai->ai_addrlen;
	if (ai->ai_canonname)
		*(passive ? &rai->ai_src_canonname : &rai->ai_dst_canonname) =
			copied(ai->ai_canonname, strlen(ai->ai_canonname) + 1, &err);
	return err;
}

// hinted fills in the addresses that the caller knows and nobody has found. An errno.
static int hinted(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	int err = 0;
	if (!rai->ai_src_len && hints->ai_src_len) {
		rai->ai_src_addr = copied(hints->ai_src_addr, hints->ai_src_len, &err);
		rai->ai_src_len = hints->ai_src_len;
	}
	if (!rai->ai_dst_len && hints->ai_dst_len) {
		rai->ai_dst_addr = copied(hints->ai_dst_addr, hints->ai_dst_len, &err);
		rai->ai_dst_len = hints->ai_dst_len;
	}
	const struct sockaddr *known = rai->ai_dst_addr ? rai->ai_dst_addr : rai->ai_src_addr;
	if (!rai->ai_family && known)
		rai->ai_family = known->sa_family;
	return err;
}

// kinds says of which type the queue pair is, and in which space the port, if the caller does not.
static void kinds(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	if (hints) {
		rai->ai_flags = hints->ai_flags;
		rai->ai_family = hints->ai_family;
		rai->ai_qp_type = hints->ai_qp_type;
		rai->ai_port_space = hints->ai_port_space;
	}
	if (!rai->ai_qp_type)
		rai->ai_qp_type = rai->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	if (!rai->ai_port_space)
		rai->ai_port_space = rai->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

// There is no service that knows routes: the one that there is is found when the address is
// resolved. An error of getaddrinfo's is returned as it is.
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	if (!node && !service && !hints)
		return result(EINVAL);
	struct rdma_addrinfo *rai = calloc(1, sizeof *rai);
	if (!rai)
		return result(ENOMEM);
	kinds(rai, hints);
	int err = 0;
	if (node || service) {
		struct addrinfo want = sought(hints), *ai;
		int code = getaddrinfo(node, service, &want, &ai);
		if (code) {
			free(rai);
			return code;
		}
		err = found(rai, ai);
		freeaddrinfo(ai);
	}
	if (!err && hints)
		err = hinted(rai, hints);
	if (err) {
		rdma_freeaddrinfo(rai);
		return result(err);
	}
	*res = rai;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

// passive binds an ID that will listen, and keeps what its connections are made from.
static int passive(struct id *i, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int err = 0;
	if (rdma_bind_addr(&i->id, res->ai_src_addr))
		return -1;
	if (!attr)
		return 0;
	if (pd)
		i->id.pd = pd;
	i->init = copied(attr, sizeof *attr, &err);
	if (i->init)
		i->init->qp_type = res->ai_qp_type;
	return result(err);
}

// active finds the peer and makes the queue pair.
static int active(struct id *i, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	enum { WAIT = 2000 };
	int err = 0;
	if (rdma_resolve_addr(&i->id, res->ai_src_addr, res->ai_dst_addr, WAIT) || rdma_resolve_route(&i->id, WAIT))
		return -1;
	i->connect = copied(res->ai_connect, res->ai_connect_len, &err);
	i->connect_length = res->ai_connect_len;
	if (err)
		return result(err);
	if (!attr)
		return 0;
	attr->qp_type = res->ai_qp_type;
	return rdma_create_qp(&i->id, pd, attr);
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	if (id_create(NULL, &id, NULL, res->ai_port_space, res->ai_qp_type))
		return -1;
	if ((res->ai_flags & RAI_PASSIVE ? passive : active)(id_of(id), res, pd, attr)) {
		int err = errno;
		rdma_destroy_id(id);
		return result(err);
	}
	*out = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

// The ID of a request is synchronous, too, on a channel of its own, and shows the request as its
// event.
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct id *l = id_of(listen);
	struct rdma_cm_event *event;
	if (!l->sync)
		return result(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	int err = event->status ? abs(event->status) : event->event != RDMA_CM_EVENT_CONNECT_REQUEST ? EINVAL : 0;
	struct rdma_cm_id *id = event->id;
	if (err) {
		listen->event = event;
		return result(err);
	}
	if (l->init) {
		struct ibv_qp_init_attr attr = *l->init;
		err = rdma_create_qp(id, listen->pd, &attr) ? errno : 0;
	}
	if (!err && rdma_migrate_id(id, NULL))
		err = errno;
	if (err) {
		rdma_ack_cm_event(event);
		rdma_reject(id, NULL, 0);
		rdma_destroy_ep(id);
		return result(err);
	}
	id->event = event;
	*out = id;
	return 0;
}
