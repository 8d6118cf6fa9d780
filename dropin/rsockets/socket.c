// What becomes of a socket: made, bound, listening, accepted, connected, shut down, closed; and the
// addresses of both ends.
#include "rsockets.h"

#include <netinet/in.h>
#include <string.h>

int rsocket(int domain, int type, int protocol)
{
	bool stream = type == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP);
	bool datagram = type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
	if ((domain != AF_INET && domain != AF_INET6) || !(stream || datagram))
		return result(ENOTSUP);
	struct rsocket *rs = number_new(domain, type);
	if (!rs)
		return -1;
	int number = rs->number;
	leave(rs);
	return number;
}

int rbind(int number, const struct sockaddr *addr, socklen_t length)
{
	struct rsocket *rs = enter(number);
	uint32_t handle;
	if (!rs)
		return -1;
	int err = handle_of(rs, &handle);
	if (!err)
		err = ENGINE(rs_bind, handle, addr, length);
	leave(rs);
	return result(err);
}

// shows has the number of what is asked by poll alone be what tells.
static int shows(struct rsocket *rs, uint32_t handle)
{
	int err = ENGINE(rs_sleep, handle, rs->number, 1);
	if (!err)
		ENGINE(rs_sleep, handle, rs->number, 0);
	return err;
}

int rlisten(int number, int backlog)
{
	struct rsocket *rs = enter(number);
	uint32_t handle;
	if (!rs)
		return -1;
	int err = rs->type == SOCK_STREAM ? handle_of(rs, &handle) : EOPNOTSUPP;
	if (!err && !(err = ENGINE(rs_listen, handle, backlog))) {
		rs->listens = true;
		err = shows(rs, handle);
	}
	leave(rs);
	return result(err);
}

static void leaves(void *rs) { leave(rs); }

// give copies an address to a program's, which may have less room; its length is told as it is.
static void give(const struct sockaddr_storage *from, struct sockaddr *to, socklen_t *length)
{
	socklen_t is = from->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (to)
		memcpy(to, from, *length < is ? *length : is);
	*length = is;
}

// accepted makes a socket of the next connection; an errno. The number is there before: where none
// is left the connection waits, as one of TCP does.
static int accepted(struct rsocket *from, int *number, struct sockaddr *addr, socklen_t *length)
{
	struct sockaddr_storage peer = {0};
	struct rsocket *rs = number_new(from->domain, SOCK_STREAM);
	uint32_t handle = 0;
	if (!rs)
		return errno;
	int err = ENGINE(rs_accept, from->handle, &handle);
	if (err) {
		number_close(rs);
		leave(rs);
		return err;
	}
	rs->handle = handle;
	pthread_mutex_lock(&from->opening);
	struct settings set = from->set;
	pthread_mutex_unlock(&from->opening);
	set.route = NULL;
	set.route_length = 0;
	rs->set = set;
	if (addr && length && !ENGINE(rs_name, handle, 1, &peer))
		give(&peer, addr, length);
	*number = rs->number;
	leave(rs);
	return 0;
}

int raccept(int number, struct sockaddr *addr, socklen_t *length)
{
	struct rsocket *rs = enter(number);
	int err = EINVAL, new = -1;
	if (!rs)
		return -1;
	pthread_cleanup_push(leaves, rs);
	if (rs->listens)
		while ((err = accepted(rs, &new, addr, length)) == EAGAIN && blocks(rs, 0))
			if ((err = asleep(rs, POLLIN)))
				break;
	pthread_cleanup_pop(1);
	return err ? result(err) : new;
}

int rconnect(int number, const struct sockaddr *addr, socklen_t length)
{
	struct rsocket *rs = enter(number);
	uint32_t handle;
	if (!rs)
		return -1;
	int err = handle_of(rs, &handle);
	pthread_cleanup_push(leaves, rs);
	if (!err)
		err = ENGINE(rs_connect, handle, addr, length);
	if (err == EINPROGRESS && blocks(rs, 0))
		while ((err = ENGINE(rs_connected, handle, ATTEND)) == EINPROGRESS)
			if ((err = asleep(rs, POLLOUT)))
				break;
	pthread_cleanup_pop(1);
	return result(err);
}

int rshutdown(int number, int how)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	int err = how < SHUT_RD || how > SHUT_RDWR ? EINVAL : rs->handle ? ENGINE(rs_shutdown, rs->handle, how) : 0;
	leave(rs);
	return result(err);
}

// The number is closed when other calls that use it have ended, which the engine makes them do.
int rclose(int number)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	int err = 0;
	if (!number_close(rs))
		err = EBADF;
	else {
		pthread_mutex_lock(&rs->opening); // a call may be making it known to the engine
		uint32_t handle = rs->handle;
		pthread_mutex_unlock(&rs->opening);
		err = handle ? ENGINE(rs_close, handle) : 0;
	}
	leave(rs);
	return result(err);
}

// name is the address of this end, which may be that of none, or of the other.
static int name(int number, int peer, struct sockaddr *addr, socklen_t *length)
{
	struct rsocket *rs = enter(number);
	struct sockaddr_storage is = {0};
	if (!rs)
		return -1;
	is.ss_family = rs->domain;
	int err = rs->handle ? ENGINE(rs_name, rs->handle, peer, &is) : ENOTCONN;
	if (err == ENOTCONN && !peer)
		err = 0;
	if (!err && !length)
		err = EFAULT;
	if (!err)
		give(&is, addr, length);
	leave(rs);
	return result(err);
}

int rgetpeername(int number, struct sockaddr *addr, socklen_t *length) { return name(number, 1, addr, length); }
int rgetsockname(int number, struct sockaddr *addr, socklen_t *length) { return name(number, 0, addr, length); }
