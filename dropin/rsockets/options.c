// What can be set of a socket. A program may set it before there is anything else of the socket, so
// it is kept here, and the engine is told. Defaults are those of rdma-core's files below
// /etc/rdma/rsocket, where there are any.
//
// Stages: the table; defaults; the engine's view; setting and telling; rfcntl.
#include "rsockets.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// How a value is kept, of those that are an int.
enum kind {
	AS_IS,
	FLAG,      // 1 if it is not 0
	DOUBLED,   // bytes: as much again is for what is not bytes of the program's
	POSITIVE,  // EINVAL otherwise
	SIZE,      // up to what a queue has at most; EINVAL once the socket connects
	ALWAYS_ONE // has no meaning here
};

static const struct option {
	int level, name;
	enum kind kind;
	size_t at;
	const char *file; // of the default
} table[] = {
#define AT(member) offsetof(struct settings, member)
	{SOL_SOCKET, SO_REUSEADDR, FLAG, AT(reuse_addr)},
	{SOL_SOCKET, SO_KEEPALIVE, FLAG, AT(keepalive)},
	{SOL_SOCKET, SO_OOBINLINE, FLAG, AT(oob_inline)},
	{SOL_SOCKET, SO_RCVBUF, DOUBLED, AT(receive_buffer), "mem_default"},
	{SOL_SOCKET, SO_SNDBUF, DOUBLED, AT(send_buffer), "wmem_default"},
	{IPPROTO_TCP, TCP_NODELAY, FLAG, AT(no_delay)},
	{IPPROTO_TCP, TCP_MAXSEG, AS_IS, AT(max_segment)},
	{IPPROTO_TCP, TCP_KEEPIDLE, POSITIVE, AT(keep_idle)},
	{IPPROTO_TCP, TCP_KEEPINTVL, ALWAYS_ONE},
	{IPPROTO_TCP, TCP_KEEPCNT, ALWAYS_ONE},
	{IPPROTO_IPV6, IPV6_V6ONLY, FLAG, AT(v6only)},
	{SOL_RDMA, RDMA_SQSIZE, SIZE, AT(sq_size), "sqsize_default"},
	{SOL_RDMA, RDMA_RQSIZE, SIZE, AT(rq_size), "rqsize_default"},
	{SOL_RDMA, RDMA_INLINE, SIZE, AT(inline_size), "inline_default"},
	{SOL_RDMA, RDMA_IOMAPSIZE, SIZE, AT(iomap_size), "iomap_size"},
};

enum { OPTIONS = sizeof table / sizeof *table, MAX_QUEUE = 65534, MAX_MAPS = 128 };
enum { BUFFER = 256 << 10, QUEUE = 384, INLINE = 64, MIN_BUFFER = 4096, MIN_QUEUE = 16, MAX_BUFFER = 1 << 30 };

static const struct option *find(int level, int name)
{
	for (int i = 0; i < OPTIONS; i++)
		if (table[i].level == level && table[i].name == name)
			return &table[i];
	return NULL;
}

static int *value_of(const struct settings *set, const struct option *o) { return (int *)((char *)set + o->at); }

static struct settings defaults;

static void read_defaults(void)
{
	defaults = (struct settings){.receive_buffer = BUFFER, .send_buffer = BUFFER, .linger.l_onoff = 1,
		.sq_size = QUEUE, .rq_size = QUEUE, .inline_size = INLINE};
	for (int i = 0; i < OPTIONS; i++) {
		char path[PATH_MAX];
		int value;
		if (!table[i].file)
			continue;
		snprintf(path, sizeof path, "/etc/rdma/rsocket/%s", table[i].file);
		FILE *f = fopen(path, "re");
		if (f && fscanf(f, "%d", &value) == 1 && value >= 0)
			*value_of(&defaults, &table[i]) = value;
		if (f)
			fclose(f);
	}
}

void settings_init(struct settings *set)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_defaults);
	*set = defaults;
}

static int within(int value, int least, int most) { return value < least ? least : value > most ? most : value; }

struct goroce_rs_options options_of(const struct rsocket *rs)
{
	const struct settings *set = &rs->set;
	return (struct goroce_rs_options){
		.send_buffer = within(set->send_buffer, MIN_BUFFER, MAX_BUFFER),
		.receive_buffer = within(set->receive_buffer, MIN_BUFFER, MAX_BUFFER),
		.depth = within(set->sq_size > set->rq_size ? set->sq_size : set->rq_size, MIN_QUEUE, MAX_QUEUE),
		.maps = within(set->iomap_size, 0, MAX_MAPS),
		.keepalive = set->keepalive ? set->keep_idle : 0,
		.linger = set->lingers ? set->linger.l_linger : -1,
		.reuse_addr = set->reuse_addr,
		.v6only = set->v6only,
	};
}

// udp_takes asks the kernel whether a datagram socket takes an option that has no meaning here.
static int udp_takes(const struct rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	int udp = syscall(SYS_socket, rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0); // past librspreload
	int err = udp < 0 || syscall(SYS_setsockopt, udp, level, name, value, length) ? errno : 0;
	if (udp >= 0)
		syscall(SYS_close, udp);
	return err;
}

// set has the lock.
static int set(struct rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	const struct option *o = find(level, name);
	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (length < sizeof(struct linger))
			return EINVAL;
		rs->set.linger = *(const struct linger *)value;
		rs->set.lingers = rs->set.linger.l_onoff && rs->set.linger.l_linger >= 0;
		return 0;
	}
	if (level == SOL_RDMA && name == RDMA_ROUTE) {
		void *route = malloc(length ? length : 1);
		if (!route)
			return ENOMEM;
		free(rs->set.route);
		rs->set.route = memcpy(route, value, length);
		rs->set.route_length = length;
		return 0;
	}
	if (!o)
		return ENOTSUP;
	if (length < sizeof(int))
		return EINVAL;
	int n = *(const int *)value, *to = value_of(&rs->set, o);
	switch (o->kind) {
	case ALWAYS_ONE:
		return 0;
	case FLAG:
		*to = n != 0;
		return 0;
	case DOUBLED:
		*to = n < MAX_BUFFER / 2 ? 2 * (n > 0 ? n : 0) : MAX_BUFFER;
		if (name == SO_SNDBUF && *to < MIN_BUFFER)
			*to = MIN_BUFFER;
		return 0;
	case POSITIVE:
		if (n <= 0)
			return EINVAL;
		*to = n;
		return 0;
	case SIZE:
		*to = within(n, 0, MAX_QUEUE);
		return 0;
	default:
		*to = n;
		return 0;
	}
}

int rsetsockopt(int number, int level, int name, const void *value, socklen_t length)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	int err = value || !length ? 0 : EFAULT;
	pthread_mutex_lock(&rs->opening);
	bool connects = rs->type == SOCK_STREAM && rs->handle && !rs->listens &&
	                ENGINE(rs_connected, rs->handle, 0) != ENOTCONN;
	if (!err && level == SOL_RDMA && connects)
		err = EINVAL;
	if (!err && rs->type == SOCK_DGRAM && level != SOL_RDMA)
		err = udp_takes(rs, level, name, value, length);
	if (!err) {
		err = set(rs, level, name, value, length);
		if (err == ENOTSUP && rs->type == SOCK_DGRAM && level != SOL_RDMA)
			err = 0; // it is the kernel's
	}
	if (!err && rs->handle) {
		struct goroce_rs_options options = options_of(rs);
		err = ENGINE(rs_configure, rs->handle, &options);
	}
	pthread_mutex_unlock(&rs->opening);
	leave(rs);
	return result(err);
}

// status is what the engine knows, or else the value that is there already.
static void status(struct rsocket *rs, int what, int *value)
{
	int now;
	if (rs->handle && !ENGINE(rs_status, rs->handle, what, &now) && (what == GOROCE_RS_ERROR || now))
		*value = now;
}

static int tell(struct rsocket *rs, int level, int name, void *value, socklen_t *length)
{
	enum { SEGMENT = 2048 }; // before there is a connection
	const struct option *o = find(level, name);
	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (*length < sizeof(struct linger))
			return EINVAL;
		*(struct linger *)value = (struct linger){.l_onoff = rs->set.linger.l_onoff != 0, .l_linger = rs->set.linger.l_linger};
		*length = sizeof(struct linger);
		return 0;
	}
	if (level == SOL_RDMA && name == RDMA_ROUTE) {
		if (*length < rs->set.route_length)
			return EINVAL;
		memcpy(value, rs->set.route, rs->set.route_length);
		*length = rs->set.route_length;
		return 0;
	}
	bool error = level == SOL_SOCKET && name == SO_ERROR;
	if (!o && !error)
		return ENOTSUP;
	if (*length < sizeof(int))
		return EINVAL;
	int *to = value;
	*length = sizeof(int);
	*to = error ? 0 : o->kind == ALWAYS_ONE ? 1 : *value_of(&rs->set, o);
	if (error)
		status(rs, GOROCE_RS_ERROR, to);
	else if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
		*to = SEGMENT;
		status(rs, GOROCE_RS_SEGMENT, to);
	}
	return 0;
}

int rgetsockopt(int number, int level, int name, void *value, socklen_t *length)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->opening);
	int err = value && length ? tell(rs, level, name, value, length) : EFAULT;
	pthread_mutex_unlock(&rs->opening);
	leave(rs);
	return result(err);
}

int rfcntl(int number, int command, ...)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	va_list args;
	int value = 0, err = 0;
	va_start(args, command);
	switch (command) {
	case F_GETFL:
		value = rs->flags;
		break;
	case F_SETFL:
		rs->flags = va_arg(args, int);
		break;
	default:
		err = ENOTSUP;
	}
	va_end(args);
	leave(rs);
	return err ? result(err) : value;
}
