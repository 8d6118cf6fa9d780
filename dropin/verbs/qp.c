// Queue pairs, shared receive queues and XRC domains; posting.
//
// Stages: making and ending queue pairs; their attributes; shared receive queues; domains; posting,
// one call of the engine a list; multicast.
#include "objects.h"

#include <stdlib.h>
#include <string.h>

// create makes a queue pair. pd is NULL for XRC_RECV, xrcd for all others; id is 0, or the handle of
// the connection manager's ID that it is for.
static struct ibv_qp *create(struct ibv_context *c, struct ibv_pd *pd, struct ibv_xrcd *xrcd, uint32_t id,
                             struct ibv_qp_init_attr *attr)
{
	struct qp *q = calloc(1, sizeof *q);
	if (!q)
		return failed(ENOMEM);
	struct ibv_qp *base = &q->ex.qp_base;
	const struct ibv_qp_cap *cap = &attr->cap;
	int err = REFUSES(c, create_qp);
	if (look_beyond(c, "max_qp_wr", cap->max_send_wr) || look_beyond(c, "max_qp_wr", cap->max_recv_wr) ||
	    look_beyond(c, "max_sge", cap->max_send_sge) || look_beyond(c, "max_sge", cap->max_recv_sge))
		err = EINVAL;
	if (!err)
		err = ENGINE(create_qp, context_of(c)->handle, pd ? pd->handle : 0, xrcd ? ((struct xrcd *)xrcd)->handle : 0, id,
		             attr, (uintptr_t)c, base);
	if (err) {
		free(q);
		return failed(err);
	}
	base->context = c;
	base->qp_context = attr->qp_context;
	base->pd = pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	base->qp_type = attr->qp_type;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	q->cap = attr->cap;
	q->sq_sig_all = attr->sq_sig_all;
	qp_wr_functions(&q->ex);
	return base;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) { return create(pd->context, pd, NULL, 0, attr); }

// What ibv_wr_* can do here: all but segmentation offload.
static const uint64_t send_ops =
	IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
	IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
	IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE;

struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr) { return goroce_create_qp(c, attr, 0); }

struct ibv_qp *goroce_create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr, uint32_t id)
{
	const uint32_t known =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if (attr->comp_mask & ~known || (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ~send_ops))
		return failed(EOPNOTSUPP);
	struct ibv_qp_init_attr plain;
	memcpy(&plain, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask)); // they begin alike
	struct ibv_qp *qp = create(c, attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL,
	                           attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL, id, &plain);
	if (qp)
		attr->cap = plain.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return &((struct qp *)qp)->ex; }

int ibv_destroy_qp(struct ibv_qp *qp)
{
	int err = ENGINE(close, qp->handle);
	if (!err) {
		qp_wr_free((struct qp *)qp);
		free(qp);
	}
	return err;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_context *c = qp->context;
	struct ibv_qp_attr own = *attr;
	int err = REFUSES(c, modify_qp);
	if (!err && mask & IBV_QP_AV && attr->ah_attr.is_global)
		err = look_to_engine(c, &own.ah_attr.grh.sgid_index);
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC && look_beyond(c, "max_qp_init_rd_atom", attr->max_rd_atomic)) ||
	    (mask & IBV_QP_MAX_DEST_RD_ATOMIC && look_beyond(c, "max_qp_rd_atom", attr->max_dest_rd_atomic)))
		err = EINVAL;
	if (!err)
		err = ENGINE(modify_qp, qp->handle, &own, mask);
	if (err)
		errno = err;
	else if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return err;
}

int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *limit)
{
	struct ibv_qp_attr attr = {.rate_limit = limit->rate_limit};
	if (limit->max_burst_sz || limit->typical_pkt_sz)
		return EOPNOTSUPP;
	return ibv_modify_qp(qp, &attr, IBV_QP_RATE_LIMIT);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *q = (struct qp *)qp;
	int err = ENGINE(query_qp, qp->handle, attr);
	if (err)
		return err;
	qp->state = attr->qp_state;
	if (attr->ah_attr.is_global)
		goroce_row_from_engine(qp->context, &attr->ah_attr.grh.sgid_index);
	*init = (struct ibv_qp_init_attr){.qp_context = qp->qp_context, .send_cq = qp->send_cq, .recv_cq = qp->recv_cq,
		.srq = qp->srq, .cap = attr->cap, .qp_type = qp->qp_type, .sq_sig_all = q->sq_sig_all};
	return 0;
}

// create_srq makes a shared receive queue; xrcd and cq are NULL for a basic one.
static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_attr *attr, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
                                  void *srq_context)
{
	struct srq *s = calloc(1, sizeof *s);
	if (!s)
		return failed(ENOMEM);
	struct ibv_context *c = pd->context;
	int err = REFUSES(c, create_srq);
	if (look_beyond(c, "max_srq_wr", attr->max_wr) || look_beyond(c, "max_srq_sge", attr->max_sge))
		err = EINVAL;
	if (!err)
		err = ENGINE(create_srq, pd->handle, attr, xrcd ? ((struct xrcd *)xrcd)->handle : 0, cq ? cq->handle : 0,
		             (uintptr_t)c, &s->srq, &s->number);
	if (err) {
		free(s);
		return failed(err);
	}
	s->srq.context = c;
	s->srq.srq_context = srq_context;
	s->srq.pd = pd;
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	return &s->srq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create_srq(pd, &attr->attr, NULL, NULL, attr->srq_context);
}

struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	if (attr->comp_mask & ~known || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC))
		return failed(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || (type == IBV_SRQT_XRC && (!attr->xrcd || !attr->cq)))
		return failed(EINVAL);
	bool xrc = type == IBV_SRQT_XRC;
	return create_srq(attr->pd, &attr->attr, xrc ? attr->xrcd : NULL, xrc ? attr->cq : NULL, attr->srq_context);
}

int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = ((struct srq *)srq)->number;
	return *number ? 0 : EINVAL;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask) { return ENGINE(modify_srq, srq->handle, attr, mask); }
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr) { return ENGINE(query_srq, srq->handle, attr); }

int ibv_destroy_srq(struct ibv_srq *srq)
{
	int err = ENGINE(close, srq->handle);
	if (!err)
		free(srq);
	return err;
}

// A domain is of one process and one call: a file, by which programs of NICs share one, is not
// looked at.
struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr)
{
	struct xrcd *x = calloc(1, sizeof *x);
	int err = x ? ENGINE(open_xrcd, context_of(c)->handle, &x->handle) : ENOMEM;
	if (err) {
		free(x);
		return failed(err);
	}
	x->xrcd.context = c;
	return &x->xrcd;
}

int close_xrcd(struct ibv_xrcd *xrcd)
{
	int err = ENGINE(close, ((struct xrcd *)xrcd)->handle);
	if (!err)
		free(xrcd);
	return err;
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return ENGINE(post_send, qp->handle, wr, bad);
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ENGINE(post_recv, qp->handle, wr, bad);
}

int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ENGINE(post_recv, srq->handle, wr, bad);
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) { return ENGINE(mcast, qp->handle, gid, 1); }
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) { return ENGINE(mcast, qp->handle, gid, 0); }
