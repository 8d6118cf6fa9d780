// IDs.
//
// Stages: making and ending; what is known of one; synchronous ones; addresses and routes;
// connections; options; groups.
#include "cm.h"

#include <stdlib.h>
#include <string.h>

// made is an ID before the engine knows it.
static struct id *made(struct rdma_event_channel *ch, void *context, int port_space, enum ibv_qp_type type)
{
	struct id *i = calloc(1, sizeof *i);
	if (!i)
		return NULL;
	i->id.channel = ch;
	i->id.context = context;
	i->id.ps = port_space;
	i->id.qp_type = type;
	return i;
}

struct rdma_cm_id *id_born(struct rdma_cm_id *listener, uint32_t handle)
{
	struct id *i = made(listener->channel, listener->context, listener->ps, listener->qp_type);
	if (!i)
		return NULL;
	i->handle = handle;
	return &i->id;
}

void id_unborn(struct rdma_cm_id *id) { free(id); }

int id_create(struct rdma_event_channel *ch, struct rdma_cm_id **out, void *context, int port_space, enum ibv_qp_type type)
{
	bool sync = !ch;
	if (sync && !(ch = rdma_create_event_channel()))
		return -1;
	struct id *i = made(ch, context, port_space, type);
	int err = i ? ENGINE(cm_create_id, ((struct channel *)ch)->handle, port_space, &i->id, &i->handle) : ENOMEM;
	if (err) {
		free(i);
		if (sync)
			rdma_destroy_event_channel(ch);
		return result(err);
	}
	i->sync = sync;
	*out = &i->id;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **out, void *context, enum rdma_port_space ps)
{
	return id_create(ch, out, context, ps, ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC);
}

// ack acknowledges the event that a synchronous ID shows.
static void ack(struct id *i)
{
	if (i->id.event)
		rdma_ack_cm_event(i->id.event);
	i->id.event = NULL;
}

// It waits for who has taken an event of the ID and has not acknowledged it.
int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct id *i = id_of(id);
	uint32_t reported = 0;
	int err = ENGINE(cm_destroy_id, i->handle, &reported);
	if (err && err != EIO)
		return result(err);
	ack(i);
	if (!err)
		await_acks(i, reported);
	if (i->sync)
		rdma_destroy_event_channel(id->channel);
	free(i->init);
	free(i->connect);
	free(i);
	return result(err);
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch)
{
	struct id *i = id_of(id);
	bool sync = !ch;
	uint32_t reported = 0;
	if (sync && !(ch = rdma_create_event_channel()))
		return -1;
	int err = ENGINE(cm_migrate_id, i->handle, ((struct channel *)ch)->handle, &reported);
	if (err) {
		if (sync)
			rdma_destroy_event_channel(ch);
		return result(err);
	}
	struct rdma_event_channel *own = i->sync ? id->channel : NULL;
	i->sync = sync;
	id->channel = ch;
	if (own)
		ack(i);
	await_acks(i, reported);
	if (own)
		rdma_destroy_event_channel(own);
	return 0;
}

int id_known(struct id *i)
{
	int device = -1;
	int err = ENGINE(cm_known, i->handle, &i->path, &device);
	if (err || device < 0)
		return err;
	if (!i->id.verbs && !(i->id.verbs = cm_context(device)))
		return errno;
	if (!i->id.pd && !(i->id.pd = cm_domain(i->id.verbs))) // programs count on one
		return errno;
	i->id.port_num = 1;
	return 0;
}

int completed(struct id *i, int err)
{
	if (err || !i->sync)
		return result(err);
	ack(i);
	if (rdma_get_cm_event(i->id.channel, &i->id.event))
		return -1;
	int status = i->id.event->status;
	if (status)
		return result(i->id.event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : abs(status));
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct id *i = id_of(id);
	int err = ENGINE(cm_bind_addr, i->handle, addr);
	return result(err ? err : id_known(i));
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	return completed(id_of(id), ENGINE(cm_resolve_addr, id_of(id)->handle, src, dst, ms));
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	return completed(id_of(id), ENGINE(cm_resolve_route, id_of(id)->handle, ms));
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct id *i = id_of(id);
	int err = ENGINE(cm_listen, i->handle, backlog);
	return result(err ? err : id_known(i));
}

// said is what the program says, or what rdma_create_ep was given to say; NULL: nothing.
static struct rdma_conn_param *said(struct id *i, struct rdma_conn_param *param, struct rdma_conn_param *room)
{
	if (!i->connect || (param && param->private_data && param->private_data_len))
		return param;
	*room = param ? *param : (struct rdma_conn_param){.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH, .retry_count = 7, .rnr_retry_count = 7};
	room->private_data = i->connect;
	room->private_data_len = i->connect_length;
	return room;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct id *i = id_of(id);
	struct rdma_conn_param room;
	i->asks = true;
	return completed(i, ENGINE(cm_connect, i->handle, said(i, param, &room)));
}

// Who answers a question for a queue pair of datagrams hears nothing more of it.
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int err = ENGINE(cm_accept, id_of(id)->handle, param);
	if (!err && id->qp)
		id->qp->state = IBV_QPS_RTS;
	if (id->qp_type == IBV_QPT_UD)
		return result(err);
	return completed(id_of(id), err);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
	return result(ENGINE(cm_reject, id_of(id)->handle, private_data, length));
}

int rdma_establish(struct rdma_cm_id *id) { return result(ENGINE(cm_establish, id_of(id)->handle)); }

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return event == IBV_EVENT_COMM_EST ? rdma_establish(id) : result(EINVAL);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	int err = ENGINE(cm_disconnect, id_of(id)->handle);
	if (!err && id->qp)
		id->qp->state = IBV_QPS_ERR;
	return completed(id_of(id), err);
}

// What devices say of themselves to their like (ECE) none of ours does. A peer's is nothing, then.
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return result(!ece || ece->comp_mask ? EINVAL : 0);
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ece || id->qp)
		return result(EINVAL);
	*ece = (struct ibv_ece){0};
	return 0;
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
	return rdma_reject(id, private_data, length);
}

// A path that the program has found by itself is the one that there is: it resolves the route.
int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	struct id *i = id_of(id);
	bool byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return result(size && size % sizeof(struct ibv_path_data) == 0 ? ENGINE(cm_resolve_route, i->handle, 0) : EINVAL);
	if (level != RDMA_OPTION_ID || name < RDMA_OPTION_ID_TOS || name > RDMA_OPTION_ID_ACK_TIMEOUT)
		return result(ENOSYS);
	if (!value || size != (byte ? sizeof(uint8_t) : sizeof(int)))
		return result(EINVAL);
	return result(ENGINE(cm_set_option, i->handle, name, byte ? *(uint8_t *)value : *(int *)value));
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int err = attr && mask ? ENGINE(cm_init_qp_attr, id_of(id)->handle, attr, mask) : EINVAL;
	if (!err && *mask & IBV_QP_AV && id->verbs)
		goroce_row_from_engine(id->verbs, &attr->ah_attr.grh.sgid_index);
	return result(err);
}

static int join(struct rdma_cm_id *id, struct sockaddr *addr, bool send_only, void *context)
{
	struct id *i = id_of(id);
	return completed(i, ENGINE(cm_mcast, i->handle, addr, true, send_only, (uintptr_t)context));
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context) { return join(id, addr, false, context); }

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return result(ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS))
		return result(EINVAL);
	if (attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return result(EINVAL);
	return join(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return result(ENGINE(cm_mcast, id_of(id)->handle, addr, false, false, (uintptr_t)0));
}

// port is that of an address, in network order.
static __be16 port(struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ((struct sockaddr_in *)addr)->sin_port;
	case AF_INET6:
		return ((struct sockaddr_in6 *)addr)->sin6_port;
	}
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id) { return port(&id->route.addr.src_addr); }
__be16 rdma_get_dst_port(struct rdma_cm_id *id) { return port(&id->route.addr.dst_addr); }
