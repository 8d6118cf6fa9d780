// What Go cannot call as it is: parameters with pointers inside, unions, addresses.

#ifndef GOROCE_RDMACM_GLUE_H
#define GOROCE_RDMACM_GLUE_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

// goroce_addr makes an address: ip has 4 bytes or 16.
static inline struct sockaddr_storage goroce_addr(const uint8_t *ip, size_t len, uint16_t port, uint32_t scope)
{
	struct sockaddr_storage at = { 0 };

	if (len == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)&at;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, ip, 4);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_scope_id = scope;
		memcpy(&in6->sin6_addr, ip, 16);
	}
	return at;
}

// goroce_read_addr reads one, and says how many bytes ip has; 0 if it is of neither family.
static inline size_t goroce_read_addr(const struct sockaddr *at, uint8_t *ip, uint16_t *port)
{
	if (at->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)at;

		memcpy(ip, &in->sin_addr, 4);
		*port = ntohs(in->sin_port);
		return 4;
	}
	if (at->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)at;

		memcpy(ip, &in6->sin6_addr, 16);
		*port = ntohs(in6->sin6_port);
		return 16;
	}
	return 0;
}

static inline struct sockaddr *goroce_local_addr(struct rdma_cm_id *id) { return rdma_get_local_addr(id); }
static inline struct sockaddr *goroce_peer_addr(struct rdma_cm_id *id) { return rdma_get_peer_addr(id); }

static inline int goroce_bind_addr(struct rdma_cm_id *id, struct sockaddr_storage *at)
{
	return rdma_bind_addr(id, (struct sockaddr *)at);
}

static inline int goroce_resolve_addr(struct rdma_cm_id *id, struct sockaddr_storage *src, struct sockaddr_storage *dst, int ms)
{
	return rdma_resolve_addr(id, (struct sockaddr *)src, (struct sockaddr *)dst, ms);
}

// goroce_connect connects, or if accept is not 0 accepts. data is copied by the call.
static inline int goroce_connect(struct rdma_cm_id *id, int accept, struct rdma_conn_param p, const void *data)
{
	p.private_data = data;
	return accept ? rdma_accept(id, &p) : rdma_connect(id, &p);
}

static inline int goroce_set_byte(struct rdma_cm_id *id, int option, uint8_t value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof value);
}

static inline int goroce_set_int(struct rdma_cm_id *id, int option, int value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof value);
}

// The union of an event.
static inline struct rdma_conn_param *goroce_conn(struct rdma_cm_event *e) { return &e->param.conn; }
static inline struct rdma_ud_param *goroce_ud(struct rdma_cm_event *e) { return &e->param.ud; }

static inline int goroce_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	return ibv_query_gid(context, port, index, gid);
}

#endif
