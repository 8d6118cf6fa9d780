// What Go cannot call as it is: functions that are inline or macros, those whose results come in
// several pieces, and unions.

#ifndef GOROCE_GLUE_H
#define GOROCE_GLUE_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

// The pieces of struct ibv_send_wr that are unions have mirrors in post.go. Should a library lay
// them out in another way, this does not compile.
#define GOROCE_AT(field, from, at) \
	_Static_assert(offsetof(struct ibv_send_wr, field) - offsetof(struct ibv_send_wr, from) == (at), #field)

GOROCE_AT(wr.rdma.rkey, wr, 8);
GOROCE_AT(wr.atomic.compare_add, wr, 8);
GOROCE_AT(wr.atomic.swap, wr, 16);
GOROCE_AT(wr.atomic.rkey, wr, 24);
GOROCE_AT(wr.ud.remote_qpn, wr, sizeof(void *));
GOROCE_AT(wr.ud.remote_qkey, wr, sizeof(void *) + 4);
GOROCE_AT(bind_mw.rkey, bind_mw, sizeof(void *));
GOROCE_AT(bind_mw.bind_info.mr, bind_mw, 2 * sizeof(void *));
GOROCE_AT(bind_mw.bind_info.addr, bind_mw, sizeof(void *) == 8 ? 24 : 12);
GOROCE_AT(bind_mw.bind_info.length, bind_mw, sizeof(void *) == 8 ? 32 : 20);
GOROCE_AT(bind_mw.bind_info.mw_access_flags, bind_mw, sizeof(void *) == 8 ? 40 : 28);

// goroce_posted says how many requests were posted, and the errno of the one after them.
struct goroce_posted {
	int n;
	int err;
};

static inline struct goroce_posted goroce_post_send(struct ibv_qp *qp, struct ibv_send_wr *wrs, int n)
{
	struct ibv_send_wr *bad = NULL;
	struct goroce_posted p = { n, ibv_post_send(qp, wrs, &bad) };

	if (p.err)
		p.n = bad ? (int)(bad - wrs) : 0;
	return p;
}

static inline struct goroce_posted goroce_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wrs, int n)
{
	struct ibv_recv_wr *bad = NULL;
	struct goroce_posted p = { n, ibv_post_recv(qp, wrs, &bad) };

	if (p.err)
		p.n = bad ? (int)(bad - wrs) : 0;
	return p;
}

static inline struct goroce_posted goroce_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wrs, int n)
{
	struct ibv_recv_wr *bad = NULL;
	struct goroce_posted p = { n, ibv_post_srq_recv(srq, wrs, &bad) };

	if (p.err)
		p.n = bad ? (int)(bad - wrs) : 0;
	return p;
}

static inline int goroce_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	return ibv_poll_cq(cq, n, wcs);
}

static inline int goroce_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static inline int goroce_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	return ibv_modify_cq(cq, attr);
}

// goroce_take_cq_event takes an event of a channel that has one completion queue, if there is one.
static inline int goroce_take_cq_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context))
		return 0;
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static inline int goroce_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	return ibv_query_port(context, port, attr);
}

static inline int goroce_query_device_ex(struct ibv_context *context, struct ibv_device_attr_ex *attr)
{
	return ibv_query_device_ex(context, NULL, attr);
}

// goroce_read_clock reads the clock of a device, which comes as if it were a time.
static inline int goroce_read_clock(struct ibv_context *context, uint64_t *ticks)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	int err = ibv_query_rt_values_ex(context, &values);

	*ticks = (uint64_t)values.raw_clock.tv_sec * 1000000000 + values.raw_clock.tv_nsec;
	return err;
}

static inline ssize_t goroce_query_gids(struct ibv_context *context, struct ibv_gid_entry *gids, size_t max)
{
	return ibv_query_gid_table(context, gids, max, 0);
}

static inline struct ibv_mr *goroce_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return ibv_reg_mr_iova(pd, addr, length, iova, access);
}

static inline struct ibv_mw *goroce_alloc_mw(struct ibv_pd *pd, int type)
{
	return ibv_alloc_mw(pd, type);
}

static inline int goroce_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return ibv_bind_mw(qp, mw, bind);
}

static inline int goroce_dealloc_mw(struct ibv_mw *mw)
{
	return ibv_dealloc_mw(mw);
}

#endif
