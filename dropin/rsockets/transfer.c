// Bytes and datagrams. A call that finds nothing waits in the engine for a while, and then sleeps.
// The calls of one direction take turns: what a call that blocks sends is in one piece.
//
// Stages: a call and its turn; receiving; sending; memory that is written directly.
#include "rsockets.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

// A call, which holds a turn.
struct call {
	struct rsocket *rs;
	pthread_mutex_t *turn;
};

static void end(void *call)
{
	struct call *c = call;
	pthread_mutex_unlock(c->turn);
	leave(c->rs);
}

// begin takes the turn; an errno. Who does not block does not wait for who does.
static int begin(struct call *c, bool waits)
{
	if (pthread_mutex_trylock(c->turn)) {
		if (!waits) {
			leave(c->rs);
			return EAGAIN;
		}
		pthread_mutex_lock(c->turn);
	}
	return 0;
}

static ssize_t receive(struct rsocket *rs, char *to, size_t length, int flags)
{
	struct call c = {rs, &rs->reads};
	bool waits = blocks(rs, flags), all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
	size_t got = 0, n;
	int err = begin(&c, waits);
	if (err)
		return result(err);
	pthread_cleanup_push(end, &c);
	do {
		n = 0;
		err = rs->handle ? 0 : ENOTCONN;
		while (!err && (err = ENGINE(rs_recv, rs->handle, to + got, length - got, flags & MSG_PEEK, waits ? ATTEND : 0,
		                             &n)) == EAGAIN && waits)
			err = asleep(rs, POLLIN);
		got += n;
	} while (!err && n && all && got < length);
	pthread_cleanup_pop(1);
	return got || !err ? (ssize_t)got : result(err);
}

static ssize_t receive_datagram(struct rsocket *rs, const struct iovec *v, int n, int flags, struct sockaddr_storage *from)
{
	struct call c = {rs, &rs->reads};
	bool waits = blocks(rs, flags);
	uint32_t handle;
	size_t got = 0;
	int err = begin(&c, waits);
	if (err)
		return result(err);
	pthread_cleanup_push(end, &c);
	err = handle_of(rs, &handle);
	while (!err && (err = ENGINE(rs_recvfrom, handle, v, n, flags & MSG_PEEK, from, &got)) == EAGAIN && waits)
		err = asleep(rs, POLLIN);
	pthread_cleanup_pop(1);
	return err ? result(err) : (ssize_t)got;
}

ssize_t rrecvfrom(int number, void *to, size_t length, int flags, struct sockaddr *from, socklen_t *from_length)
{
	struct rsocket *rs = enter(number);
	struct iovec v = {to, length};
	struct sockaddr_storage is = {0};
	ssize_t got;
	if (!rs)
		return -1;
	if (rs->type == SOCK_DGRAM)
		got = receive_datagram(rs, &v, 1, flags, &is);
	else if ((got = receive(rs, to, length, flags)) > 0 && from)
		rgetpeername(number, from, from_length);
	if (got >= 0 && is.ss_family && from_length) {
		socklen_t size = is.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
		if (from)
			memcpy(from, &is, *from_length < size ? *from_length : size);
		*from_length = size;
	}
	return got;
}

ssize_t rrecv(int number, void *to, size_t length, int flags) { return rrecvfrom(number, to, length, flags, NULL, NULL); }
ssize_t rread(int number, void *to, size_t length) { return rrecv(number, to, length, 0); }

// receive_pieces fills one piece of memory after the other, and waits only for the first bytes,
// unless all are wanted.
static ssize_t receive_pieces(int number, const struct iovec *v, int n, int flags)
{
	struct rsocket *rs = n < 0 || (n && !v) ? (errno = EINVAL, NULL) : enter(number);
	ssize_t sum = 0, got = 0;
	if (!rs)
		return -1;
	if (rs->type == SOCK_DGRAM)
		return receive_datagram(rs, v, n, flags, NULL);
	leave(rs);
	for (int i = 0; i < n; i++) {
		if (!v[i].iov_len)
			continue;
		bool more = sum && !(flags & MSG_WAITALL);
		if ((got = rrecv(number, v[i].iov_base, v[i].iov_len, flags | (more ? MSG_DONTWAIT : 0))) < 0)
			return sum ? sum : got;
		sum += got;
		if ((size_t)got < v[i].iov_len || (flags & MSG_PEEK))
			break;
	}
	return sum;
}

ssize_t rreadv(int number, const struct iovec *v, int n) { return receive_pieces(number, v, n, 0); }

ssize_t rrecvmsg(int number, struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return result(ENOTSUP);
	ssize_t got = msg->msg_name && msg->msg_iovlen == 1 ?
		rrecvfrom(number, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags, msg->msg_name, &msg->msg_namelen) :
		receive_pieces(number, msg->msg_iov, msg->msg_iovlen, flags);
	if (got >= 0)
		msg->msg_flags = 0;
	return got;
}

static size_t sum(const struct iovec *v, int n)
{
	size_t length = 0;
	for (int i = 0; i < n; i++)
		length += v[i].iov_len;
	return length;
}

static ssize_t transmit(struct rsocket *rs, const struct iovec *v, int n, int flags)
{
	struct call c = {rs, &rs->writes};
	bool waits = blocks(rs, flags);
	size_t length = sum(v, n), sent = 0, k;
	int err = begin(&c, waits);
	if (err)
		return result(err);
	pthread_cleanup_push(end, &c);
	err = rs->handle ? 0 : ENOTCONN;
	while (!err && sent < length) {
		k = 0;
		err = ENGINE(rs_send, rs->handle, v, n, sent, waits ? ATTEND : 0, &k);
		sent += k;
		if (err == EAGAIN && waits)
			err = asleep(rs, POLLOUT);
	}
	pthread_cleanup_pop(1);
	return sent || !err ? (ssize_t)sent : result(err);
}

static ssize_t transmit_datagram(struct rsocket *rs, const struct iovec *v, int n, const struct sockaddr *to, socklen_t length)
{
	struct call c = {rs, &rs->writes};
	uint32_t handle;
	begin(&c, true);
	int err = handle_of(rs, &handle);
	if (!err)
		err = ENGINE(rs_sendto, handle, v, n, to, length);
	end(&c);
	return err ? result(err) : (ssize_t)sum(v, n);
}

static ssize_t transmit_pieces(int number, const struct iovec *v, int n, int flags, const struct sockaddr *to, socklen_t length)
{
	struct rsocket *rs = n < 0 || (n && !v) ? (errno = EINVAL, NULL) : enter(number);
	if (!rs)
		return -1;
	if (rs->type == SOCK_DGRAM)
		return transmit_datagram(rs, v, n, to, length);
	if (to || length) {
		leave(rs);
		return result(EISCONN);
	}
	return transmit(rs, v, n, flags);
}

ssize_t rsendto(int number, const void *from, size_t length, int flags, const struct sockaddr *to, socklen_t to_length)
{
	struct iovec v = {(void *)from, length};
	return transmit_pieces(number, &v, 1, flags, to, to_length);
}

ssize_t rsend(int number, const void *from, size_t length, int flags) { return rsendto(number, from, length, flags, NULL, 0); }
ssize_t rwrite(int number, const void *from, size_t length) { return rsendto(number, from, length, 0, NULL, 0); }
ssize_t rwritev(int number, const struct iovec *v, int n) { return transmit_pieces(number, v, n, 0, NULL, 0); }

ssize_t rsendmsg(int number, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return result(ENOTSUP);
	return transmit_pieces(number, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name, msg->msg_namelen);
}

// Memory that is for this end alone needs no registration: riowrite copies.
off_t riomap(int number, void *at, size_t length, int prot, int flags, off_t offset)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	struct call c = {rs, &rs->writes};
	uint64_t under = offset == -1 ? (uintptr_t)at : (uint64_t)offset;
	int err = begin(&c, true);
	if (!rs->handle || (prot & ~(PROT_WRITE | PROT_NONE)) || ENGINE(rs_connected, rs->handle, 0))
		err = EINVAL;
	else if (prot & PROT_WRITE)
		err = ENGINE(rs_map, rs->handle, at, length, under);
	end(&c);
	return err ? result(err) : (off_t)under;
}

int riounmap(int number, void *at, size_t length)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	struct call c = {rs, &rs->writes};
	int err = begin(&c, true);
	err = rs->handle ? ENGINE(rs_unmap, rs->handle, at, length) : EINVAL;
	end(&c);
	return result(err);
}

// Where nothing is exposed nothing is written, which is no error to rsockets; errno says so.
size_t riowrite(int number, const void *from, size_t length, off_t offset, int flags)
{
	struct rsocket *rs = enter(number);
	if (!rs)
		return -1;
	struct call c = {rs, &rs->writes};
	bool waits = blocks(rs, flags);
	size_t sent = 0, k;
	int err = begin(&c, waits);
	if (err)
		return result(err);
	pthread_cleanup_push(end, &c);
	err = rs->handle ? 0 : ENOTCONN;
	while (!err && sent < length) {
		k = 0;
		err = ENGINE(rs_write_at, rs->handle, (const char *)from + sent, length - sent, (uint64_t)offset + sent,
		             waits ? ATTEND : 0, &k);
		sent += k;
		if (err == EAGAIN && waits)
			err = nap();
	}
	pthread_cleanup_pop(1);
	if (err == EINVAL)
		errno = err;
	return sent || !err || err == EINVAL ? sent : (size_t)result(err);
}
