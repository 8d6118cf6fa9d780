// The queue pair and the shared receive queue of an ID, with completion queues for who names none.
//
// Stages: completion queues; queue pairs; shared receive queues.
#include "cm.h"

#include <rdma/rdma_verbs.h>
#include <string.h>

// queue makes a completion queue with a channel of its own, which rdma_get_send_comp and
// rdma_get_recv_comp wait at; false, with errno: there is none.
static bool queue(struct rdma_cm_id *id, uint32_t n, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (!(*channel = ibv_create_comp_channel(id->verbs)))
		return false;
	if ((*cq = ibv_create_cq(id->verbs, n ? n : 1, id, *channel, 0)))
		return true;
	int err = errno;
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	errno = err;
	return false;
}

// end_queue leaves one that is in use, by a queue pair or a shared receive queue, as it is.
static void end_queue(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq && ibv_destroy_cq(*cq))
		return;
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void end_queues(struct rdma_cm_id *id)
{
	end_queue(&id->recv_cq_channel, &id->recv_cq);
	end_queue(&id->send_cq_channel, &id->send_cq);
}

// queues finds the two of a queue pair: those that the program names, or the ID's, which are made if
// need be. An errno.
static int queues(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	bool sends = attr->qp_type != IBV_QPT_XRC_RECV, receives = sends && attr->qp_type != IBV_QPT_XRC_SEND;
	if ((attr->send_cq && id->send_cq && attr->send_cq != id->send_cq) ||
	    (attr->recv_cq && id->recv_cq && attr->recv_cq != id->recv_cq))
		return EINVAL;
	if (sends && !attr->send_cq && !id->send_cq && !queue(id, attr->cap.max_send_wr, &id->send_cq_channel, &id->send_cq))
		return errno;
	if (receives && !attr->recv_cq && !id->recv_cq && !queue(id, attr->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq))
		return errno;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (id->qp || !id->verbs)
		return result(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		if (!(attr->pd = id->pd ? id->pd : cm_domain(id->verbs)))
			return -1;
	} else if (strcmp(goroce_device_name(attr->pd->context->device), goroce_device_name(id->verbs->device)))
		return result(EINVAL); // a context of the program's own will do, if it is the same device's
	if (attr->qp_type == IBV_QPT_XRC_RECV && !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		if (!(attr->xrcd = cm_xrcd(id->verbs)))
			return -1;
	}
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	int err = queues(id, attr);
	if (!err && !(id->qp = goroce_create_qp(id->verbs, attr, id_of(id)->handle)))
		err = errno;
	if (err) {
		end_queues(id);
		return result(err);
	}
	id->pd = attr->pd;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {.comp_mask = pd ? IBV_QP_INIT_ATTR_PD : 0, .pd = pd};
	memcpy(&ex, attr, offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof attr->sq_sig_all); // they begin alike
	int err = rdma_create_qp_ex(id, &ex);
	memcpy(attr, &ex, offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof attr->sq_sig_all);
	return err;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	end_queue(&id->send_cq_channel, &id->send_cq);
	if (!id->srq) // which may complete there, too
		end_queue(&id->recv_cq_channel, &id->recv_cq);
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!id->verbs || id->srq || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return result(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		if (!(attr->pd = id->pd ? id->pd : cm_domain(id->verbs)))
			return -1;
	}
	if (attr->srq_type == IBV_SRQT_XRC) {
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
			attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
			if (!(attr->xrcd = cm_xrcd(id->verbs)))
				return -1;
		}
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
			attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
			if (!id->recv_cq && !queue(id, attr->attr.max_wr, &id->recv_cq_channel, &id->recv_cq))
				return -1;
			attr->cq = id->recv_cq;
		}
	}
	struct ibv_srq *srq = ibv_create_srq_ex(id->verbs, attr);
	if (!srq) {
		int err = errno;
		end_queues(id);
		return result(err);
	}
	if (!id->pd)
		id->pd = attr->pd;
	id->srq = srq;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {.srq_context = attr->srq_context, .attr = attr->attr,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | (pd || id->pd ? IBV_SRQ_INIT_ATTR_PD : 0), .pd = pd ? pd : id->pd};
	int err = rdma_create_srq_ex(id, &ex);
	attr->attr = ex.attr;
	return err;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		end_queues(id);
}
