// What is not done here: devices shared between processes, on-device memory, flow steering, work
// queues for receive side scaling, tag matching, ECE. Each answers EOPNOTSUPP, or NULL with that
// errno; no function is missing, as there are programs that call without looking.
//
// Stages: members of the table of functions; functions of the library; conversions that only
// drivers of the kernel need, of which there are none.
#include "objects.h"

static void *no_object(void) { return failed(EOPNOTSUPP); }
static int not_done(void) { return errno = EOPNOTSUPP; }

// refuse has every function refuse. Its caller then puts in those that do something.
void refuse(struct verbs_context *v)
{
#define OBJECT(member) v->member = (void *)no_object
#define NUMBER(member) v->member = (void *)not_done
	OBJECT(ibv_create_flow);
	NUMBER(ibv_destroy_flow);
	OBJECT(open_qp);
	OBJECT(create_wq);
	NUMBER(modify_wq);
	NUMBER(destroy_wq);
	OBJECT(create_rwq_ind_table);
	NUMBER(destroy_rwq_ind_table);
	NUMBER(post_srq_ops);
	OBJECT(create_flow_action_esp);
	NUMBER(modify_flow_action_esp);
	NUMBER(destroy_flow_action);
	OBJECT(alloc_dm);
	NUMBER(free_dm);
	OBJECT(reg_dm_mr);
	OBJECT(create_counters);
	NUMBER(destroy_counters);
	NUMBER(attach_counters_point_flow);
	NUMBER(read_counters);
	void **ops = (void **)&v->context.ops; // functions all
	for (size_t i = 0; i < sizeof v->context.ops / sizeof *ops; i++)
		ops[i] = (void *)not_done;
}

struct ibv_context *ibv_import_device(int fd) { return failed(EOPNOTSUPP); }
struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle) { return failed(EOPNOTSUPP); }
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle) { return failed(EOPNOTSUPP); }
struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle) { return failed(EOPNOTSUPP); }
void ibv_unimport_pd(struct ibv_pd *pd) {}
void ibv_unimport_mr(struct ibv_mr *mr) {}
void ibv_unimport_dm(struct ibv_dm *dm) {}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	return failed(EOPNOTSUPP);
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece) { return errno = EOPNOTSUPP; }
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece) { return errno = EOPNOTSUPP; }

// Data may be written in any order: packets that are repeated come late.
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags) { return 0; }

int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
	return errno = EOPNOTSUPP;
}

// Memory may be forked: nothing is pinned, and who forks has no engine in the child.
int ibv_fork_init(void) { return 0; }
enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void *base, size_t size) { return 0; }
int ibv_dofork_range(void *base, size_t size) { return 0; }

struct ibv_kern_ah_attr;
struct ibv_kern_qp_attr;
struct ibv_kern_path_rec;
struct ibv_sa_path_rec;
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ibv_kern_ah_attr *from) {}
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ibv_kern_qp_attr *from) {}
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ibv_kern_path_rec *from) {}
void ibv_copy_path_rec_to_kern(struct ibv_kern_path_rec *to, struct ibv_sa_path_rec *from) {}
