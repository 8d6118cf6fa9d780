// Things that a C program may do, and that a library with Go in it must live through. Each is a
// program of its own, named by its argument; it exits with 0 if all is as it should be.
//
// Stages: a device with a queue pair that is connected to itself; the hazards; main.
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

static struct ibv_device **list;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char *memory;

static void open_all(void)
{
	CHECK((list = ibv_get_device_list(NULL)) && *list);
	CHECK((context = ibv_open_device(*list)));
	CHECK((pd = ibv_alloc_pd(context)));
	CHECK((cq = ibv_create_cq(context, 256, NULL, NULL, 0)));
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK((mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
}

// connected makes a queue pair whose peer is itself.
static struct ibv_qp *connected(void)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1}};
	CHECK(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                                IBV_QP_MAX_QP_RD_ATOMIC));
	return qp;
}

// write_once writes the first half of the memory into the second, and returns how that ended.
static enum ibv_wc_status write_once(struct ibv_qp *qp)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE / 2, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = {.remote_addr = (uintptr_t)memory + SIZE / 2, .rkey = mr->rkey}};
	struct ibv_send_wr *bad = NULL;
	struct ibv_wc wc = {0};
	int n, err = ibv_post_send(qp, &wr, &bad);
	CHECK(!err);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1 && wc.wr_id == 7 && wc.qp_num == qp->qp_num);
	return wc.status;
}

// A device that is open cannot be used in the child of a fork, which must learn so and not hang.
static void fork_late(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
	pid_t child = fork();
	if (child == 0) {
		struct ibv_wc wc;
		_exit(ibv_poll_cq(cq, 1, &wc) == -1 && !ibv_alloc_pd(context) && errno == EIO && !ibv_open_device(*list) ? 0 : 2);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
}

// A program that has looked at its devices and forks uses them in the child.
static void fork_early(void)
{
	CHECK((list = ibv_get_device_list(NULL)));
	ibv_free_device_list(list);
	pid_t child = fork();
	if (child == 0) {
		open_all();
		_exit(write_once(connected()) == IBV_WC_SUCCESS ? 0 : 2);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static volatile sig_atomic_t alarms;

// Handlers of programs use some of the stack. This one leaves nothing there as it was.
static void handler(int sig)
{
	char room[64 << 10];
	memset(room, 0xa5, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory");
	alarms++;
}

// alarmed works while alarms go off in its thread.
static void *alarmed(void *qp)
{
	sigset_t alarm;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &alarm, NULL));
	while (alarms < 5000) {
		struct ibv_cq *other = ibv_create_cq(context, 16, NULL, NULL, 0);
		CHECK(other && !ibv_destroy_cq(other));
		CHECK(write_once(qp) == IBV_WC_SUCCESS);
	}
	return NULL;
}

// A handler that did not ask for a stack of its own runs while calls are in Go, in a thread that is
// not the one which opened the device.
static void signals(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {.it_interval.tv_usec = 100, .it_value.tv_usec = 100};
	sigset_t alarm;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK(!pthread_sigmask(SIG_BLOCK, &alarm, NULL));
	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	pthread_t worker;
	CHECK(!pthread_create(&worker, NULL, alarmed, qp));
	CHECK(!pthread_join(worker, NULL));
}

static sigjmp_buf away;
static void ends(int sig)
{
	struct ibv_wc wc;
	ibv_poll_cq(cq, 1, &wc);
	exit(0);
}

static void jumps(int sig) { siglongjmp(away, 1); }

// A handler ends the process, or jumps away, within a call; mostly it is one of the engine.
static void ended(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		int status;
		if (!child) {
			open_all();
			struct ibv_qp *qp = connected();
			struct sigaction action = {.sa_handler = i % 2 ? jumps : ends};
			struct itimerval soon = {.it_value.tv_usec = 2000 + 100 * i};
			CHECK(!sigaction(SIGALRM, &action, NULL));
			if (sigsetjmp(away, 1)) {
				ibv_destroy_qp(qp);
				exit(0);
			}
			CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
			for (;;)
				write_once(qp);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
}

// Memory that is registered goes away: a protection error, and nothing worse.
static void unmapped(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
	CHECK(!munmap(memory, SIZE));
	CHECK(write_once(qp) == IBV_WC_LOC_PROT_ERR);
}

// Structures that are over, of another kind, or full of nonsense are refused.
static void nonsense(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	struct ibv_pd no_pd = {.context = context, .handle = 0xfffff};
	CHECK(!ibv_reg_mr(&no_pd, memory, SIZE, 0) && errno == EINVAL);
	no_pd.handle = cq->handle;
	CHECK(!ibv_reg_mr(&no_pd, memory, SIZE, 0) && errno == EINVAL);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	struct ibv_mr twice = *mr;
	CHECK(!ibv_dereg_mr(mr));
	struct ibv_mr *again = malloc(sizeof twice);
	*again = twice;
	CHECK(ibv_dereg_mr(again) == EINVAL);
	struct ibv_qp_attr attr = {.qp_state = 77};
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	struct ibv_sge sge = {0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = 99}, *bad = NULL;
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 1000;
	CHECK(ibv_post_send(qp, &wr, &bad) && bad == &wr);
	CHECK(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(context, 1 << 30, NULL, NULL, 0) && errno);
	union ibv_gid gid;
	CHECK(ibv_query_gid(context, 1, 1 << 20, &gid) && ibv_query_gid(context, 2, 0, &gid) && ibv_query_gid(context, 1, -1, &gid));
	struct ibv_port_attr port;
	CHECK(ibv_query_port(context, 2, &port) == EINVAL);
	struct ibv_ah_attr nowhere = {.port_num = 1};
	CHECK(!ibv_create_ah(pd, &nowhere) && errno == EINVAL);
}

// What the table of functions lacks is refused by a function.
static void refused(void)
{
	open_all();
	struct ibv_flow_attr flow = {0};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_wq_init_attr wq = {0};
	CHECK(!ibv_create_flow(connected(), &flow) && errno == EOPNOTSUPP);
	CHECK(!ibv_alloc_dm(context, &dm) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_counters(context, &counters) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_wq(context, &wq) && errno == EOPNOTSUPP);
	CHECK(!ibv_import_device(0) && errno == EOPNOTSUPP);
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0) && errno == EOPNOTSUPP);
}

static void *worker(void *qp)
{
	for (int i = 0; i < 2000; i++) {
		struct ibv_wc wc;
		struct ibv_port_attr port;
		CHECK(ibv_poll_cq(cq, 1, &wc) >= 0);
		CHECK(!ibv_query_port(context, 1, &port));
	}
	return NULL;
}

// Several threads, each of which the engine has never seen.
static void threads(void)
{
	open_all();
	pthread_t ids[8];
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 8; i++)
			CHECK(!pthread_create(&ids[i], NULL, worker, NULL));
		for (int i = 0; i < 8; i++)
			CHECK(!pthread_join(ids[i], NULL));
	}
	CHECK(write_once(connected()) == IBV_WC_SUCCESS);
}

// All is closed, in the right order, and again.
static void closes(void)
{
	for (int i = 0; i < 20; i++) {
		open_all();
		struct ibv_qp *qp = connected();
		CHECK(write_once(qp) == IBV_WC_SUCCESS);
		CHECK(ibv_destroy_cq(cq) == EBUSY);
		if (i % 2) { // or the device is closed with all that is left
			CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
		}
		CHECK(!ibv_close_device(context));
		ibv_free_device_list(list);
		CHECK(!munmap(memory, SIZE));
	}
}

// Lists of elements that are none: a count below 0, or no list.
static void elements(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
	static const struct { bool list; int n; unsigned flags; } bad_ones[] = {
		{true, -1, 0}, {false, 1, 0}, {true, -1, IBV_SEND_INLINE}, {false, 1, IBV_SEND_INLINE}, {true, INT_MIN, 0},
	};
	for (size_t i = 0; i < sizeof bad_ones / sizeof *bad_ones; i++) {
		struct ibv_sge *list = bad_ones[i].list ? &sge : NULL;
		struct ibv_send_wr send = {.sg_list = list, .num_sge = bad_ones[i].n, .opcode = IBV_WR_SEND,
			.send_flags = bad_ones[i].flags}, *bad_send = NULL;
		CHECK(ibv_post_send(qp, &send, &bad_send) == EINVAL && bad_send == &send);
		struct ibv_recv_wr receive = {.sg_list = list, .num_sge = bad_ones[i].n}, *bad_receive = NULL;
		CHECK(ibv_post_recv(qp, &receive, &bad_receive) == EINVAL && bad_receive == &receive);
	}
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
}

// A poll for less than nothing, a builder without an operation, a bind without a window.
static void builders(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(cq, 0, &wc) == 0 && ibv_poll_cq(cq, -1, &wc) <= 0);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	CHECK(ibv_wr_complete(ex));
	char bytes[64] = {0};
	ibv_wr_start(ex); // one request has room for its elements once
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory);
	ibv_wr_set_inline_data(ex, bytes, sizeof bytes);
	ibv_wr_set_inline_data(ex, bytes, sizeof bytes);
	CHECK(ibv_wr_complete(ex) == EINVAL);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad = NULL;
	CHECK(ibv_post_send(qp, &wr, &bad) && bad == &wr);
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
}

// The first request of a list that cannot be posted, and only those before it, is told.
static void lists(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr[200], *bad = NULL;
	for (int i = 0; i < 200; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = i, .next = i < 199 ? &wr[i + 1] : NULL, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = (uintptr_t)memory + SIZE / 2, .rkey = mr->rkey}};
	CHECK(ibv_post_send(qp, wr, &bad) == ENOMEM && bad >= wr + 64);
	int posted = bad - wr;
	struct ibv_wc wc;
	for (int got = 0; got < posted;) {
		int n = ibv_poll_cq(cq, 1, &wc);
		CHECK(n >= 0 && (n == 0 || (wc.wr_id == got && wc.status == IBV_WC_SUCCESS)));
		got += n;
	}
	wr[10].num_sge = 1000;
	CHECK(ibv_post_send(qp, wr, &bad) == EINVAL && bad == wr + 10);
	for (int got = 0; got < 10;) {
		int n = ibv_poll_cq(cq, 1, &wc);
		CHECK(n >= 0 && (n == 0 || wc.wr_id == got));
		got += n;
	}
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
}

// Address handles that are none, and a queue pair that is over.
static void handles(void)
{
	open_all();
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {8, 8, 1, 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	struct ibv_ah none = {.handle = 0x12345};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.wr.ud.ah = &none;
	bad = NULL;
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	struct ibv_qp *old = malloc(sizeof *old);
	*old = *qp;
	CHECK(!ibv_destroy_qp(qp));
	CHECK(ibv_post_send(old, &wr, &bad) == EINVAL && ibv_modify_qp(old, &attr, IBV_QP_STATE) == EINVAL);
}

// Sizes that nobody has.
static void sizes(void)
{
	open_all();
	static const struct ibv_qp_cap caps[] = {
		{UINT32_MAX, 8, 1, 1, 0}, {8, UINT32_MAX, 1, 1, 0}, {8, 8, UINT32_MAX, 1, 0}, {8, 8, 1, UINT32_MAX, 0}, {8, 8, 1, 1, UINT32_MAX},
	};
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
		init.cap = caps[i];
		errno = 0;
		CHECK(!ibv_create_qp(pd, &init) && errno);
	}
	init.cap = (struct ibv_qp_cap){8, 8, 1, 1, 0};
	init.qp_type = 99;
	CHECK(!ibv_create_qp(pd, &init) && errno);
	init.qp_type = IBV_QPT_RC;
	init.send_cq = NULL;
	CHECK(!ibv_create_qp(pd, &init) && errno == EINVAL);
	CHECK(!ibv_create_cq(context, -5, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(context, 5, NULL, NULL, 9) && errno == EINVAL);
	CHECK(ibv_resize_cq(cq, -1));
	struct ibv_srq_init_attr srq = {.attr = {UINT32_MAX, 1}};
	CHECK(!ibv_create_srq(pd, &srq) && errno);
}

static struct ibv_comp_channel *channel;

// open_channel has all, and a queue with a channel.
static void open_channel(void)
{
	open_all();
	CHECK((channel = ibv_create_comp_channel(context)));
	CHECK((cq = ibv_create_cq(context, 16, NULL, channel, 0)));
}

static void *wait_event(void *unused)
{
	struct ibv_cq *which;
	void *what;
	ibv_get_cq_event(channel, &which, &what);
	return NULL;
}

// A thread that waits for an event is cancelled, as programs end their threads.
static void cancelled(void)
{
	open_channel();
	pthread_t thread;
	void *result;
	CHECK(!pthread_create(&thread, NULL, wait_event, NULL) && !pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	CHECK(write_once(connected()) == IBV_WC_SUCCESS);
}

static volatile sig_atomic_t returned;

static void ignore(int sig) {}

static void *kick(void *thread)
{
	for (; !returned; usleep(1000))
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
	return NULL;
}

// Signals end a wait for an event, if they are to end calls.
static void interrupted(void)
{
	open_channel();
	struct sigaction action = {.sa_handler = ignore};
	struct ibv_cq *which;
	void *what;
	pthread_t self = pthread_self(), other;
	CHECK(!sigaction(SIGUSR1, &action, NULL) && !pthread_create(&other, NULL, kick, &self));
	CHECK(ibv_get_cq_event(channel, &which, &what) == -1 && errno == EINTR);
	returned = 1;
	CHECK(!pthread_join(other, NULL));
}

// An edge-triggered program takes one event an edge.
static void edges(void)
{
	open_all();
	CHECK((channel = ibv_create_comp_channel(context)));
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int poll = epoll_create1(0);
	CHECK(poll >= 0 && !epoll_ctl(poll, EPOLL_CTL_ADD, channel->fd, &event));
	struct ibv_cq *queues[3], *which;
	void *what;
	for (int i = 0; i < 3; i++) {
		CHECK((cq = queues[i] = ibv_create_cq(context, 16, NULL, channel, 0)) && !ibv_req_notify_cq(cq, 0));
		CHECK(write_once(connected()) == IBV_WC_SUCCESS);
		CHECK(epoll_wait(poll, &event, 1, 2000) == 1);
		if (i > 0)
			CHECK(!ibv_get_cq_event(channel, &which, &what));
	}
}

// A thread with the smallest stack there is, another program, another user.
static void elsewhere(void)
{
	open_all();
	struct ibv_qp *qp = connected();
	pthread_attr_t attr;
	pthread_t thread;
	CHECK(!pthread_attr_init(&attr) && !pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN));
	CHECK(!pthread_create(&thread, &attr, worker, qp) && !pthread_join(thread, NULL));
	CHECK(system("true") == 0);
	CHECK(geteuid() || (!setgid(65534) && !setuid(65534)));
	CHECK(write_once(qp) == IBV_WC_SUCCESS);
}

static const struct {
	const char *name;
	void (*play)(void);
} hazards[] = {
	{"fork-late", fork_late}, {"fork-early", fork_early}, {"signals", signals}, {"ended", ended}, {"unmapped", unmapped}, {"nonsense", nonsense},
	{"refused", refused},     {"threads", threads},       {"closes", closes},
	{"elements", elements},   {"builders", builders},     {"lists", lists},         {"handles", handles},   {"sizes", sizes},
	{"cancelled", cancelled}, {"interrupted", interrupted}, {"edges", edges},       {"elsewhere", elsewhere},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++)
		if (argc == 2 && !strcmp(argv[1], hazards[i].name)) {
			hazards[i].play();
			return 0;
		} else if (argc == 1)
			puts(hazards[i].name);
	return argc == 1 ? 0 : 2;
}
