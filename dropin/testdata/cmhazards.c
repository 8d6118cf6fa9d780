// Things that a C program may do with the connection manager, and that a library with Go in it must
// live through. Each is a program of its own, named by its argument; it exits with 0 if all is as it
// should be.
//
// Stages: a connection of this process with itself; the hazards; main.
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rdma_event_channel *passive, *active;
static struct rdma_cm_id *listener;

static struct sockaddr *at(const char *ip, int port)
{
	static struct sockaddr_in a;
	a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	CHECK(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
	return (struct sockaddr *)&a;
}

// own is the address of the device that the test gives the program.
static const char *own(void) { return getenv("GOROCE_DEVICES") + strlen("udp:"); }

// listens has a listener, on a port of the system's choice. On the loopback it has no device yet.
static void listens(void)
{
	CHECK((passive = rdma_create_event_channel()) && (active = rdma_create_event_channel()));
	CHECK(!rdma_create_id(passive, &listener, &listener, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, at("127.0.0.1", 0)) && !rdma_listen(listener, 0));
	CHECK(rdma_get_src_port(listener) && !listener->verbs && !listener->pd);
}

// takes takes an event, which must be of a type.
static struct rdma_cm_event *takes(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	CHECK(!rdma_get_cm_event(ch, &e));
	if (e->event != type) {
		fprintf(stderr, "%s, not %s\n", rdma_event_str(e->event), rdma_event_str(type));
		exit(1);
	}
	return e;
}

static void expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type) { CHECK(!rdma_ack_cm_event(takes(ch, type))); }

static void queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	CHECK(!rdma_create_qp(id, NULL, &init) && id->qp && id->qp->state == IBV_QPS_INIT && id->pd);
}

// resolved has an ID that may connect to an address.
static struct rdma_cm_id *resolved(struct sockaddr *to)
{
	struct rdma_cm_id *id;
	CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, to, 1000));
	expect(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->pd && id->pd->context == id->verbs && !rdma_resolve_route(id, 1000));
	expect(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	queue_pair(id);
	return id;
}

// asks asks at an address whether the listener there wants a connection.
static struct rdma_cm_id *asks_at(struct sockaddr *to)
{
	struct rdma_cm_id *id = resolved(to);
	struct rdma_conn_param param = {.private_data = "who", .private_data_len = 4, .responder_resources = 3,
		.initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 6};
	CHECK(!rdma_connect(id, &param));
	return id;
}

static struct rdma_cm_id *asks(void) { return asks_at(&listener->route.addr.src_addr); }

// connects has both ends of a connection with the listener, at an address.
static struct rdma_cm_id *connects(struct sockaddr *to, struct rdma_cm_id **child)
{
	struct rdma_cm_id *id = asks_at(to);
	struct rdma_cm_event *e = takes(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param *p = &e->param.conn;
	*child = e->id;
	CHECK(e->id->pd && e->listen_id == listener && e->id->context == &listener && e->id->verbs == id->verbs && e->status == 0);
	CHECK(p->private_data_len == 56 && !strcmp(p->private_data, "who") && p->responder_resources == 2 &&
	      p->initiator_depth == 3 && p->retry_count == 5 && p->rnr_retry_count == 6 && p->qp_num == id->qp->qp_num);
	CHECK(rdma_get_dst_port(e->id) == rdma_get_src_port(id) && rdma_get_src_port(e->id) == rdma_get_src_port(listener));
	queue_pair(e->id);
	CHECK(!rdma_accept(e->id, &(struct rdma_conn_param){.private_data = "me", .private_data_len = 3}));
	CHECK(!rdma_ack_cm_event(e));
	e = takes(active, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(e->id == id && e->param.conn.private_data_len == 196 && !strcmp(e->param.conn.private_data, "me"));
	CHECK(id->route.num_paths == 1 && id->route.path_rec->mtu && id->qp->state == IBV_QPS_RTS);
	CHECK(!rdma_ack_cm_event(e));
	expect(passive, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static struct rdma_cm_id *connected(struct rdma_cm_id **child)
{
	return connects(&listener->route.addr.src_addr, child);
}

static void ends(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

// A connection, its end, and the end of all.
static void whole(void)
{
	struct rdma_cm_id *child, *id;
	int n;
	listens();
	id = connected(&child);
	CHECK(!rdma_disconnect(id) && id->qp->state == IBV_QPS_ERR && !rdma_disconnect(id));
	expect(passive, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(child) && !rdma_disconnect(child));
	expect(active, RDMA_CM_EVENT_DISCONNECTED);
	struct ibv_context **all = rdma_get_devices(&n);
	CHECK(all && n == 1 && all[0] == id->verbs && !all[1]);
	rdma_free_devices(all);
	ends(id);
	ends(child);
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
}

// A queue pair that the program has destroyed by itself, as rping does, is not touched by the events
// that come afterwards: its memory is the program's again.
static void no_queue_pair(void)
{
	enum { TRIES = 64 };
	struct rdma_cm_id *child, *id;
	listens();
	id = asks();
	struct rdma_cm_event *e = takes(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = e->id;
	queue_pair(child);
	CHECK(!rdma_accept(child, NULL) && !rdma_ack_cm_event(e));
	expect(active, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_disconnect(id));
	for (int i = 0; i < 2; i++) { // both ends
		size_t size = malloc_usable_size(i ? (void *)id->qp : child->qp);
		char *again[TRIES], clean[size];
		memset(clean, 'x', size);
		CHECK(!ibv_destroy_qp(i ? id->qp : child->qp));
		for (int j = 0; j < TRIES; j++)
			CHECK((again[j] = memcpy(malloc(size), clean, size)));
		if (!i) {
			expect(passive, RDMA_CM_EVENT_ESTABLISHED);
			expect(passive, RDMA_CM_EVENT_DISCONNECTED);
			child->qp = NULL;
			CHECK(!rdma_disconnect(child));
		} else
			expect(active, RDMA_CM_EVENT_DISCONNECTED);
		for (int j = 0; j < TRIES; j++)
			CHECK(!memcmp(again[j], clean, size));
	}
}

// view has the devices look as lines of roce run say (verbs/look.c).
static void view(const char *lines)
{
	char folder[] = "/tmp/cmhazards-XXXXXX", file[64];
	CHECK(mkdtemp(folder) && snprintf(file, sizeof file, "%s/devices", folder) > 0);
	FILE *f = fopen(file, "w");
	CHECK(f && fprintf(f, "device roce0 %s 7\n%s", getenv("GOROCE_DEVICES"), lines) > 0 && !fclose(f));
	setenv("GOROCE_VIEW", folder, 1);
	CHECK((passive = rdma_create_event_channel()) && !unlink(file) && !rmdir(folder));
}

// A device that the program cannot open is one without which an ID is nothing.
static void no_context(void)
{
	struct rdma_cm_id *id;
	view("refuse open_device 13 0\n");
	CHECK(!rdma_create_id(passive, &id, NULL, RDMA_PS_TCP) && !rdma_resolve_addr(id, NULL, at(own(), 7), 1000));
	struct rdma_cm_event *e = takes(passive, RDMA_CM_EVENT_ADDR_ERROR);
	CHECK(e->status == -EACCES && !id->verbs && !rdma_ack_cm_event(e) && !rdma_destroy_id(id));
	CHECK(!rdma_create_id(passive, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(id, at(own(), 0)), EACCES);
}

// Where no device is on the loopback who binds to it is bound to all, and has none of them before it
// has a peer; who binds to a device's own address has that device.
static void off_loopback(void)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct rdma_cm_id *child, *id;
	CHECK(strcmp(own(), "127.0.0.1"));
	listens();
	in_port_t port = ntohs(rdma_get_src_port(listener));
	CHECK(listener->route.addr.src_sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK)); // what was asked for
	CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP) && !rdma_bind_addr(id, (struct sockaddr *)&six));
	CHECK(!id->verbs && !memcmp(&id->route.addr.src_sin6.sin6_addr, &six.sin6_addr, sizeof six.sin6_addr));
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP) && !rdma_bind_addr(id, at(own(), 0)));
	CHECK(id->verbs && id->pd && id->pd->context == id->verbs && !rdma_destroy_id(id));
	ends(connects(at(own(), port), &child));
	ends(child);
}

// Who names a device on the loopback that another process has is not heard on the others instead.
static void loopback_in_use(void)
{
	char devices[64];
	struct rdma_cm_id *id;
	int other = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(!bind(other, at("127.0.0.1", 4791), sizeof(struct sockaddr_in)));
	snprintf(devices, sizeof devices, "udp:127.0.0.1,%s", getenv("GOROCE_DEVICES"));
	CHECK(!setenv("GOROCE_DEVICES", devices, 1) && (passive = rdma_create_event_channel()));
	CHECK(!rdma_create_id(passive, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(id, at("127.0.0.1", 0)), EADDRNOTAVAIL);
}

// Who names no devices has that of the loopback, and no other address there.
static void unnamed(void)
{
	struct rdma_cm_id *id;
	CHECK(!unsetenv("GOROCE_DEVICES") && (passive = rdma_create_event_channel()));
	CHECK(!rdma_create_id(passive, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_bind_addr(id, at("127.0.0.5", 0)), EADDRNOTAVAIL);
}

// Rows of the GID table are those that the program sees, which a profile may have put elsewhere.
static void other_rows(void)
{
	enum { ROW = 2 };
	struct rdma_cm_id *id;
	struct rdma_conn_param param = {.qp_num = 5};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	int mask;
	view("gid 0 1 00000000000000000000ffff7f000001 lo\ngid 1 2 00000000000000000000000000000000 lo\n"
	     "gid 2 2 00000000000000000000ffff7f000001 lo\n");
	rdma_destroy_event_channel(passive);
	listens();
	asks();
	struct rdma_cm_event *e = takes(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!rdma_init_qp_attr(e->id, &attr, &mask) && mask & IBV_QP_AV && attr.ah_attr.grh.sgid_index == ROW);

	CHECK(!rdma_create_id(passive, &listener, NULL, RDMA_PS_UDP) && !rdma_bind_addr(listener, at("127.0.0.1", 0)));
	CHECK(!rdma_listen(listener, 0) && !rdma_create_id(active, &id, NULL, RDMA_PS_UDP));
	CHECK(!rdma_resolve_addr(id, NULL, &listener->route.addr.src_addr, 1000));
	expect(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	expect(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK((pd = ibv_alloc_pd(id->verbs)) && !rdma_join_multicast(id, at("239.0.0.7", 0), NULL));
	e = takes(active, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(e->param.ud.ah_attr.grh.sgid_index == ROW && (ah = ibv_create_ah(pd, &e->param.ud.ah_attr)) && !ibv_destroy_ah(ah));
	CHECK(!rdma_connect(id, &param));
	e = takes(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!rdma_accept(e->id, &param));
	e = takes(active, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(e->param.ud.ah_attr.grh.sgid_index == ROW && (ah = ibv_create_ah(pd, &e->param.ud.ah_attr)) && !ibv_destroy_ah(ah));
}

// A shared receive queue that cannot be made takes nothing from the ID that has a queue pair.
static void no_srq(void)
{
	struct ibv_srq_init_attr many = {.attr = {.max_wr = 1 << 30, .max_sge = 1}};
	listens();
	struct rdma_cm_id *id = resolved(&listener->route.addr.src_addr);
	CHECK(rdma_create_srq(id, NULL, &many) == -1 && id->send_cq && id->recv_cq && id->recv_cq_channel);
	CHECK(!rdma_connect(id, NULL));
	expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	rdma_destroy_qp(id);
	CHECK(!id->send_cq && !id->recv_cq && !id->send_cq_channel);
}

// What makes no sense is refused, and says why.
static void nonsense(void)
{
	struct rdma_cm_id *id, *other;
	struct rdma_cm_event *e;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct sockaddr_storage strange = {.ss_family = AF_UNIX};
	struct rdma_conn_param much = {.private_data = &strange, .private_data_len = 57}, deep = {.responder_resources = 200};
	struct rdma_addrinfo *res;
	int one = 1;
	listens();
	FAILS(rdma_create_id(active, &id, NULL, 77), EINVAL);
	FAILS(rdma_create_id(active, &id, NULL, RDMA_PS_IPOIB), EOPNOTSUPP);
	CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP) && !rdma_create_id(active, &other, NULL, RDMA_PS_UDP));
	FAILS(rdma_get_cm_event(active, NULL), EINVAL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
	FAILS(rdma_bind_addr(id, at("192.0.2.77", 0)), EADDRNOTAVAIL);
	FAILS(rdma_bind_addr(id, (struct sockaddr *)&strange), EAFNOSUPPORT);
	FAILS(rdma_bind_addr(id, &listener->route.addr.src_addr), EADDRINUSE);
	FAILS(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL);
	FAILS(rdma_resolve_route(id, 1), EINVAL);
	FAILS(rdma_create_qp(id, NULL, &init), EINVAL);
	FAILS(rdma_connect(id, NULL), EINVAL);
	FAILS(rdma_accept(id, NULL), EINVAL);
	FAILS(rdma_reject(id, NULL, 0), EINVAL);
	FAILS(rdma_establish(id), EINVAL);
	FAILS(rdma_disconnect(id), EINVAL);
	FAILS(rdma_disconnect(other), EINVAL);
	FAILS(rdma_listen(listener, 0), EINVAL);
	FAILS(rdma_notify(id, IBV_EVENT_QP_FATAL), EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, 9, &one, sizeof one), ENOSYS);
	FAILS(rdma_set_option(id, 7, 0, &one, sizeof one), ENOSYS);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, sizeof one), EINVAL);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one));
	FAILS(rdma_join_multicast(other, at("239.0.0.1", 0), NULL), EINVAL);
	CHECK(!rdma_bind_addr(other, at("127.0.0.1", 0)));
	FAILS(rdma_join_multicast(other, at("127.0.0.1", 0), NULL), EINVAL);
	FAILS(rdma_leave_multicast(other, at("239.0.0.1", 0)), EINVAL);
	FAILS(rdma_get_request(listener, &id), EINVAL);
	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	CHECK(rdma_getaddrinfo("no.such.host.invalid", "1", &(struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST}, &res));
	CHECK(!rdma_destroy_id(id) && (id = resolved(&listener->route.addr.src_addr)));
	FAILS(rdma_connect(id, &much), EINVAL);
	FAILS(rdma_connect(id, &deep), EINVAL);
	FAILS(rdma_create_qp(id, NULL, &init), EINVAL);
	FAILS(rdma_init_qp_attr(id, NULL, NULL), EINVAL);
	CHECK(!rdma_connect(id, NULL));
	e = takes(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!rdma_reject(e->id, "no", 3) && !rdma_destroy_id(e->id) && !rdma_ack_cm_event(e));
	e = takes(active, RDMA_CM_EVENT_REJECTED);
	CHECK(e->status == 28 && e->param.conn.private_data_len == 148 && !strcmp(e->param.conn.private_data, "no"));
	CHECK(!rdma_ack_cm_event(e));
}

// A synchronous ID waits, and says what came of it.
static void synchronous(void)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC}, *res;
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}};
	struct rdma_cm_id *id;
	CHECK(!rdma_getaddrinfo("127.0.0.1", "9", &hints, &res) && res->ai_dst_len && !res->ai_src_len);
	CHECK(!rdma_create_ep(&id, res, NULL, &init) && id->qp && id->send_cq && id->recv_cq_channel);
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 8);
	CHECK((active = rdma_create_event_channel()) && !rdma_migrate_id(id, active) && id->channel == active && !id->event);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	rdma_destroy_event_channel(active);
}

// In the child of a fork there is no connection manager; the parent's goes on.
static void fork_late(void)
{
	struct rdma_cm_id *id, *child;
	struct rdma_cm_event *e;
	int status;
	listens();
	pid_t pid = fork();
	if (!pid) {
		FAILS(rdma_get_cm_event(passive, &e), EIO);
		FAILS(rdma_create_id(passive, &id, NULL, RDMA_PS_TCP), EIO);
		FAILS(rdma_listen(listener, 1), EIO);
		CHECK(!rdma_create_event_channel() && errno == EIO);
		FAILS(rdma_destroy_id(listener), EIO);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	connected(&child);
}

// ports writes those that the system chooses for a process that was forked before it had a device.
static void ports(int to)
{
	in_port_t chosen[4];
	struct rdma_cm_id *id;
	CHECK((active = rdma_create_event_channel()));
	for (int i = 0; i < 4; i++) {
		CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP) && !rdma_bind_addr(id, at("127.0.0.1", 0)));
		chosen[i] = rdma_get_src_port(id);
	}
	CHECK(write(to, chosen, sizeof chosen) == sizeof chosen);
	exit(0);
}

// What one process draws at random is not what its sister draws.
static void fork_early(void)
{
	in_port_t chosen[2][4];
	int to[2], status;
	CHECK(!pipe(to));
	for (int i = 0; i < 2; i++) { // one after the other: they have the same address
		pid_t pid = fork();
		if (!pid)
			ports(to[1]);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		CHECK(read(to[0], chosen[i], sizeof *chosen) == sizeof *chosen);
	}
	CHECK(memcmp(chosen[0], chosen[1], sizeof *chosen));
}

// child_ended ends the program if its child, which has said why, did not end well.
static void child_ended(int sig, siginfo_t *of, void *context)
{
	if (of->si_code != CLD_EXITED || of->si_status)
		_exit(1);
}

// Who ends without closing has told its peers. If either process fails the other waits for nothing.
static void exits(void)
{
	struct sigaction action = {.sa_sigaction = child_ended, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	int to[2], status;
	in_port_t port;
	CHECK(!pipe(to) && !sigaction(SIGCHLD, &action, NULL));
	pid_t pid = fork();
	if (!pid) {
		CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL) && !close(to[1]));
		setenv("GOROCE_DEVICES", "udp:127.0.0.2", 1);
		CHECK(read(to[0], &port, sizeof port) == sizeof port && (active = rdma_create_event_channel()));
		struct rdma_cm_id *id = resolved(at("127.0.0.1", ntohs(port)));
		CHECK(!rdma_connect(id, NULL));
		expect(active, RDMA_CM_EVENT_ESTABLISHED);
		exit(0);
	}
	listens();
	port = rdma_get_src_port(listener);
	CHECK(write(to[1], &port, sizeof port) == sizeof port);
	struct rdma_cm_event *e = takes(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	queue_pair(e->id);
	CHECK(!rdma_accept(e->id, NULL) && !rdma_ack_cm_event(e));
	expect(passive, RDMA_CM_EVENT_ESTABLISHED);
	expect(passive, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *wait_event(void *ch)
{
	struct rdma_cm_event *e;
	rdma_get_cm_event(ch, &e);
	return NULL;
}

// A thread that waits for an event is cancelled, as programs end their threads.
static void cancelled(void)
{
	struct rdma_cm_id *child;
	pthread_t thread;
	void *result;
	listens();
	CHECK(!pthread_create(&thread, NULL, wait_event, passive) && !pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	connected(&child);
}

// A channel is destroyed under a thread that waits, which sleeps on, as with rdma-core.
static void destroyed(void)
{
	pthread_t thread;
	void *result;
	CHECK((passive = rdma_create_event_channel()));
	CHECK(!pthread_create(&thread, NULL, wait_event, passive));
	usleep(1000); // mostly it waits by then, and if not it may as well
	rdma_destroy_event_channel(passive);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
}

static void ends_all(int sig)
{
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(passive);
}

// reads says whether the process' first thread reads a descriptor.
static bool reads(int fd)
{
	int call = -1, first = -1;
	char file[64];
	snprintf(file, sizeof file, "/proc/self/task/%d/syscall", getpid());
	FILE *f = fopen(file, "r");
	CHECK(f);
	bool so = fscanf(f, "%d 0x%x", &call, &first) == 2 && call == SYS_read && first == fd;
	fclose(f);
	return so;
}

static void *ask_to_end(void *thread)
{
	while (!reads(passive->fd))
		sched_yield();
	CHECK(!pthread_kill(*(pthread_t *)thread, SIGUSR1));
	return NULL;
}

// A signal's handler ends all under the wait that it has interrupted, which then ends, too.
static void told_to_end(void)
{
	struct sigaction action = {.sa_handler = ends_all, .sa_flags = SA_RESTART};
	struct rdma_cm_event *e;
	pthread_t self = pthread_self(), other;
	listens();
	CHECK(!sigaction(SIGUSR1, &action, NULL) && !pthread_create(&other, NULL, ask_to_end, &self));
	FAILS(rdma_get_cm_event(passive, &e), EBADF);
	CHECK(!pthread_join(other, NULL));
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
	struct sigaction action = {.sa_handler = ignore};
	struct rdma_cm_event *e;
	pthread_t self = pthread_self(), other;
	listens();
	CHECK(!sigaction(SIGUSR1, &action, NULL) && !pthread_create(&other, NULL, kick, &self));
	FAILS(rdma_get_cm_event(passive, &e), EINTR);
	returned = 1;
	CHECK(!pthread_join(other, NULL));
}

// A program that does not want to wait does not; one with edge-triggered epoll takes one event an
// edge.
static void edges(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct rdma_cm_event *e;
	int poll = epoll_create1(0);
	listens();
	CHECK(!fcntl(passive->fd, F_SETFL, fcntl(passive->fd, F_GETFL) | O_NONBLOCK));
	FAILS(rdma_get_cm_event(passive, &e), EAGAIN);
	CHECK(poll >= 0 && !epoll_ctl(poll, EPOLL_CTL_ADD, passive->fd, &event));
	for (int i = 0; i < 3; i++) {
		asks();
		CHECK(epoll_wait(poll, &event, 1, -1) == 1);
		if (i > 0)
			expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	}
	expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	FAILS(rdma_get_cm_event(passive, &e), EAGAIN);
	CHECK(epoll_wait(poll, &event, 1, 0) == 0);
}

static volatile bool acknowledged;

static void *destroys(void *id)
{
	CHECK(!rdma_destroy_id(id) && acknowledged);
	return NULL;
}

// An ID is destroyed while somebody has an event of it: that waits for the acknowledgement.
static void unacknowledged(void)
{
	struct rdma_cm_id *id;
	pthread_t thread;
	listens();
	CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP) && !rdma_resolve_addr(id, NULL, at("127.0.0.1", 7), 1000));
	struct rdma_cm_event *e = takes(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!pthread_create(&thread, NULL, destroys, id));
	usleep(1000); // mostly it waits by then
	CHECK(e->id == id && id->channel == active);
	acknowledged = true;
	CHECK(!rdma_ack_cm_event(e) && !pthread_join(thread, NULL));
	asks(); // nobody takes the request before its listener ends
	CHECK(!rdma_destroy_id(listener));
	expect(active, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active); // with an ID on it
}

static void *acks(void *first)
{
	struct rdma_cm_event *e = takes(passive, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_ack_cm_event(e) && !rdma_ack_cm_event(first));
	return NULL;
}

// An ID gets another channel while somebody has an event of it, and there more events come.
static void migrated(void)
{
	pthread_t thread;
	CHECK((passive = rdma_create_event_channel()) && (active = rdma_create_event_channel()));
	for (int i = 0; i < 200; i++) {
		struct rdma_cm_id *id;
		CHECK(!rdma_create_id(active, &id, NULL, RDMA_PS_TCP) && !rdma_resolve_addr(id, NULL, at("127.0.0.1", 7), 1000));
		struct rdma_cm_event *e = takes(active, RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!rdma_resolve_route(id, 1000) && !pthread_create(&thread, NULL, acks, e));
		CHECK(!rdma_migrate_id(id, passive) && !pthread_join(thread, NULL) && !rdma_destroy_id(id));
	}
}

static volatile bool dry;

// rains asks the listener's port again and again, and waits for no answer.
static void *rains(void *to)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	while (!dry) {
		struct rdma_cm_id *id;
		CHECK(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) && !rdma_resolve_addr(id, NULL, to, 1000));
		expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!rdma_resolve_route(id, 1000));
		expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
		CHECK(!rdma_connect(id, &(struct rdma_conn_param){.qp_num = 7}) && !rdma_destroy_id(id));
	}
	return NULL;
}

// Channels are destroyed with listeners on them while requests come.
static void rained_on(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7471), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr *addr = (struct sockaddr *)&to;
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, rains, addr));
	for (int i = 0; i < 60; i++) {
		CHECK((passive = rdma_create_event_channel()) && !rdma_create_id(passive, &listener, NULL, RDMA_PS_TCP));
		CHECK(!rdma_bind_addr(listener, addr) && !rdma_listen(listener, 0));
		for (struct pollfd asked = {passive->fd, POLLIN}; poll(&asked, 1, -1) != 1;)
			;
		char file[32], what[32] = "";
		snprintf(file, sizeof file, "/proc/self/fd/%d", passive->fd);
		rdma_destroy_event_channel(passive);
		CHECK((readlink(file, what, sizeof what - 1), !strstr(what, "eventfd")) && !rdma_destroy_id(listener));
	}
	dry = true;
	CHECK(!pthread_join(thread, NULL));
}

static __thread bool rich;
static volatile bool poor;

// calloc has no memory for the library in threads that are not the program's, if that is to be.
void *calloc(size_t n, size_t size)
{
	extern void *__libc_calloc(size_t, size_t);
	Dl_info from;
	if (poor && !rich && dladdr(__builtin_return_address(0), &from) && strstr(from.dli_fname, "librdmacm"))
		return NULL;
	return __libc_calloc(n, size);
}

// A request for whose ID there is no memory is refused, and its listener's end waits for nothing.
static void no_memory(void)
{
	struct rdma_cm_event *e;
	listens();
	rich = poor = true;
	asks();
	CHECK(!fcntl(passive->fd, F_SETFL, O_NONBLOCK) && !fcntl(active->fd, F_SETFL, O_NONBLOCK));
	while (rdma_get_cm_event(active, &e))
		FAILS(rdma_get_cm_event(passive, &e), EAGAIN);
	CHECK(e->event == RDMA_CM_EVENT_REJECTED && !rdma_destroy_id(listener));
}

static void ends_here(int sig) { exit(0); }

static void stays_here(int sig)
{
	for (;;)
		pause();
}

// polls polls, which is mostly in Go.
static void *polls(void *cq)
{
	struct ibv_wc wc;
	for (;;)
		CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	return NULL;
}

static struct ibv_cq *polled(int sig, void (*handler)(int))
{
	listens();
	CHECK(signal(sig, handler) != SIG_ERR);
	struct ibv_cq *cq = ibv_create_cq(resolved(&listener->route.addr.src_addr)->verbs, 4, NULL, NULL, 0);
	CHECK(cq);
	return cq;
}

// The process ends in a signal's handler, whatever that has interrupted.
static void ends_in_handler(void)
{
	struct ibv_cq *cq = polled(SIGALRM, ends_here);
	CHECK(!setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 20000}, NULL));
	polls(cq);
}

// The process ends while another thread has stopped at some place, for good.
static void ends_beside(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, polls, polled(SIGUSR1, stays_here)));
	usleep(10000); // mostly it polls by then
	CHECK(!pthread_kill(thread, SIGUSR1));
	usleep(10000);
}

enum { TAKERS = 3, CONNECTIONS = 24 };

static int established;

// A taker answers requests until all connections are there.
static void *taker(void *unused)
{
	struct rdma_cm_event *e;
	while (__atomic_load_n(&established, __ATOMIC_SEQ_CST) < CONNECTIONS && !rdma_get_cm_event(passive, &e)) {
		CHECK(e->id->context == &listener);
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			queue_pair(e->id);
			CHECK(!rdma_accept(e->id, NULL));
		} else if (e->event == RDMA_CM_EVENT_ESTABLISHED)
			__atomic_add_fetch(&established, 1, __ATOMIC_SEQ_CST);
		CHECK(!rdma_ack_cm_event(e));
	}
	return NULL;
}

// Several threads take events of a channel.
static void threads(void)
{
	pthread_t all[TAKERS];
	listens();
	for (int i = 0; i < TAKERS; i++)
		CHECK(!pthread_create(&all[i], NULL, taker, NULL));
	for (int i = 0; i < CONNECTIONS; i++) {
		asks();
		expect(active, RDMA_CM_EVENT_ESTABLISHED);
	}
	while (__atomic_load_n(&established, __ATOMIC_SEQ_CST) < CONNECTIONS)
		usleep(1000);
	for (int i = 0; i < TAKERS; i++)
		CHECK((pthread_cancel(all[i]), !pthread_join(all[i], NULL)));
}

static const struct {
	const char *name;
	void (*play)(void);
} hazards[] = {
	{"whole", whole},         {"nonsense", nonsense},   {"synchronous", synchronous}, {"fork-late", fork_late},
	{"exits", exits},         {"cancelled", cancelled}, {"destroyed", destroyed},     {"interrupted", interrupted},
	{"edges", edges},         {"threads", threads},     {"unacknowledged", unacknowledged},
	{"no-queue-pair", no_queue_pair}, {"no-context", no_context},       {"other-rows", other_rows},
	{"told-to-end", told_to_end},     {"no-memory", no_memory},         {"off-loopback", off_loopback},
	{"loopback-in-use", loopback_in_use}, {"unnamed", unnamed},
	{"no-srq", no_srq},       {"migrated", migrated},   {"rained-on", rained_on},
	{"ends-in-handler", ends_in_handler}, {"ends-beside", ends_beside},
	{"fork-early", fork_early},
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
