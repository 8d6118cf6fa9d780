// A first program with verbs, as courses have it: both ends in one process. It lists the devices,
// opens the first, registers memory of three sizes and says how long each took, connects two queue
// pairs of RC, writes from one buffer into the other, polls, and compares.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define CHECK(what) \
	if (!(what)) { \
		perror(#what); \
		return 1; \
	}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

// connect_to brings a queue pair to RTS.
static int connect_to(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid, enum ibv_mtu mtu)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	return ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	       ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	       ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                                   IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n > 0);
	for (int i = 0; i < n; i++)
		printf("device %s\n", ibv_get_device_name(list[i]));
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK(pd);
	for (size_t size = 4 << 10; size <= 1 << 30; size = size == 4 << 10 ? 1 << 20 : size << 10) {
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		CHECK(memory != MAP_FAILED);
		double begin = now();
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
		printf("ibv_reg_mr %zu bytes: %.1f us\n", size, (now() - begin) * 1e6);
		CHECK(mr && !ibv_dereg_mr(mr) && !munmap(memory, size));
	}
	static char from[64 << 10], to[sizeof from];
	memset(from, 42, sizeof from);
	struct ibv_mr *source = ibv_reg_mr(pd, from, sizeof from, 0);
	struct ibv_mr *target = ibv_reg_mr(pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(source && target && cq);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *a = ibv_create_qp(pd, &attr), *b = ibv_create_qp(pd, &attr);
	CHECK(a && b);
	union ibv_gid gid;
	struct ibv_port_attr port;
	CHECK(!ibv_query_gid(context, 1, 0, &gid) && !ibv_query_port(context, 1, &port));
	CHECK(!connect_to(a, b->qp_num, gid, port.active_mtu) && !connect_to(b, a->qp_num, gid, port.active_mtu));
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = sizeof from, .lkey = source->lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)to, target->rkey}}, *bad;
	CHECK(!ibv_post_send(a, &wr, &bad));
	struct ibv_wc wc;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1);
	printf("completion %d: %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS && !memcmp(from, to, sizeof from));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(source) && !ibv_dereg_mr(target));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
