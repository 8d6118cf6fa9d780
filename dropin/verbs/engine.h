// The engine, which is a library of its own in Go: its functions, by name and prototype, and how
// they are called.
//
// ENGINE(f, ...) is the value of goroce_f(...), an errno. The first call of a thread readies it
// (goroce_engine_ready). In the child of a fork there is no engine any more, and all calls are EIO; so
// are those of a signal's handler that has interrupted one, which Go could not bear, and those after
// it has left one by a jump.
//
// There is one engine in a process: this library has it, and librdmacm.so.1 reaches it through the
// symbols of the node GOROCE_PRIVATE. Functions for that library are in lists of its own.
#ifndef ENGINE_H
#define ENGINE_H

#include "../cm/functions.h"
#include "../rsockets/functions.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

// The header has macros in front of some functions that this library has.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct goroce_wc_ex {
	struct ibv_wc wc;
	uint64_t timestamp, wallclock;
};

#define ENGINE_FUNCTIONS(F) \
	F(open, (const char *name, uintptr_t context, int async_fd, uint32_t *handle)) \
	F(close, (uint32_t handle)) \
	F(query_device, (uint32_t context, struct ibv_device_attr_ex *)) \
	F(query_port, (uint32_t context, struct ibv_port_attr *)) \
	F(query_gid, (uint32_t context, uint32_t row, struct ibv_gid_entry *)) \
	F(query_clock, (uint32_t context, uint64_t *ns)) \
	F(alloc_pd, (uint32_t context, uint32_t *handle)) \
	F(reg_mr, (uint32_t pd, uintptr_t addr, uint64_t length, uint64_t iova, uint32_t access, struct ibv_mr *)) \
	F(alloc_null_mr, (uint32_t pd, struct ibv_mr *)) \
	F(rereg_mr, (uint32_t mr, int flags, uint32_t pd, void *addr, uint64_t length, uint32_t access, struct ibv_mr *)) \
	F(alloc_mw, (uint32_t pd, int type, struct ibv_mw *)) \
	F(bind_mw, (uint32_t qp, struct ibv_mw *, struct ibv_mw_bind *)) \
	F(create_ah, (uint32_t pd, struct ibv_ah_attr *, uint32_t *handle)) \
	F(ah_from_grh, (void *grh, struct ibv_ah_attr *)) \
	F(create_comp_channel, (uint32_t context, int *fd, uint32_t *handle)) \
	F(get_cq_event, (uint32_t channel, int wait, uintptr_t *cq)) \
	F(create_cq, (uint32_t context, uint32_t channel, struct ibv_cq_init_attr_ex *, int ex, uintptr_t ibv_context, \
	              struct ibv_cq *)) \
	F(resize_cq, (uint32_t cq, int cqe, struct ibv_cq *)) \
	F(modify_cq, (uint32_t cq, uint16_t count, uint16_t period)) \
	F(req_notify_cq, (uint32_t cq, int solicited_only)) \
	F(poll_cq, (uint32_t cq, int n, struct ibv_wc *)) \
	F(poll_cq_ex, (uint32_t cq, int n, struct goroce_wc_ex *)) \
	F(open_xrcd, (uint32_t context, uint32_t *handle)) \
	F(create_srq, (uint32_t pd, struct ibv_srq_attr *, uint32_t xrcd, uint32_t cq, uintptr_t ibv_context, \
	               struct ibv_srq *, uint32_t *number)) \
	F(modify_srq, (uint32_t srq, struct ibv_srq_attr *, int mask)) \
	F(query_srq, (uint32_t srq, struct ibv_srq_attr *)) \
	F(create_qp, (uint32_t context, uint32_t pd, uint32_t xrcd, uint32_t id, struct ibv_qp_init_attr *, \
	              uintptr_t ibv_context, struct ibv_qp *)) \
	F(modify_qp, (uint32_t qp, struct ibv_qp_attr *, int mask)) \
	F(query_qp, (uint32_t qp, struct ibv_qp_attr *)) \
	F(mcast, (uint32_t qp, const void *group, int join)) \
	F(post_send, (uint32_t qp, struct ibv_send_wr *, struct ibv_send_wr **bad)) \
	F(post_list, (uint32_t qp, struct ibv_send_wr *)) \
	F(post_recv, (uint32_t qp_or_srq, struct ibv_recv_wr *, struct ibv_recv_wr **bad)) \
	F(flush, (int sockets)) \
	F(grow_stack, (void)) \
	ENGINE_FUNCTIONS_CM(F) \
	ENGINE_FUNCTIONS_RSOCKETS(F)

#define ENGINE_MEMBER(name, prototype) int(*name) prototype;
extern struct engine {
	ENGINE_FUNCTIONS(ENGINE_MEMBER)
} goroce_engine;

// goroce_engine_load loads the engine once; an errno.
int goroce_engine_load(void);

// goroce_engine_ready readies the calling thread; false: there is no engine.
bool goroce_engine_ready(void);

// goroce_engine_entered is where the calling thread is, as its signals' handlers see it.
enum { GOROCE_NEVER, GOROCE_OUTSIDE, GOROCE_INSIDE };
extern __thread volatile int goroce_engine_entered;

// goroce_create_qp is ibv_create_qp_ex for an ID of the connection manager (qp.c).
struct ibv_qp *goroce_create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *, uint32_t id);

// goroce_asleep sleeps until a descriptor of the engine's is readable (cq.c).
int goroce_asleep(int fd);

// goroce_row_from_engine makes of a row's number in the engine's GID table the one that programs see
// (look.c).
void goroce_row_from_engine(struct ibv_context *, uint8_t *index);

// goroce_device_name is the name of a device in goroce, "udp:eth0" (devices.c).
const char *goroce_device_name(struct ibv_device *);

#define ENGINE_OR(otherwise, f, ...) \
	({ \
		int engine_says = (otherwise); \
		if (__builtin_expect(goroce_engine_entered == GOROCE_OUTSIDE, true) || goroce_engine_ready()) { \
			goroce_engine_entered = GOROCE_INSIDE; \
			engine_says = goroce_engine.f(__VA_ARGS__); \
			goroce_engine_entered = GOROCE_OUTSIDE; \
		} \
		engine_says; \
	})
#define ENGINE(f, ...) ENGINE_OR(EIO, f, __VA_ARGS__)

#endif
