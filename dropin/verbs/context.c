// A device that is open: its functions, its attributes, its events.
//
// Stages: opening, with the table of functions that programs call through the context; closing;
// asking; events.
#define _GNU_SOURCE
#include "objects.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
                           struct ibv_device_attr_ex *out, size_t size)
{
	struct ibv_device_attr_ex all;
	if (in && in->comp_mask)
		return EINVAL;
	if (size < sizeof all.orig_attr)
		return EINVAL;
	int err = ENGINE(query_device, context_of(c)->handle, &all);
	if (!err)
		look_device(c, &all);
	if (!err) // an older program knows less of it
		memcpy(out, &all, size < sizeof all ? size : sizeof all);
	return err;
}

static int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out, size_t size)
{
	struct ibv_port_attr all = {0};
	if (port != 1)
		return EINVAL;
	int err = ENGINE(query_port, context_of(c)->handle, &all);
	if (!err) {
		look_port(c, &all);
		memset(out, 0, size);
		memcpy(out, &all, size < sizeof all ? size : sizeof all);
	}
	return err;
}

static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *values)
{
	uint64_t ns = 0;
	uint32_t want = values->comp_mask;
	values->comp_mask = 0;
	if (!(want & IBV_VALUES_MASK_RAW_CLOCK))
		return 0;
	int err = ENGINE(query_clock, context_of(c)->handle, &ns);
	if (!err) {
		values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
		values->raw_clock = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	}
	return err;
}

// functions fills in the tables. Every entry is something: what is not done is refused.
static void functions(struct verbs_context *v)
{
	refuse(v);
	v->context.ops.poll_cq = poll_cq;
	v->context.ops.req_notify_cq = req_notify_cq;
	v->context.ops.post_send = post_send;
	v->context.ops.post_recv = post_recv;
	v->context.ops.post_srq_recv = post_srq_recv;
	v->context.ops.alloc_mw = alloc_mw;
	v->context.ops.bind_mw = bind_mw;
	v->context.ops.dealloc_mw = dealloc_mw;
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->create_cq_ex = create_cq_ex;
	v->modify_cq = modify_cq;
	v->create_qp_ex = create_qp_ex;
	v->modify_qp_rate_limit = modify_qp_rate_limit;
	v->create_srq_ex = create_srq_ex;
	v->get_srq_num = get_srq_num;
	v->open_xrcd = open_xrcd;
	v->close_xrcd = close_xrcd;
	v->alloc_null_mr = alloc_null_mr;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
	v->advise_mr = advise_mr;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct device *d = (struct device *)device;
	int err = look_refuses(d, REFUSE_open_device), events[2] = {-1, -1};
	if (!err)
		err = goroce_engine_load();
	struct context *c = calloc(1, sizeof *c);
	if (err || !c)
		goto fail;
	if (pipe2(events, O_CLOEXEC)) {
		err = errno;
		goto fail;
	}
	fcntl(events[1], F_SETFL, O_NONBLOCK); // it is written in a turn of the stack
	struct verbs_context *v = &c->verbs;
	v->sz = sizeof *v;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.device = device;
	v->context.cmd_fd = events[0]; // there is none, and programs duplicate it before they ask for what it is for
	v->context.async_fd = events[0];
	c->async_write = events[1];
	pthread_mutex_init(&v->context.mutex, NULL);
	functions(v);
	if ((err = ENGINE(open, d->name, (uintptr_t)&v->context, events[1], &c->handle)))
		goto fail;
	v->context.num_comp_vectors = 1; // no processor is another's
	__atomic_add_fetch(&d->references, 1, __ATOMIC_SEQ_CST);
	return &v->context;
fail:
	if (events[0] >= 0) {
		close(events[0]);
		close(events[1]);
	}
	free(c);
	return failed(err ? err : ENOMEM);
}

int ibv_close_device(struct ibv_context *context)
{
	struct context *c = context_of(context);
	int err = ENGINE(close, c->handle);
	if (err) {
		errno = err;
		return -1;
	}
	close(context->async_fd);
	close(c->async_write);
	device_put((struct device *)context->device);
	free(c);
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *out)
{
	struct ibv_device_attr_ex all;
	int err = ENGINE(query_device, context_of(c)->handle, &all);
	if (!err) {
		look_device(c, &all);
		*out = all.orig_attr;
	}
	return err;
}

// The structure was shorter when this function was made; newer programs call the context's.
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *out)
{
	return query_port(c, port, (struct ibv_port_attr *)out, offsetof(struct ibv_port_attr, link_layer) + 2);
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
                      size_t size)
{
	struct ibv_gid_entry all;
	if (port != 1 || flags)
		return EINVAL;
	int err = look_gid(c, index, &all);
	static const union ibv_gid zero;
	if (!err && !memcmp(&all.gid, &zero, sizeof zero))
		return ENODATA;
	if (!err)
		memcpy(entry, &all, size < sizeof all ? size : sizeof all);
	return err;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	struct ibv_port_attr port = {0};
	size_t n = 0;
	int err = flags ? EINVAL : query_port(c, 1, &port, sizeof port);
	for (int i = 0; !err && i < port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		if (_ibv_query_gid_ex(c, 1, i, &e, 0, sizeof e))
			continue;
		if (n == max)
			return -EINVAL;
		memcpy((char *)entries + n++ * size, &e, size < sizeof e ? size : sizeof e);
	}
	return err ? -err : (ssize_t)n;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry all;
	int err = port == 1 && index >= 0 ? look_gid(c, index, &all) : EINVAL;
	if (err) {
		errno = err;
		return -1;
	}
	*gid = all.gid;
	return 0;
}

// Programs of rdma-core ask the sort of a row through a private function, of which each release of
// theirs has another version: 0 is InfiniBand or RoCE v1, 1 is RoCE v2.
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned index, int *type)
{
	struct ibv_gid_entry all;
	int err = port == 1 ? look_gid(c, index, &all) : EINVAL;
	if (err) {
		errno = err;
		return -1;
	}
	*type = all.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

#define GID_TYPE_OF(release) \
	__attribute__((symver("ibv_query_gid_type@IBVERBS_PRIVATE_" #release))) int gid_type_##release( \
		struct ibv_context *c, uint8_t port, unsigned index, int *type) \
	{ \
		return ibv_query_gid_type(c, port, index, type); \
	}
GID_TYPE_OF(57)
GID_TYPE_OF(59)
GID_TYPE_OF(64)
GID_TYPE_OF(65)

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey) { return port == 1 && pkey == 0xffff ? 0 : -1; }

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	return read(c->async_fd, event, sizeof *event) == sizeof *event ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event) {}
