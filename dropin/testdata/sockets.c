// What a program may ask of sockets, and what the answers are. Each story is a program of its own,
// named by its argument; it exits with 0 if all is as it should be. Both ends are in one process, on
// 127.0.0.1. The story "errors" needs no device and asks what rdma-core's own library answers too.
//
// Stages: two ends; the stories; main.
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOREVER = 60000 }; // ms, for what comes before

static struct sockaddr_in here(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int listener;
static struct sockaddr_in at;

static void listen_here(void)
{
	struct sockaddr_in any = here(0);
	socklen_t length = sizeof at;
	CHECK((listener = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!rbind(listener, (struct sockaddr *)&any, sizeof any) && !rlisten(listener, 5) && !rlisten(listener, 5));
	CHECK(!rgetsockname(listener, (struct sockaddr *)&at, &length) && length == sizeof at && at.sin_port);
}

// polls is what rpoll says of one descriptor.
static short polls(int fd, short events, int timeout)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n = rpoll(&p, 1, timeout);
	CHECK(n >= 0 && n == (p.revents != 0));
	return p.revents;
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof value;
	CHECK(!rgetsockopt(fd, level, name, &value, &length) && length == sizeof value);
	return value;
}

// connected connects two ends, by calls that do not block.
static void connected(int *a, int *b)
{
	struct sockaddr_in from;
	socklen_t length = sizeof from;
	if (!listener)
		listen_here();
	CHECK((*a = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP)) >= 0 && !rfcntl(*a, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(*a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(polls(listener, POLLIN, FOREVER) == POLLIN);
	CHECK((*b = raccept(listener, (struct sockaddr *)&from, &length)) >= 0 && from.sin_family == AF_INET);
	CHECK(polls(*a, POLLOUT, FOREVER) == POLLOUT && option(*a, SOL_SOCKET, SO_ERROR) == 0);
	CHECK(!rfcntl(*a, F_SETFL, 0) && rfcntl(*b, F_GETFL) == 0);
}

// A connection, in steps that do not block; its addresses.
static void connects(void)
{
	int a, b;
	struct sockaddr_in x, y;
	socklen_t n = sizeof x, m = sizeof y;
	connected(&a, &b);
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EISCONN);
	CHECK(!rgetpeername(a, (struct sockaddr *)&x, &n) && !memcmp(&x, &at, 8));
	CHECK(!rgetsockname(a, (struct sockaddr *)&x, &n) && !rgetpeername(b, (struct sockaddr *)&y, &m) && !memcmp(&x, &y, 8));
	n = 2;
	CHECK(!rgetsockname(a, (struct sockaddr *)&y, &n) && n == sizeof x);
	CHECK(option(a, IPPROTO_TCP, TCP_MAXSEG) >= 256);
	FAILS(rsetsockopt(a, SOL_RDMA, RDMA_SQSIZE, &n, sizeof n), EINVAL);
	CHECK(rsend(a, "words", 5, 0) == 5 && polls(b, POLLIN, FOREVER) == POLLIN);
	char got[8] = {0};
	CHECK(rrecv(b, got, 8, 0) == 5 && !strcmp(got, "words"));
	CHECK(!rclose(a) && !rclose(b) && !rclose(listener));
}

// Nobody listens there.
static void refused(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	char byte;
	struct sockaddr_in nobody = here(1);
	listen_here();
	FAILS(rconnect(fd, (struct sockaddr *)&nobody, sizeof nobody), ECONNREFUSED);
	CHECK(!rclose(fd) && (fd = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rfcntl(fd, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(fd, (struct sockaddr *)&nobody, sizeof nobody), EINPROGRESS);
	CHECK(polls(fd, POLLOUT, FOREVER) == (POLLOUT | POLLERR));
	CHECK(option(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED && option(fd, SOL_SOCKET, SO_ERROR) == 0);
	FAILS(rsend(fd, "x", 1, 0), ENOTCONN);
	FAILS(rrecv(fd, &byte, 1, 0), ENOTCONN);
	FAILS(rconnect(fd, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(polls(listener, POLLIN, FOREVER) == POLLIN && polls(fd, POLLOUT, FOREVER) == POLLOUT);
	CHECK(rsend(fd, "x", 1, 0) == 1 && !rclose(fd));
}

// A connection is made before the listener's program accepts it, which may be the same thread.
static void alone(void)
{
	int a, b;
	char byte;
	listen_here();
	CHECK((a = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rconnect(a, (struct sockaddr *)&at, sizeof at));
	CHECK(rsend(a, "x", 1, 0) == 1 && (b = raccept(listener, NULL, NULL)) >= 0 && rrecv(b, &byte, 1, 0) == 1);
}

// Looking, in pieces, all of it, and not waiting.
static void receives(void)
{
	int a, b;
	char got[32] = {0}, more[8] = {0};
	connected(&a, &b);
	FAILS(rrecv(b, got, 8, MSG_DONTWAIT), EAGAIN);
	FAILS(rrecv(b, got, 8, MSG_DONTWAIT | MSG_PEEK), EAGAIN);
	CHECK(polls(b, POLLIN, 0) == 0 && polls(b, POLLIN, 5) == 0);
	CHECK(rwrite(a, "0123456789", 10) == 10);
	CHECK(rrecv(b, got, 4, MSG_PEEK) == 4 && !memcmp(got, "0123", 4));
	CHECK(rread(b, got, 2) == 2 && !memcmp(got, "01", 2));
	struct iovec v[2] = {{got, 3}, {more, 8}};
	CHECK(rreadv(b, v, 2) == 8 && !memcmp(got, "234", 3) && !memcmp(more, "56789", 5));
	struct iovec w[3] = {{"abc", 3}, {NULL, 0}, {"defgh", 5}};
	struct msghdr msg = {.msg_iov = w, .msg_iovlen = 3};
	CHECK(rwritev(a, w, 3) == 8 && rsendmsg(a, &msg, 0) == 8);
	CHECK(rrecv(b, got, 16, MSG_WAITALL) == 16 && !memcmp(got, "abcdefghabcdefgh", 16));
	CHECK(rsend(a, "x", 1, 0) == 1 && polls(b, POLLIN, FOREVER) == POLLIN);
	CHECK(rrecv(b, got, 9, MSG_WAITALL | MSG_DONTWAIT) == 1);
	msg.msg_control = got;
	msg.msg_controllen = 1;
	FAILS(rsendmsg(a, &msg, 0), ENOTSUP);
	FAILS(rrecvmsg(a, &msg, 0), ENOTSUP);
	FAILS(rrecv(b, NULL, 4, 0), EFAULT);
	FAILS(rsend(b, NULL, 4, 0), EFAULT);
	FAILS(rsendto(a, "x", 1, 0, (struct sockaddr *)&at, sizeof at), EISCONN);
	CHECK(rsend(a, "", 0, 0) == 0);
}

// Half of a connection, and both.
static void halves(void)
{
	int a, b;
	char byte;
	connected(&a, &b);
	CHECK(rsend(a, "x", 1, 0) == 1 && !rshutdown(a, SHUT_WR));
	FAILS(rsend(a, "x", 1, 0), ECONNRESET);
	CHECK(polls(b, POLLRDHUP, FOREVER) == POLLRDHUP);
	CHECK(rrecv(b, &byte, 1, 0) == 1 && rrecv(b, &byte, 1, 0) == 0 && rrecv(b, &byte, 1, MSG_DONTWAIT) == 0);
	CHECK(polls(b, POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
	CHECK(rsend(b, "y", 1, 0) == 1 && !rshutdown(b, SHUT_WR));
	CHECK(polls(a, 0, FOREVER) == POLLHUP && polls(a, POLLIN, 0) == POLLIN && rrecv(a, &byte, 1, 0) == 1 && byte == 'y');
	CHECK(polls(a, POLLIN, 0) == (POLLIN | POLLHUP) && rrecv(a, &byte, 1, 0) == 0);
	FAILS(rshutdown(a, 7), EINVAL);
	CHECK(!rclose(a) && !rclose(b));
	connected(&a, &b);
	CHECK(!rclose(a) && polls(b, POLLIN, FOREVER) == (POLLIN | POLLHUP) && rrecv(b, &byte, 1, 0) == 0);
	FAILS(rsend(b, "x", 1, 0), ECONNRESET);
}

static int fill(int a)
{
	static char memory[1 << 16];
	int sum = 0;
	for (;;) {
		ssize_t n = rsend(a, memory, sizeof memory, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && !polls(a, POLLOUT, 200)) // nothing becomes free any more
			return sum;
		CHECK(n > 0 || errno == EAGAIN);
		sum += n > 0 ? n : 0;
	}
}

static int reader;
static void *reads_all(void *sum)
{
	static char memory[1 << 16];
	for (long left = *(int *)sum; left > 0;) {
		ssize_t n = rrecv(reader, memory, sizeof memory, 0);
		CHECK(n > 0);
		left -= n;
	}
	return NULL;
}

// A sender that blocks goes on when the other end reads.
static void full(void)
{
	static char large[4 << 20];
	int a, b, sum;
	pthread_t thread;
	connected(&a, &b);
	sum = fill(a) + sizeof large;
	CHECK(sum > (int)sizeof large && polls(a, POLLIN | POLLOUT, 0) == 0);
	reader = b;
	CHECK(!pthread_create(&thread, NULL, reads_all, &sum));
	CHECK(rsend(a, large, sizeof large, 0) == sizeof large && !pthread_join(thread, NULL));
}

// Sockets, other descriptors, bad ones and none, in one poll and one select.
static void mixed(void)
{
	int a, b, pipes[2], fresh = rsocket(AF_INET, SOCK_STREAM, 0);
	connected(&a, &b);
	CHECK(!pipe(pipes));
	struct pollfd p[] = {{a, POLLIN}, {pipes[0], POLLIN}, {-1, POLLIN}, {b, POLLIN}, {listener, POLLIN}, {fresh, POLLIN | POLLOUT}};
	CHECK(rpoll(p, 6, 0) == 0 && rpoll(p, 6, 5) == 0 && rpoll(NULL, 0, 1) == 0);
	CHECK(write(pipes[1], "x", 1) == 1 && rpoll(p, 6, FOREVER) == 1 && p[1].revents == POLLIN && !p[0].revents);
	CHECK(rsend(a, "x", 1, 0) == 1 && polls(b, POLLIN, FOREVER) == POLLIN && rpoll(p, 6, FOREVER) == 2 && p[3].revents == POLLIN);
	char byte;
	CHECK(read(pipes[0], &byte, 1) == 1 && rpoll(p, 6, FOREVER) == 1 && p[3].revents == POLLIN && rrecv(b, &byte, 1, 0) == 1);
	struct pollfd bad[] = {{99999, POLLIN}, {a, POLLOUT}};
	CHECK(rpoll(bad, 2, FOREVER) == 2 && bad[0].revents == POLLNVAL && bad[1].revents == POLLOUT);
	fd_set r, w;
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(a, &r);
	FD_SET(pipes[0], &r);
	FD_SET(a, &w);
	CHECK(rselect(a > pipes[0] ? a + 1 : pipes[0] + 1, &r, &w, NULL, NULL) == 1 && FD_ISSET(a, &w) && !FD_ISSET(a, &r));
	struct timeval soon = {.tv_usec = 1};
	FD_SET(b, &r);
	CHECK(rselect(b + 1, &r, NULL, NULL, &soon) == 0 && !FD_ISSET(b, &r));
	struct timeval before = {.tv_sec = -1};
	FAILS(rselect(0, NULL, NULL, NULL, &before), EINVAL);
}

static void *sleeps(void *how)
{
	char byte;
	intptr_t n = how ? raccept(reader, NULL, NULL) : rrecv(reader, &byte, 1, 0);
	return (void *)(n < 0 ? (intptr_t)errno : 0);
}

// A socket is closed while a thread waits for it, which is told; and then it is nobody's.
static void closes(void)
{
	int a, b;
	void *no;
	pthread_t thread;
	for (int i = 0; i < 10; i++) {
		connected(&a, &b);
		reader = b;
		CHECK(!pthread_create(&thread, NULL, sleeps, NULL));
		usleep(i * 4000); // in the engine, and asleep
		CHECK(!rclose(b) && !pthread_join(thread, &no) && (intptr_t)no == EBADF);
		char byte;
		FAILS(rrecv(b, &byte, 1, 0), EBADF);
		FAILS(rclose(b), EBADF);
		CHECK(polls(b, POLLIN, 0) == POLLNVAL && !rclose(a));
	}
	reader = listener;
	CHECK(!pthread_create(&thread, NULL, sleeps, &no));
	usleep(20000);
	CHECK(!rclose(listener) && !pthread_join(thread, &no) && (intptr_t)no == EBADF);
}

static void *binds(void *addr)
{
	return (void *)(rbind(reader, addr, sizeof(struct sockaddr_in)) ? (intptr_t)errno : 0);
}

// A socket is closed while its first call loads the engine. Nothing of it stays.
static void early(void)
{
	struct sockaddr_in port = here(7471);
	void *no;
	pthread_t thread;
	CHECK((reader = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !pthread_create(&thread, NULL, binds, &port));
	usleep(2000);
	CHECK(!rclose(reader) && !pthread_join(thread, &no) && ((intptr_t)no == EBADF || !no));
	CHECK((reader = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rbind(reader, (struct sockaddr *)&port, sizeof port));
}

static volatile sig_atomic_t signals, returned;
static void handler(int sig) { signals++; }

static void *kick(void *thread)
{
	for (; !returned; usleep(1000))
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
	return NULL;
}

// Signals end calls that wait, unless they are to go on; polls they always end.
static void interrupted(void)
{
	int a, b;
	char byte;
	pthread_t self = pthread_self(), other;
	struct sigaction action = {.sa_handler = handler};
	connected(&a, &b);
	fill(a);
	CHECK(!sigaction(SIGUSR1, &action, NULL) && !pthread_create(&other, NULL, kick, &self));
	FAILS(rrecv(a, &byte, 1, 0), EINTR);
	FAILS(raccept(listener, NULL, NULL), EINTR);
	struct pollfd p = {a, POLLIN};
	FAILS(rpoll(&p, 1, -1), EINTR);
	FAILS(rsend(a, "x", 1, 0), EINTR);
	returned = 1;
	CHECK(!pthread_join(other, NULL));

	action.sa_flags = SA_RESTART;
	int sum = 1;
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	returned = signals = 0;
	reader = a;
	CHECK(!pthread_create(&other, NULL, reads_all, &sum));
	while (!returned) {
		usleep(1000);
		pthread_kill(other, SIGUSR1);
		if (signals > 50) // it has slept long ago
			returned = rsend(b, "x", 1, 0) == 1;
	}
	CHECK(!pthread_join(other, NULL));
}

// Threads that wait are cancelled, and what they waited for goes on.
static void cancelled(void)
{
	int a, b, one = 1;
	void *result;
	pthread_t thread;
	connected(&a, &b);
	reader = b;
	for (int i = 0; i < 4; i++) {
		CHECK(!pthread_create(&thread, NULL, sleeps, NULL));
		usleep(i * 10000);
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	}
	CHECK(!pthread_create(&thread, NULL, reads_all, &one) && rsend(a, "x", 1, 0) == 1 && !pthread_join(thread, NULL));
	CHECK(!rclose(b) && !rclose(a));
}

// Memory that the other end writes, more often than there is room for at a time.
static void maps(void)
{
	int a, b, one = 1;
	char memory[64] = {0}, byte;
	listen_here();
	CHECK(!rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &one, sizeof one)); // which listens already
	connected(&a, &b);
	CHECK(riowrite(b, "x", 1, 0, 0) == 0 && errno == EINVAL);
	for (int i = 0; i < 3; i++) {
		CHECK(riomap(a, memory, sizeof memory, PROT_WRITE, 0, 1000) == 1000);
		FAILS(riomap(a, memory, 8, PROT_WRITE, 0, 0), ENOMEM);
		CHECK(riomap(a, memory, 8, PROT_NONE, 0, -1) == (off_t)(intptr_t)memory);
		CHECK(rsend(a, "m", 1, 0) == 1 && rrecv(b, &byte, 1, 0) == 1);
		CHECK(riowrite(b, "words", 5, 1002 + i, 0) == 5 && rsend(b, "w", 1, 0) == 1 && rrecv(a, &byte, 1, 0) == 1);
		CHECK(!memcmp(memory + 2 + i, "words", 5));
		FAILS(riounmap(a, memory, 8), EINVAL);
		CHECK(!riounmap(a, memory, sizeof memory));
	}
	FAILS(riomap(a, memory, 8, PROT_EXEC, 0, 0), EINVAL);
	FAILS(riomap(listener, memory, 8, PROT_WRITE, 0, 0), EINVAL);
}

// Datagrams: looked at, cut, from whom, and in poll.
static void datagrams(void)
{
	int a = rsocket(AF_INET, SOCK_DGRAM, 0), b = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	struct sockaddr_in of_a = here(0), of_b = here(0), from;
	socklen_t n = sizeof of_a, m = sizeof from;
	char got[16] = {0};
	CHECK(!rbind(a, (struct sockaddr *)&of_a, sizeof of_a) && !rgetsockname(a, (struct sockaddr *)&of_a, &n));
	CHECK(!rbind(b, (struct sockaddr *)&of_b, sizeof of_b) && !rgetsockname(b, (struct sockaddr *)&of_b, &n) && of_b.sin_port);
	FAILS(rrecv(a, got, 4, MSG_DONTWAIT), EAGAIN);
	FAILS(rsend(a, "x", 1, 0), EDESTADDRREQ);
	FAILS(rgetpeername(a, (struct sockaddr *)&from, &m), ENOTCONN);
	CHECK(polls(a, POLLIN, 0) == 0 && polls(a, POLLIN | POLLOUT, FOREVER) == POLLOUT);
	for (int i = 0; i < 20; i++) { // by way of the kernel, and directly
		CHECK(rsendto(a, "words", 5, 0, (struct sockaddr *)&of_b, sizeof of_b) == 5);
		CHECK(polls(b, POLLIN, FOREVER) == POLLIN && rrecv(b, got, 2, MSG_PEEK) == 2 && polls(b, POLLIN, 0) == POLLIN);
		m = sizeof from;
		CHECK(rrecvfrom(b, got, 3, 0, (struct sockaddr *)&from, &m) == 3 && !memcmp(got, "wor", 3));
		CHECK(m == sizeof from && !memcmp(&from, &of_a, 8) && polls(b, POLLIN, 0) == 0);
	}
	CHECK(!rconnect(b, (struct sockaddr *)&of_a, sizeof of_a) && !rgetpeername(b, (struct sockaddr *)&from, &m));
	CHECK(rsend(b, "back", 4, 0) == 4 && rrecv(a, got, 16, 0) == 4 && !memcmp(got, "back", 4));
	FAILS(rsend(b, malloc(1 << 20), 1 << 20, 0), EMSGSIZE);
	CHECK(!rclose(a) && !rclose(b));
}

// The only datagram to somebody arrives, also if its sender closes or ends at once.
static void last(void)
{
	int b, pipes[2], status;
	struct sockaddr_in any = here(0), of_b;
	socklen_t n = sizeof of_b;
	char byte;
	CHECK(!pipe(pipes));
	pid_t child = fork();
	if (!child) {
		setenv("GOROCE_DEVICES", "udp:127.0.0.2", 1);
		CHECK(read(pipes[0], &of_b, sizeof of_b) == sizeof of_b);
		int a = rsocket(AF_INET, SOCK_DGRAM, 0);
		exit(rsendto(a, "x", 1, 0, (struct sockaddr *)&of_b, sizeof of_b) == 1 ? 0 : 2);
	}
	CHECK((b = rsocket(AF_INET, SOCK_DGRAM, 0)) >= 0 && !rbind(b, (struct sockaddr *)&any, sizeof any));
	CHECK(!rgetsockname(b, (struct sockaddr *)&of_b, &n) && write(pipes[1], &of_b, sizeof of_b) == sizeof of_b);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(polls(b, POLLIN, 2000) == POLLIN && rrecv(b, &byte, 1, 0) == 1);
	int a = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK(rsendto(a, "x", 1, 0, (struct sockaddr *)&of_b, sizeof of_b) == 1 && !rclose(a));
	CHECK(polls(b, POLLIN, 2000) == POLLIN);
}

// fewer leaves the process no descriptor, or gives them back.
static void fewer(bool none)
{
	static struct rlimit before;
	if (none) {
		CHECK(!getrlimit(RLIMIT_NOFILE, &before));
		int unused = dup(2);
		struct rlimit now = {unused, before.rlim_max};
		CHECK(unused >= 0 && !close(unused) && !setrlimit(RLIMIT_NOFILE, &now));
	} else
		CHECK(!setrlimit(RLIMIT_NOFILE, &before));
}

// Where no descriptor is left a connection waits to be accepted, and is not lost; and who waits for
// bytes does so.
static void exhausted(void)
{
	int a, b;
	char byte;
	listen_here();
	CHECK((a = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rfcntl(a, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(polls(listener, POLLIN, FOREVER) == POLLIN);
	fewer(true);
	FAILS(raccept(listener, NULL, NULL), EMFILE);
	fewer(false);
	CHECK((b = raccept(listener, NULL, NULL)) >= 0 && polls(a, POLLOUT, FOREVER) == POLLOUT);
	CHECK(rsend(a, "x", 1, 0) == 1 && rrecv(b, &byte, 1, 0) == 1);

	void *no;
	pthread_t thread;
	reader = b;
	fewer(true);
	CHECK(polls(b, POLLIN, 15) == 0 && !pthread_create(&thread, NULL, sleeps, NULL));
	usleep(30000);
	CHECK(rsend(a, "x", 1, 0) == 1 && !pthread_join(thread, &no) && !no);
	struct pollfd p[] = {{b, POLLIN}, {a, POLLIN}};
	CHECK(rsend(a, "x", 1, 0) == 1 && rpoll(p, 2, FOREVER) == 1 && p[0].revents == POLLIN);
	fewer(false);
}

// The child of a fork that knew of sockets is told so; one that only had one goes on with it.
static void forks(void)
{
	int a, b, status;
	char byte;
	CHECK((a = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	pid_t child = fork();
	if (!child) {
		struct sockaddr_in any = here(0);
		_exit(!rbind(a, (struct sockaddr *)&any, sizeof any) && !rlisten(a, 1) ? 0 : 2);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	connected(&a, &b);
	if (!(child = fork()))
		_exit(rrecv(b, &byte, 1, 0) == -1 && errno == EIO && rsocket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : 2);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(rsend(a, "x", 1, 0) == 1 && rrecv(b, &byte, 1, 0) == 1);
}

// What needs no device. Each line is what rdma-core's librdmacm answers as well.
static void errors(void)
{
	int d, value = 1, bad = 12345;
	char byte[8];
	socklen_t n = sizeof value, m = sizeof byte;
	struct linger linger;
	static const struct { int domain, type, protocol; } none[] = {
		{AF_UNIX, SOCK_STREAM, 0}, {AF_INET, SOCK_RAW, 0}, {AF_INET, SOCK_STREAM, IPPROTO_UDP}, {AF_INET, SOCK_DGRAM, IPPROTO_TCP},
		{AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0}, {AF_INET6, SOCK_SEQPACKET, 0},
	};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		FAILS(rsocket(none[i].domain, none[i].type, none[i].protocol), ENOTSUP);
	struct sockaddr_in any = here(0);
	FAILS(rbind(bad, (struct sockaddr *)&any, sizeof any), EBADF);
	FAILS(rlisten(bad, 1), EBADF);
	FAILS(raccept(bad, NULL, NULL), EBADF);
	FAILS(rconnect(bad, (struct sockaddr *)&any, sizeof any), EBADF);
	FAILS(rshutdown(bad, SHUT_RDWR), EBADF);
	FAILS(rgetpeername(bad, (struct sockaddr *)byte, &m), EBADF);
	FAILS(rgetsockname(bad, (struct sockaddr *)byte, &m), EBADF);
	FAILS(rsetsockopt(bad, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value), EBADF);
	FAILS(rgetsockopt(bad, SOL_SOCKET, SO_REUSEADDR, &value, &n), EBADF);
	FAILS(rfcntl(bad, F_GETFL), EBADF);
	CHECK(polls(bad, POLLIN, 0) == POLLNVAL);
	CHECK((d = rsocket(AF_INET, SOCK_DGRAM, 0)) >= 0 && fcntl(d, F_GETFD) >= 0);
	static const struct { int level, name, is; } values[] = {
		{SOL_SOCKET, SO_REUSEADDR, 0}, {SOL_SOCKET, SO_KEEPALIVE, 0}, {SOL_SOCKET, SO_OOBINLINE, 0}, {SOL_SOCKET, SO_ERROR, 0},
		{IPPROTO_TCP, TCP_NODELAY, 0}, {IPPROTO_TCP, TCP_MAXSEG, 2048}, {IPPROTO_TCP, TCP_KEEPIDLE, 0}, {IPPROTO_IPV6, IPV6_V6ONLY, 0},
		{SOL_RDMA, RDMA_SQSIZE, 384}, {SOL_RDMA, RDMA_RQSIZE, 384}, {SOL_RDMA, RDMA_INLINE, 64}, {SOL_RDMA, RDMA_IOMAPSIZE, 0},
	};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		CHECK(option(d, values[i].level, values[i].name) == values[i].is);
	n = sizeof linger;
	CHECK(!rgetsockopt(d, SOL_SOCKET, SO_LINGER, &linger, &n) && linger.l_onoff == 1 && linger.l_linger == 0);
	FAILS(rgetsockopt(d, SOL_SOCKET, SO_BROADCAST, &value, &n), ENOTSUP);
	FAILS(rgetsockopt(d, IPPROTO_TCP, TCP_CORK, &value, &n), ENOTSUP);
	FAILS(rgetsockopt(d, SOL_RDMA, 99, &value, &n), ENOTSUP);
	FAILS(rgetsockopt(d, 77, 1, &value, &n), ENOTSUP);
	FAILS(rsetsockopt(d, SOL_RDMA, 99, &value, sizeof value), ENOTSUP);
	FAILS(rsetsockopt(d, 77, 1, &value, sizeof value), ENOPROTOOPT);
	value = 1000;
	CHECK(!rsetsockopt(d, SOL_RDMA, RDMA_SQSIZE, &value, sizeof value) && option(d, SOL_RDMA, RDMA_SQSIZE) == 1000);
	value = 1 << 20;
	CHECK(!rsetsockopt(d, SOL_RDMA, RDMA_RQSIZE, &value, sizeof value) && option(d, SOL_RDMA, RDMA_RQSIZE) == 0xfffe);
	value = 10000;
	CHECK(!rsetsockopt(d, SOL_SOCKET, SO_SNDBUF, &value, sizeof value) && option(d, SOL_SOCKET, SO_SNDBUF) == 20000);
	value = 100;
	CHECK(!rsetsockopt(d, SOL_SOCKET, SO_SNDBUF, &value, sizeof value) && option(d, SOL_SOCKET, SO_SNDBUF) == 4096);
	value = 1;
	CHECK(!rsetsockopt(d, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value) && option(d, SOL_SOCKET, SO_REUSEADDR) == 1);
	CHECK(rfcntl(d, F_GETFL) == 0 && !rfcntl(d, F_SETFL, O_NONBLOCK) && rfcntl(d, F_GETFL) == O_NONBLOCK);
	FAILS(rfcntl(d, F_SETFD, 1), ENOTSUP);
}

static const struct {
	const char *name;
	void (*play)(void);
} stories[] = {
	{"connects", connects}, {"refused", refused}, {"alone", alone}, {"receives", receives}, {"halves", halves}, {"full", full}, {"mixed", mixed},
	{"closes", closes}, {"early", early}, {"interrupted", interrupted}, {"cancelled", cancelled}, {"maps", maps}, {"datagrams", datagrams}, {"last", last}, {"exhausted", exhausted},
	{"forks", forks}, {"errors", errors},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof stories / sizeof *stories; i++)
		if (argc == 2 && !strcmp(argv[1], stories[i].name)) {
			stories[i].play();
			return 0;
		} else if (argc == 1)
			puts(stories[i].name);
	return argc == 1 ? 0 : 2;
}
