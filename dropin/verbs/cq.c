// Completion channels and queues.
//
// Stages: channels and their events; queues; polling as ever; polling one by one (ibv_start_poll).
#include "objects.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// channel is a completion channel.
struct channel {
	struct ibv_comp_channel channel;
	uint32_t handle;
};

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct channel *ch = calloc(1, sizeof *ch);
	int err = ch ? REFUSES(c, create_comp_channel) : ENOMEM;
	if (!err)
		err = ENGINE(create_comp_channel, context_of(c)->handle, &ch->channel.fd, &ch->handle);
	if (err) {
		free(ch);
		return failed(err);
	}
	int flags = fcntl(ch->channel.fd, F_GETFL);
	fcntl(ch->channel.fd, F_SETFL, flags & ~O_NONBLOCK); // as that of a NIC: the program may set it
	ch->channel.context = c;
	return &ch->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt > 0)
		return EBUSY;
	int err = ENGINE(close, ((struct channel *)channel)->handle);
	if (!err)
		free(channel);
	return err;
}

// goroce_asleep waits until a descriptor says that there is an event, by a call that signals and
// pthread_cancel end as they end that of rdma-core. What it has read it puts back: there is an event
// until the engine has handed it out. An errno.
int goroce_asleep(int fd)
{
	uint64_t events;
	int before, err;
	if (read(fd, &events, sizeof events) != sizeof events)
		return errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	err = write(fd, &events, sizeof events) == sizeof events ? 0 : errno;
	pthread_setcancelstate(before, NULL);
	return err;
}

// A program that waits runs the stack itself for some milliseconds, in which events mostly come, and
// then sleeps, unless its descriptor says that it does not wait.
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	uintptr_t which = 0;
	bool waits = !(fcntl(channel->fd, F_GETFL) & O_NONBLOCK);
	int err;
	while ((err = ENGINE(get_cq_event, ((struct channel *)channel)->handle, waits, &which)) == EAGAIN && waits)
		if ((err = goroce_asleep(channel->fd)))
			break;
	if (err) {
		errno = err;
		return -1;
	}
	*cq = (struct ibv_cq *)which;
	*cq_context = (*cq)->cq_context;
	return 0;
}

// The engine keeps nothing of an event that was taken.
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_mutex_unlock(&cq->mutex);
}

// create makes a queue; flags and wc_flags count only for an extended one.
static struct cq *create(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr, bool ex)
{
	struct cq *cq = calloc(1, sizeof *cq);
	if (!cq)
		return failed(ENOMEM);
	struct ibv_cq *base = ibv_cq_ex_to_cq(&cq->ex);
	uint32_t channel = attr->channel ? ((struct channel *)attr->channel)->handle : 0;
	int err = look_beyond(c, "max_cqe", attr->cqe) ? EINVAL : REFUSES(c, create_cq);
	if (!err)
		err = ENGINE(create_cq, context_of(c)->handle, channel, attr, ex, (uintptr_t)c, base);
	if (err) {
		free(cq);
		return failed(err);
	}
	base->context = c;
	base->channel = attr->channel;
	base->cq_context = attr->cq_context;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	if (attr->channel) {
		pthread_mutex_lock(&c->mutex);
		attr->channel->refcnt++;
		pthread_mutex_unlock(&c->mutex);
	}
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = cqe, .cq_context = cq_context, .channel = channel, .comp_vector = vector};
	struct cq *cq = create(c, &attr, false);
	return cq ? ibv_cq_ex_to_cq(&cq->ex) : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe) { return ENGINE(resize_cq, cq->handle, cqe, cq); }

int ibv_destroy_cq(struct ibv_cq *cq)
{
	int err = ENGINE(close, cq->handle);
	if (err)
		return err;
	if (cq->channel) {
		pthread_mutex_lock(&cq->context->mutex);
		cq->channel->refcnt--;
		pthread_mutex_unlock(&cq->context->mutex);
	}
	free(cq);
	return 0;
}

int req_notify_cq(struct ibv_cq *cq, int solicited_only) { return ENGINE(req_notify_cq, cq->handle, solicited_only); }

int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EOPNOTSUPP;
	return ENGINE(modify_cq, cq->handle, attr->moderate.cq_count, attr->moderate.cq_period);
}

// What ibv_start_poll has fetched and nobody has looked at comes first.
int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct cq *c = (struct cq *)cq;
	int got = 0;
	while (got < n && c->next < c->fetched)
		wc[got++] = c->wcs[c->next++].wc;
	if (got >= n)
		return got;
	int more = ENGINE_OR(-1, poll_cq, cq->handle, n - got, wc + got);
	return more < 0 && got == 0 ? -1 : got + (more < 0 ? 0 : more);
}

// step shows the next completion in the queue's structure; ENOENT: there is none.
static int step(struct ibv_cq_ex *ex)
{
	struct cq *c = (struct cq *)ex;
	if (c->next == c->fetched) {
		int n = ENGINE_OR(-1, poll_cq_ex, ibv_cq_ex_to_cq(ex)->handle, sizeof c->wcs / sizeof *c->wcs, c->wcs);
		c->next = 0;
		c->fetched = n > 0 ? n : 0;
		if (n <= 0)
			return n < 0 ? EINVAL : ENOENT;
	}
	ex->wr_id = c->wcs[c->next].wc.wr_id;
	ex->status = c->wcs[c->next].wc.status;
	c->next++;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr) { return attr->comp_mask ? EINVAL : step(ex); }
static int next_poll(struct ibv_cq_ex *ex) { return step(ex); }
static void end_poll(struct ibv_cq_ex *ex) {}

// shown is the completion that the queue shows.
static const struct goroce_wc_ex *shown(struct ibv_cq_ex *ex)
{
	struct cq *c = (struct cq *)ex;
	return &c->wcs[c->next - 1];
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return shown(ex)->wc.opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return shown(ex)->wc.vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return shown(ex)->wc.byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return shown(ex)->wc.imm_data; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return shown(ex)->wc.qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return shown(ex)->wc.src_qp; }
static unsigned read_wc_flags(struct ibv_cq_ex *ex) { return shown(ex)->wc.wc_flags; }
static uint32_t read_slid(struct ibv_cq_ex *ex) { return shown(ex)->wc.slid; }
static uint8_t read_sl(struct ibv_cq_ex *ex) { return shown(ex)->wc.sl; }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex) { return shown(ex)->wc.dlid_path_bits; }
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return shown(ex)->timestamp; }
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex) { return shown(ex)->wallclock; }
static uint16_t read_cvlan(struct ibv_cq_ex *ex) { return 0; }
static uint32_t read_flow_tag(struct ibv_cq_ex *ex) { return 0; }
static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info) { memset(info, 0, sizeof *info); }

// A queue can be asked for what it was made to keep. What nobody keeps here is refused then.
static const uint64_t kept = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                             IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr)
{
	if (attr->wc_flags & ~kept ||
	    attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return failed(EOPNOTSUPP);
	struct cq *cq = create(c, attr, true);
	if (!cq)
		return NULL;
	struct ibv_cq_ex *ex = &cq->ex;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	return ex;
}
