// What this library keeps behind the public structures. A structure's own field handle names the
// engine's object.
#ifndef OBJECTS_H
#define OBJECTS_H

#include "engine.h"

#include <stddef.h>

// A device, of which nothing is open yet.
struct device {
	struct ibv_device device;
	char name[IBV_SYSFS_NAME_MAX]; // goroce's: "udp:eth0"
	__be64 guid;
	int references;    // of lists, and of contexts
	struct look *look; // what a profile says of it; NULL: nothing
};

// A context. verbs_context ends with the public ibv_context, and grows towards lower addresses.
struct context {
	uint32_t handle;
	int async_write; // the engine's end of the pipe of events
	struct verbs_context verbs;
};

static inline struct context *context_of(struct ibv_context *c)
{
	return (struct context *)((char *)c - offsetof(struct context, verbs.context));
}

// A completion queue, with what ibv_start_poll has fetched.
struct cq {
	struct ibv_cq_ex ex;
	int fetched, next;
	struct goroce_wc_ex wcs[16];
};

// A queue pair, with the list that ibv_wr_start has begun.
struct qp {
	struct ibv_qp_ex ex;
	struct ibv_qp_cap cap;
	int sq_sig_all;
	struct list *list; // NULL: there never was one
};

// A shared receive queue.
struct srq {
	struct ibv_srq srq;
	uint32_t number;
};

// A domain of XRC.
struct xrcd {
	struct ibv_xrcd xrcd;
	uint32_t handle;
};

// failed sets errno, for a function that returns a pointer.
static inline void *failed(int err)
{
	errno = err;
	return NULL;
}

// wr.c
void qp_wr_functions(struct ibv_qp_ex *);
void qp_wr_free(struct qp *);
// cq.c
struct ibv_cq_ex *create_cq_ex(struct ibv_context *, struct ibv_cq_init_attr_ex *);
int poll_cq(struct ibv_cq *, int n, struct ibv_wc *);
int req_notify_cq(struct ibv_cq *, int solicited_only);
int modify_cq(struct ibv_cq *, struct ibv_modify_cq_attr *);
// qp.c
struct ibv_qp *create_qp_ex(struct ibv_context *, struct ibv_qp_init_attr_ex *);
struct ibv_srq *create_srq_ex(struct ibv_context *, struct ibv_srq_init_attr_ex *);
int get_srq_num(struct ibv_srq *, uint32_t *number);
struct ibv_xrcd *open_xrcd(struct ibv_context *, struct ibv_xrcd_init_attr *);
int close_xrcd(struct ibv_xrcd *);
int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **bad);
int modify_qp_rate_limit(struct ibv_qp *, struct ibv_qp_rate_limit_attr *);
// memory.c
struct ibv_mw *alloc_mw(struct ibv_pd *, enum ibv_mw_type);
int bind_mw(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
int dealloc_mw(struct ibv_mw *);
struct ibv_mr *alloc_null_mr(struct ibv_pd *);
struct ibv_td *alloc_td(struct ibv_context *, struct ibv_td_init_attr *);
int dealloc_td(struct ibv_td *);
struct ibv_pd *alloc_parent_domain(struct ibv_context *, struct ibv_parent_domain_init_attr *);
int advise_mr(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t flags, struct ibv_sge *, uint32_t n);
// refused.c
void refuse(struct verbs_context *);
// devices.c
enum { MAX_DEVICES = 64 };
struct device_list {
	struct ibv_device **devices; // MAX_DEVICES and a NULL
	int n;
};
struct device *device_add(struct device_list *, const char *seen, const char *name, __be64 guid);
void device_put(struct device *);

// look.c: how a device looks, if roce run has chosen the devices.

// What can be refused, by the names of the calls.
#define REFUSABLE(R) \
	R(open_device) R(alloc_pd) R(reg_mr) R(alloc_mw) R(create_ah) R(create_comp_channel) R(create_cq) R(create_srq) \
	R(create_qp) R(modify_qp)
enum refusal {
#define REFUSAL_NUMBER(name) REFUSE_##name,
	REFUSABLE(REFUSAL_NUMBER) REFUSALS
};
// look_list appends the devices that roce run has chosen; false: it has not, and they are to be found.
bool look_list(struct device_list *);
// look_refuses is the errno with which a call is to fail, or 0.
int look_refuses(struct device *, enum refusal);
// look_beyond says whether a number is above what an attribute has been set to.
bool look_beyond(struct ibv_context *, const char *attribute, uint64_t);
// look_device and look_port write what was set over what the engine has said.
void look_device(struct ibv_context *, struct ibv_device_attr_ex *);
void look_port(struct ibv_context *, struct ibv_port_attr *);
// look_gid is a row of the table; an errno.
int look_gid(struct ibv_context *, uint32_t index, struct ibv_gid_entry *);
// look_to_engine makes of a row's number the engine's; an errno. goroce_row_from_engine (engine.h)
// goes back.
int look_to_engine(struct ibv_context *, uint8_t *index);
// look_row_of makes of a GID its row of RoCE v2, if there is one.
void look_row_of(struct ibv_context *, const union ibv_gid *, uint8_t *index);

#define REFUSES(context, call) look_refuses((struct device *)(context)->device, REFUSE_##call)

#endif
