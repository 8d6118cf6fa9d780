// The newer way to post (ibv_wr_start and its kin): requests are built one by one, each with its
// elements, and all are posted by ibv_wr_complete, or none.
//
// Stages: the list, which grows; a request; its destination and elements; completing.
#include "objects.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

// list is what has been built since ibv_wr_start. Requests name elements and bytes by where they
// are, so none of the three moves.
struct list {
	struct ibv_send_wr *wrs;
	struct ibv_sge *sges;
	char *bytes; // inline data
	uint32_t n, used, taken, max, max_sge, max_inline;
	int err; // the first thing that was wrong
};

// MOST is how many requests a list has at most, whatever the queue takes.
enum { MOST = 1024 };

static struct list *list_of(struct ibv_qp_ex *ex) { return ((struct qp *)ex)->list; }

static void free_list(struct list *l)
{
	if (!l)
		return;
	free(l->wrs);
	free(l->sges);
	free(l->bytes);
	free(l);
}

static struct list *make(const struct ibv_qp_cap *cap)
{
	struct list *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->max = cap->max_send_wr < MOST ? cap->max_send_wr : MOST;
	l->max_sge = cap->max_send_sge;
	l->max_inline = cap->max_inline_data;
	l->wrs = calloc(l->max, sizeof *l->wrs);
	l->sges = calloc((size_t)l->max * l->max_sge, sizeof *l->sges);
	l->bytes = malloc((size_t)l->max * l->max_inline);
	if (l->wrs && l->sges && l->bytes)
		return l;
	free_list(l);
	return NULL;
}

void qp_wr_free(struct qp *q) { free_list(q->list); }

static void start(struct ibv_qp_ex *ex)
{
	struct qp *q = (struct qp *)ex;
	pthread_mutex_lock(&ex->qp_base.mutex);
	if (!q->list)
		q->list = make(&q->cap);
	if (q->list) {
		q->list->n = q->list->used = q->list->taken = 0;
		q->list->err = 0;
	}
}

// wrong notes what was wrong, for ibv_wr_complete.
static void wrong(struct list *l, int err)
{
	if (l && !l->err)
		l->err = err;
}

// nowhere takes what is said of a request for which there is no room. It is each thread's own.
static __thread struct ibv_send_wr nowhere;

// last is the request that is being built.
static struct ibv_send_wr *last(struct ibv_qp_ex *ex)
{
	struct list *l = list_of(ex);
	if (l && l->n > 0 && !l->err)
		return &l->wrs[l->n - 1];
	wrong(l, EINVAL);
	return &nowhere;
}

// add begins a request.
static struct ibv_send_wr *add(struct ibv_qp_ex *ex, enum ibv_wr_opcode op)
{
	struct list *l = list_of(ex);
	if (!l || l->n == l->max || l->err) {
		wrong(l, ENOMEM);
		return &nowhere;
	}
	struct ibv_send_wr *wr = &l->wrs[l->n];
	*wr = (struct ibv_send_wr){.wr_id = ex->wr_id, .opcode = op, .send_flags = ex->wr_flags};
	if (l->n++ > 0)
		wr[-1].next = wr;
	return wr;
}

// remote begins one that names memory of the peer.
static struct ibv_send_wr *remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = add(ex, op);
	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static void atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint64_t compare_add,
                   uint64_t swap)
{
	struct ibv_send_wr *wr = add(ex, op);
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t value)
{
	atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, value, 0);
}

// Its eight bytes travel where those of another atomic do.
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *bytes)
{
	memcpy(&remote(ex, IBV_WR_ATOMIC_WRITE, rkey, addr)->wr.atomic.swap, bytes, 8);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = add(ex, IBV_WR_BIND_MW);
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { add(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey; }
static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { remote(ex, IBV_WR_RDMA_READ, rkey, addr); }
static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { remote(ex, IBV_WR_RDMA_WRITE, rkey, addr); }

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void wr_send(struct ibv_qp_ex *ex) { add(ex, IBV_WR_SEND); }
static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm) { add(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm; }
static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { add(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey; }
static void wr_send_tso(struct ibv_qp_ex *ex, void *header, uint16_t size, uint16_t mss) { wrong(list_of(ex), EOPNOTSUPP); }

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = last(ex);
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn) { last(ex)->qp_type.xrc.remote_srqn = srqn; }

// bare says whether a request has no elements yet: it gets them once, so that all find room.
static bool bare(struct list *l, const struct ibv_send_wr *wr)
{
	if (wr == &nowhere)
		return false;
	if (wr->sg_list)
		wrong(l, EINVAL);
	return !wr->sg_list;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sges)
{
	struct list *l = list_of(ex);
	struct ibv_send_wr *wr = last(ex);
	if (!bare(l, wr))
		return;
	if (n > l->max_sge) {
		wrong(l, EINVAL);
		return;
	}
	wr->sg_list = memcpy(&l->sges[l->used], sges, n * sizeof *sges);
	wr->num_sge = n;
	l->used += n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	wr_set_sge_list(ex, 1, &(struct ibv_sge){.addr = addr, .length = length, .lkey = lkey});
}

// The bytes are copied at once: the program may change them before it completes the list.
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *pieces)
{
	struct list *l = list_of(ex);
	struct ibv_send_wr *wr = last(ex);
	size_t length = 0;
	if (!bare(l, wr))
		return;
	char *at = l->bytes + l->taken;
	for (size_t i = 0; i < n; i++) {
		if (pieces[i].length > l->max_inline - length) {
			wrong(l, EINVAL);
			return;
		}
		memcpy(at + length, pieces[i].addr, pieces[i].length);
		length += pieces[i].length;
	}
	l->taken += length;
	wr_set_sge(ex, 0, (uintptr_t)at, length);
	wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){.addr = addr, .length = length});
}

static int complete(struct ibv_qp_ex *ex)
{
	struct list *l = list_of(ex);
	int err = l ? l->err : ENOMEM;
	if (!err && l->n > 0)
		err = ENGINE(post_list, ex->qp_base.handle, l->wrs);
	pthread_mutex_unlock(&ex->qp_base.mutex);
	return err;
}

static void give_up(struct ibv_qp_ex *ex) { pthread_mutex_unlock(&ex->qp_base.mutex); }

void qp_wr_functions(struct ibv_qp_ex *ex)
{
	ex->wr_start = start;
	ex->wr_complete = complete;
	ex->wr_abort = give_up;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
}
