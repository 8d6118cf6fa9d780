// The engine's functions for sockets (verbs/engine.h says how they are called).
//
// A socket of the engine's has a handle. waits is for how many ms a call that finds nothing may wait
// in the engine, where no signal ends it; EAGAIN: there was nothing, and sleep says how to wait for
// more (wait.c).
#ifndef RSOCKETS_FUNCTIONS_H
#define RSOCKETS_FUNCTIONS_H

#include "../engine/rsocket.h"

#define ENGINE_FUNCTIONS_RSOCKETS(F) \
	F(rs_open, (int domain, int type, uint32_t *handle)) \
	F(rs_configure, (uint32_t socket, const struct goroce_rs_options *)) \
	F(rs_bind, (uint32_t socket, const struct sockaddr *, socklen_t)) \
	F(rs_listen, (uint32_t socket, int backlog)) \
	F(rs_accept, (uint32_t socket, uint32_t *handle)) \
	F(rs_connect, (uint32_t socket, const struct sockaddr *, socklen_t)) \
	F(rs_connected, (uint32_t socket, int waits)) \
	F(rs_shutdown, (uint32_t socket, int how)) \
	F(rs_close, (uint32_t socket)) \
	F(rs_name, (uint32_t socket, int peer, struct sockaddr_storage *)) \
	F(rs_status, (uint32_t socket, int option, int *value)) \
	F(rs_sleep, (uint32_t socket, int number, int on)) \
	F(rs_recv, (uint32_t socket, void *, size_t, int peek, int waits, size_t *n)) \
	F(rs_send, (uint32_t socket, const struct iovec *, int n, size_t from, int waits, size_t *sent)) \
	F(rs_recvfrom, (uint32_t socket, const struct iovec *, int n, int peek, struct sockaddr_storage *, size_t *got)) \
	F(rs_sendto, (uint32_t socket, const struct iovec *, int n, const struct sockaddr *, socklen_t)) \
	F(rs_poll, (struct goroce_rs_poll *, int n, int waits, int sleeps, int *ready)) \
	F(rs_wake, (struct goroce_rs_poll *, int n)) \
	F(rs_map, (uint32_t socket, void *, size_t, uint64_t offset)) \
	F(rs_unmap, (uint32_t socket, void *, size_t)) \
	F(rs_write_at, (uint32_t socket, const void *, size_t, uint64_t offset, int waits, size_t *sent))

#endif
